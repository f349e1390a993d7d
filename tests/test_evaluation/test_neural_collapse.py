# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pickle

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmpretrain.structures import DataSample

from mmgeom.evaluation import NeuralCollapse
from mmgeom.evaluation.metrics import neural_collapse
from mmgeom.geometry.class_means import class_means
from mmgeom.geometry.collapse import nc1, nc2, nc3, nc4
from mmgeom.geometry.collapse_centers import (
    center_distance,
    cosine_statistics,
    variability,
)
from mmgeom.geometry.frames import MultiCenterFrame
from mmgeom.registry import METRICS


def data(counts=(20, 9, 1), dim=6, seed=0):
    """Features, labels, class vectors and scores, in float32."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centers = torch.randn(len(counts), dim, generator=generator)
    noise = torch.randn(len(labels), dim, generator=generator)
    features = centers[labels] + 0.7 * noise
    weight = centers + 0.1
    return features, labels, weight, features @ weight.T


def samples(features, labels, scores=None, **fields):
    """What a head with predict_feature=True hands over."""
    result = []
    for i, label in enumerate(labels.tolist()):
        sample = DataSample().set_gt_label(label)
        sample.set_field(features[i], 'feature')
        if scores is not None:
            sample.set_pred_score(scores[i])
            if fields.get('with_label'):
                sample.set_pred_label(scores[i].argmax(0, keepdim=True))
        result.append(sample)
    return result


def evaluate(metric, data_samples, size=None):
    evaluator = Evaluator([metric])
    for i in range(0, len(data_samples), 7):
        evaluator.process(data_samples[i : i + 7])
    return evaluator.evaluate(size or len(data_samples))


def close(expected):
    return pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(neural_collapse, 'BATCH_SIZE', 8)


@pytest.mark.parametrize('form', [torch.Tensor.double, np.asarray, list])
def test_calculate_is_the_geometry(form):
    features, labels, weight, scores = data()
    means = class_means(features, labels).mean
    expected = {
        'nc1': nc1(features, labels),
        'nc4': nc4(features, labels, scores),
        'nc2': nc2(means),
        'nc3': nc3(means, weight),
        'variability': variability(features, labels, weight),
        **cosine_statistics(means, weight),
    }
    result = NeuralCollapse.calculate(
        form(features),
        labels.tolist(),
        form(weight),
        scores=form(scores),
        cosines=True,
    )
    assert result == close(expected)
    assert all(type(value) is float for value in result.values())
    assert NeuralCollapse.calculate(features, labels) == close(
        {name: expected[name] for name in ('nc1', 'nc2')}
    )
    predicted = NeuralCollapse.calculate(
        features, labels, scores=scores.argmax(1)
    )
    assert predicted['nc4'] == result['nc4'] > 0


def test_calculate_integers():
    features = [[3, 0], [1, 0], [0, 2]]
    result = NeuralCollapse.calculate(features, [0, 0, 1])
    assert result == close({'nc1': 1 / 12, 'nc2': 0})


@pytest.mark.parametrize('layout', ['random', 'axis', 'hadamard'])
def test_frame(layout):
    frame = MultiCenterFrame(3, 26, 32, 0.2, layout)
    frame.set_centers([1, 5, 20])
    features, labels, *_ = data(dim=32)
    centers, (directions, _) = frame.mean_centers(), frame.dense_basis()
    result = NeuralCollapse.calculate(features, labels, frame=frame)
    distance = center_distance(features, labels, centers)
    means = class_means(features, labels).mean
    assert result == close(
        {
            'nc1': nc1(features, labels),
            'nc4': nc4(features, labels, frame.class_scores(features)),
            'nc2': nc2(means, 'orthogonal'),
            'nc3': nc3(means, directions, 'orthogonal'),
            'variability': variability(features, labels, directions),
            'center_distance_mean': distance.mean,
            'center_distance_std': distance.std,
            'center_element_mean': distance.element_mean,
            'center_element_std': distance.element_std,
        }
    )
    simplex = NeuralCollapse.calculate(
        features, labels, frame=frame, target='simplex'
    )
    assert simplex['nc2'] == close(nc2(means))


def test_collapse_to_multiple_centers():
    frame = MultiCenterFrame(3, 60, 64, 0.2)
    frame.set_centers([20, 20, 20])
    labels = torch.arange(3).repeat_interleave(torch.tensor([5, 2, 1]))
    features = 2 * frame.mean_centers()[labels]
    result = NeuralCollapse.calculate(features, labels, frame=frame)
    assert result['variability'] == pytest.approx(0.3283598, abs=1e-6)
    for name in ('nc1', 'nc2', 'nc4', 'center_distance_mean'):
        assert abs(result[name]) < 1e-6


@pytest.mark.parametrize('with_label', [True, False])
def test_evaluator(with_label):
    features, labels, weight, scores = data()
    probabilities = scores.softmax(1)
    data_samples = samples(
        features, labels, probabilities, with_label=with_label
    )
    metric = METRICS.build(dict(type='mmgeom.NeuralCollapse', cosines=True))
    metric.set_collapse_targets(lambda: dict(directions=weight))
    result = evaluate(metric, data_samples)
    expected = NeuralCollapse.calculate(
        features, labels, weight, scores=probabilities, cosines=True
    )
    assert result == {f'collapse/{k}': v for k, v in expected.items()}
    assert not any('loss' in name for name in result)


def test_without_targets_and_predictions():
    features, labels, *_ = data()
    result = evaluate(NeuralCollapse(prefix='test'), samples(features, labels))
    assert set(result) == {'test/nc1', 'test/nc2'}


def test_targets_of_a_frame_and_geometry():
    features, labels, weight, scores = data()
    data_samples = samples(features, labels, scores)
    targets = dict(directions=weight, mean_centers=weight)

    def value(given, **more):
        metric = NeuralCollapse(given)
        metric.set_collapse_targets(lambda: {**targets, **more})
        result = evaluate(metric, data_samples)
        assert 'collapse/center_distance_std' in result
        return result['collapse/nc2']

    means = class_means(features, labels).mean
    orthogonal, simplex = nc2(means, 'orthogonal'), nc2(means)
    assert value(None) == close(orthogonal)
    assert value('simplex') == close(simplex)
    assert value(None, target='simplex') == close(simplex)
    assert value('orthogonal', target='simplex') == close(orthogonal)


def test_targets_are_asked_for_when_computed():
    features, labels, weight, _ = data()
    current = [weight]
    metric = NeuralCollapse()
    metric.set_collapse_targets(lambda: dict(directions=current[0]))
    metric.process(None, [s.to_dict() for s in samples(features, labels)])
    current[0] = -weight
    expected = NeuralCollapse.calculate(features, labels, -weight)
    assert metric.evaluate(len(labels)) == {
        f'collapse/{k}': v for k, v in expected.items()
    }


def test_padding_is_cut_off():
    features, labels, *_ = data()
    padded = samples(features, labels) + samples(features[:3], labels[:3])
    expected = NeuralCollapse.calculate(features, labels)
    assert evaluate(NeuralCollapse(), padded, len(labels)) == {
        f'collapse/{k}': v for k, v in expected.items()
    }


def test_results_are_small():
    # A row of a tensor would be pickled together with its whole batch.
    features, labels, *_ = data((100,), dim=256)
    metric = NeuralCollapse()
    dicts = [s.to_dict() for s in samples(features.bfloat16(), labels)]
    metric.process(None, dicts)
    assert metric.results[0][0].dtype == np.float32
    assert len(metric.results) == 100
    assert len(pickle.dumps(metric.results, 2)) < 1.5 * 100 * 4 * 256


def test_absent_class_and_single_class():
    features, labels, weight, scores = data()
    there = labels != 1
    result = NeuralCollapse.calculate(
        features[there], labels[there], weight, scores=scores[there]
    )
    assert {'nc1', 'nc2', 'nc3', 'nc4', 'variability'} == set(result)
    assert all(np.isfinite(value) for value in result.values())
    there = labels == 1
    result = NeuralCollapse.calculate(
        features[there], labels[there], weight, scores=scores[there]
    )
    assert set(result) == {'nc4', 'variability'}


def test_missing_feature_names_the_option():
    sample = DataSample().set_gt_label(0).set_pred_score(torch.ones(2) / 2)
    with pytest.raises(ValueError, match='set predict_feature=True of a'):
        NeuralCollapse().process(None, [sample.to_dict()])
    sample.set_field(torch.zeros(2, 3), 'feature')
    with pytest.raises(ValueError, match=r'vector \(d,\), got shape \(2, 3'):
        NeuralCollapse().process(None, [sample.to_dict()])


@pytest.mark.parametrize(
    'arguments, match',
    [
        (dict(features=torch.zeros(0, 2), labels=[]), 'no test sample'),
        (dict(labels=[0, 1, 2]), '2 predictions do not fit 3 test labels'),
        (dict(features=[[1.0, np.nan], [0, 1]]), 'NaN or infinite'),
        (dict(weight=torch.eye(3)), r'shape \(3, 3\) do not fit'),
        (dict(weight=torch.ones(1, 2)), r'\[0, 1\), got 0 to 1'),
        (dict(scores=[0]), '1 scores do not fit 2 features'),
        (dict(target='cube'), "target 'cube' is unknown"),
        (
            dict(weight=torch.eye(2), frame=MultiCenterFrame(2, 2, 4)),
            'got both',
        ),
        (dict(frame=MultiCenterFrame(2, 2, 4)), 'width 2 .* dimension 4'),
    ],
)
def test_calculate_failures(arguments, match):
    arguments = {'features': torch.eye(2), 'labels': [0, 1], **arguments}
    with pytest.raises(ValueError, match=match):
        NeuralCollapse.calculate(**arguments)


def test_unknown_target():
    with pytest.raises(ValueError, match=r"or None, got 'cube'"):
        NeuralCollapse(target='cube')


def test_empty_results():
    with pytest.raises(ValueError, match='no test sample to evaluate'):
        NeuralCollapse().evaluate(0)
