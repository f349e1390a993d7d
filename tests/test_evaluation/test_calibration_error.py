# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmpretrain.structures import DataSample
from torchmetrics.functional.classification import (
    multiclass_calibration_error,
)

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation import CalibrationError
from mmgeom.registry import METRICS

COUNTS = [500, 50, 50, 5]


def data(num=600, seed=0):
    generator = np.random.default_rng(seed)
    target = generator.integers(0, len(COUNTS), num)
    scores = generator.dirichlet([0.4] * len(COUNTS), num)
    return scores.astype(np.float32), target


def reference(scores, target, num_bins, norm):
    """Bin by bin; a confidence of 1 has a bin of its own."""
    confidence, pred = scores.max(1), scores.argmax(1)
    edges = np.linspace(0, 1, num_bins + 1)
    gaps, shares = [], []
    for b in range(num_bins + 1):
        upper = edges[b + 1] if b < num_bins else np.inf
        inside = (confidence >= edges[b]) & (confidence < upper)
        if inside.any():
            hit = (pred[inside] == target[inside]).mean()
            gaps.append(abs(hit - confidence[inside].mean()))
            shares.append(inside.mean())
    gaps, shares = np.array(gaps), np.array(shares)
    return (
        100
        * dict(
            l1=(gaps * shares).sum(),
            l2=np.sqrt((gaps**2 * shares).sum()),
            max=gaps.max(),
        )[norm]
    )


@pytest.mark.parametrize('num_bins', [1, 10, 15])
@pytest.mark.parametrize(
    'norm, name', [('l1', 'ece'), ('l2', 'rmsce'), ('max', 'mce')]
)
def test_reference(num_bins, norm, name):
    scores, target = data()
    scores[:3] = np.eye(4)[:3]  # saturated
    result = CalibrationError.calculate(
        scores,
        target,
        LabelDistribution(COUNTS),
        num_bins=num_bins,
        norm=norm,
    )
    groups = {
        name: slice(None),
        f'{name}_many': target == 0,
        f'{name}_medium': (target == 1) | (target == 2),
        f'{name}_few': target == 3,
    }
    expected = {
        key: reference(scores[mask], target[mask], num_bins, norm)
        for key, mask in groups.items()
    }
    assert result == pytest.approx(expected, abs=1e-3)
    assert all(type(value) is float for value in result.values())


@pytest.mark.parametrize('norm', ['l1', 'l2', 'max'])
def test_same_as_multiclass_of_torchmetrics(norm):
    scores, target = data()
    (result,) = CalibrationError.calculate(scores, target, norm=norm).values()
    expected = multiclass_calibration_error(
        torch.tensor(scores), torch.tensor(target), 4, 15, norm
    )
    assert result == 100 * expected.item()


@pytest.mark.parametrize('form', [torch.tensor, np.asarray, list])
def test_closed_form(form):
    scores = form([[0.75, 0.25], [0.25, 0.75]])
    assert CalibrationError.calculate(scores, form([0, 1])) == {'ece': 25.0}
    assert CalibrationError.calculate(scores, form([1, 0])) == {'ece': 75.0}


def test_empty_group_is_left_out():
    result = CalibrationError.calculate(
        [[1.0, 0, 0, 0]], [0], LabelDistribution(COUNTS)
    )
    assert result == {'ece': 0.0, 'ece_many': 0.0}


def test_in_an_evaluator():
    scores, target = data(50)
    metric = METRICS.build(dict(type='mmgeom.CalibrationError', num_bins=5))
    training = LabelDistribution(COUNTS)
    metric.set_label_distribution(training)
    evaluator = Evaluator([metric])
    evaluator.process(
        [
            DataSample().set_gt_label(label).set_pred_score(score)
            for score, label in zip(torch.tensor(scores), target.tolist())
        ]
    )
    assert len(metric.results) == 50
    expected = CalibrationError.calculate(scores, target, training, num_bins=5)
    result = evaluator.evaluate(50)
    assert result == {f'calibration/{k}': v for k, v in expected.items()}


def test_half_precision_is_tolerated():
    scores = torch.randn(8, 100).softmax(1).half()
    result = CalibrationError.calculate(scores, [0] * 8)
    expected = CalibrationError.calculate(scores.float(), [0] * 8)
    assert result['ece'] == pytest.approx(expected['ece'], abs=0.1)


@pytest.mark.parametrize(
    'scores, match',
    [
        ([[2.0, -1.0]], r'sample 0 are no probabilities .*largest 2, sum 1'),
        ([[0.5, 0.5], [0.4, 0.4]], r'sample 1 .* sum 0.8'),
        ([[float('nan'), 1.0]], 'sample 0 are no probabilities'),
        ([0.5, 0.5], r'shape \(2,\)'),
    ],
)
def test_scores_must_be_probabilities(scores, match):
    with pytest.raises(ValueError, match=match):
        CalibrationError.calculate(scores, [0] * len(scores))
    samples = [
        dict(gt_label=torch.tensor([0]), pred_score=torch.tensor(row))
        for row in scores
    ]
    with pytest.raises(ValueError, match='probabilities|scores of all'):
        CalibrationError().process(None, samples)


@pytest.mark.parametrize(
    'arguments, match',
    [
        (dict(num_bins=0), 'num_bins must be a positive'),
        (dict(norm='l3'), "norm 'l3' is unknown"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        CalibrationError(**arguments)
    with pytest.raises(ValueError, match=match):
        CalibrationError.calculate([[0.5, 0.5]], [0], **arguments)


def test_wrong_labels():
    with pytest.raises(ValueError, match=r'2 lies outside \[0, 2\)'):
        CalibrationError.calculate([[0.5, 0.5]], [2])
    with pytest.raises(ValueError, match='scores of 2 .* of 4 classes'):
        CalibrationError.calculate(
            [[0.5, 0.5]], [0], LabelDistribution(COUNTS)
        )
    metric = CalibrationError()
    with pytest.raises(ValueError, match='no test sample'):
        metric.compute_metrics([])
    metric.set_label_distribution(LabelDistribution(COUNTS))
    with pytest.raises(ValueError, match='test label 4 lies outside'):
        metric.compute_metrics([(0.5, 0, 4)])
