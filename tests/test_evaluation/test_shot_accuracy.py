# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.hooks import CheckpointHook, EarlyStoppingHook
from mmengine.logging import MMLogger
from mmpretrain.evaluation import ConfusionMatrix
from mmpretrain.structures import DataSample

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation import ShotAccuracy
from mmgeom.registry import METRICS

COUNTS = [500, 101, 100, 20, 19, 0]
NAMES = {'accuracy', 'accuracy_class_mean'}


@pytest.fixture
def messages(monkeypatch):
    """What is logged to the current logger."""
    logged = []

    def log(message, logger=None, level=20):
        logged.append((level, message))

    module = 'mmgeom.evaluation.metrics.shot_metric.print_log'
    monkeypatch.setattr(module, log)
    return logged


def data(num=400, num_classes=6, seed=0):
    """Scores and labels; class 3 is not in the test set."""
    generator = np.random.default_rng(seed)
    target = generator.choice([0, 1, 2, 4, 5], num)
    scores = generator.dirichlet(np.ones(num_classes), num)
    scores[np.arange(num), target] += generator.uniform(0, 0.6, num)
    return scores / scores.sum(1, keepdims=True), target


def reference(pred, target, counts, many=100, few=20):
    """The definitions, sample by sample."""
    hits, totals = {}, {}
    for p, t in zip(pred, target):
        hits[t] = hits.get(t, 0) + (p == t)
        totals[t] = totals.get(t, 0) + 1
    accuracy = {k: 100 * hits[k] / totals[k] for k in totals}
    groups = {}
    for k, value in accuracy.items():
        name = (
            'many'
            if counts[k] > many
            else 'few'
            if counts[k] < few
            else 'medium'
        )
        groups.setdefault(f'accuracy_{name}', []).append(value)
    result = {name: sum(v) / len(v) for name, v in groups.items()}
    result['accuracy'] = 100 * sum(hits.values()) / len(target)
    result['accuracy_class_mean'] = sum(accuracy.values()) / len(accuracy)
    return result


@pytest.mark.parametrize('kind', ['scores', 'labels'])
@pytest.mark.parametrize('form', [torch.tensor, np.asarray, list])
@pytest.mark.parametrize('many, few', [(100, 20), (400, 101)])
def test_reference(kind, form, many, few):
    scores, target = data()
    labels = scores.argmax(1)
    pred = {'scores': scores, 'labels': labels}[kind].tolist()
    result = ShotAccuracy.calculate(
        form(pred),
        form(target.tolist()),
        LabelDistribution(COUNTS),
        dict(by='count', many=many, few=few),
    )
    expected = reference(labels, target, COUNTS, many, few)
    assert result == pytest.approx(expected, abs=1e-12)
    assert all(type(value) is float for value in result.values())


def test_closed_form():
    training = LabelDistribution([500, 50, 5])
    result = ShotAccuracy.calculate(
        [0, 0, 1, 0, 2, 0], [0, 0, 1, 1, 2, 2], training, per_class=True
    )
    assert result == {
        'accuracy': pytest.approx(400 / 6),
        'accuracy_class_mean': pytest.approx(200 / 3),
        'accuracy_many': 100.0,
        'accuracy_medium': 50.0,
        'accuracy_few': 50.0,
        'accuracy_class_0': 100.0,
        'accuracy_class_1': 50.0,
        'accuracy_class_2': 50.0,
    }


def test_balanced_test_set_overall_is_class_mean():
    target = np.repeat(np.arange(6), 30)
    pred = np.random.default_rng(1).integers(0, 6, len(target))
    result = ShotAccuracy.calculate(pred, target)
    assert set(result) == NAMES
    assert result['accuracy'] == pytest.approx(result['accuracy_class_mean'])


def test_groups_without_test_classes_are_left_out():
    training = LabelDistribution(COUNTS)
    result = ShotAccuracy.calculate([0, 1], [0, 1], training)
    assert set(result) == NAMES | {'accuracy_many'}


def test_named_ranges():
    groups = dict(by='range', ranges=dict(head=(0, 2), tail=(2, 6)))
    training = LabelDistribution(COUNTS)
    result = ShotAccuracy.calculate([0, 0, 2], [0, 1, 2], training, groups)
    assert result['accuracy_head'] == 50.0
    assert result['accuracy_tail'] == 100.0


@pytest.mark.parametrize(
    'num_classes, name',
    [(10, 'class_3'), (11, 'class_03'), (1001, 'class_0003')],
)
def test_class_names_sort_like_classes(num_classes, name):
    training = LabelDistribution([1] * num_classes)
    result = ShotAccuracy.calculate([3], [3], training, per_class=True)
    assert result[f'accuracy_{name}'] == 100.0
    assert sum(key.startswith('accuracy_class_') for key in result) == 2


def samples(scores, target, with_label=True):
    result = []
    for score, label in zip(torch.tensor(scores), target.tolist()):
        sample = DataSample().set_gt_label(label).set_pred_score(score)
        if with_label:
            sample.set_pred_label(score.argmax(dim=0, keepdim=True))
        result.append(sample)
    return result


@pytest.mark.parametrize('with_label', [True, False])
@pytest.mark.parametrize('batch', [7, 400])
def test_in_an_evaluator(with_label, batch, messages):
    scores, target = data()
    metric = METRICS.build(dict(type='mmgeom.ShotAccuracy', per_class=True))
    assert metric.label_distribution is None
    training = LabelDistribution(COUNTS)
    metric.set_label_distribution(training)
    assert metric.label_distribution is training
    evaluator = Evaluator([metric])
    everything = samples(scores, target, with_label)
    for start in range(0, len(target), batch):
        evaluator.process(everything[start : start + batch])
    assert len(metric.results) == len(target)
    result = evaluator.evaluate(len(target))
    expected = ShotAccuracy.calculate(scores, target, training, per_class=True)
    assert result == {f'shot/{k}': v for k, v in expected.items()}
    ((_, table),) = messages
    lines = [line.split() for line in table.splitlines()]
    heads = [line[0] for line in lines[3:]]
    assert heads == ['overall', 'class', 'many', 'medium', 'few']
    few = f'{expected["accuracy_few"]:.2f}'
    assert lines[-1] == ['few', '2', str(sum(target >= 4)), few]


def test_padding_of_the_last_batch_is_cut_off():
    metric = ShotAccuracy()
    scores, target = data(10)
    evaluator = Evaluator([metric])
    evaluator.process(samples(scores, target) + samples(scores, target)[:2])
    result = evaluator.evaluate(10)
    expected = ShotAccuracy.calculate(scores, target)
    assert result['shot/accuracy'] == expected['accuracy']


def test_predicted_label_comes_before_scores():
    sample = DataSample().set_gt_label(1).set_pred_label(1)
    sample.set_pred_score(torch.tensor([0.9, 0.1]))
    metric = ShotAccuracy()
    metric.process(None, [sample.to_dict()])
    assert metric.results == [(1, 1)]


def test_plain_numbers_as_saved_to_a_file():
    metric = ShotAccuracy()
    metric.process(None, [dict(gt_label=1, pred_score=[0.1, 0.9])])
    assert metric.results == [(1, 1)]


def test_without_distribution_one_warning(messages):
    metric = ShotAccuracy()
    for _ in range(2):
        assert set(metric.compute_metrics([(0, 0), (1, 0)])) == NAMES
    warnings = [text for level, text in messages if level == 30]
    assert len(warnings) == 1
    assert 'LabelDistributionHook' in warnings[0]


def test_logger_gets_the_table(caplog):
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        ShotAccuracy().compute_metrics([(0, 0)])
    finally:
        logger.removeHandler(caplog.handler)
    assert 'class mean' in caplog.text


def test_greater_is_inferred():
    key = 'shot/accuracy_few'
    assert CheckpointHook(save_best=key).rules == ['greater']
    assert EarlyStoppingHook(monitor=key).rule == 'greater'


def test_host_confusion_matrix_takes_the_same_inputs():
    scores, target = data()
    matrix = ConfusionMatrix.calculate(
        torch.tensor(scores), torch.tensor(target)
    )
    overall = 100 * matrix.trace().item() / len(target)
    result = ShotAccuracy.calculate(scores, target, per_class=True)
    assert overall == pytest.approx(result['accuracy'])
    recall = 100 * matrix[4, 4].item() / matrix[4].sum().item()
    assert recall == pytest.approx(result['accuracy_class_4'])


@pytest.mark.parametrize(
    'pred, target, match',
    [
        ([], [], 'no test sample'),
        ([0], [0, 1], '1 predictions do not fit 2 test labels'),
        ([0, 0], [0, 3], r'test label 3 lies outside \[0, 3\)'),
        ([0, 0], [-1, -1], r'test label -1 .* \(2 such labels\)'),
        ([0], [[1, 0, 1]], r'shape \(1, 3\): multi-label'),
        ([0, 0], [[0], [0, 1]], 'multi-label'),
        ([[0.5, 0.5]], [0], 'scores of 2 classes .* of 3 classes'),
        ([[[0.5]]], [0], r'shape \(1, 1, 1\)'),
        (0, [0], r'shape \(\)'),
    ],
)
def test_wrong_values(pred, target, match):
    with pytest.raises(ValueError, match=match):
        ShotAccuracy.calculate(pred, target, LabelDistribution([9, 9, 9]))


def test_negative_label_without_distribution():
    with pytest.raises(ValueError, match='test label -1'):
        ShotAccuracy.calculate([0], [-1])


def test_groups_need_a_distribution():
    with pytest.raises(ValueError, match='need the label distribution'):
        ShotAccuracy.calculate([0], [0], groups=dict(by='thirds'))


@pytest.mark.parametrize(
    'sample, match',
    [
        (dict(pred_label=torch.tensor([0])), "no 'gt_label'"),
        (dict(gt_label=torch.tensor([0])), "no 'pred_score'"),
        (
            dict(gt_label=torch.tensor([0, 2]), pred_label=torch.tensor([0])),
            "2 labels in 'gt_label'",
        ),
    ],
)
def test_wrong_samples(sample, match):
    with pytest.raises(ValueError, match=match):
        ShotAccuracy().process(None, [sample])


def test_no_results():
    with pytest.raises(ValueError, match='no test sample'):
        ShotAccuracy().compute_metrics([])


@pytest.mark.parametrize(
    'groups, match',
    [
        (dict(by='range', ranges=dict(a=(0, 9))), 'lies outside'),
        (dict(by='half'), 'unknown'),
        (dict(by='given', groups=dict(class_mean=[0])), "'class_mean'"),
    ],
)
def test_wrong_groups_are_refused_before_training(groups, match):
    metric = ShotAccuracy(groups=groups)
    with pytest.raises(ValueError, match=match):
        metric.set_label_distribution(LabelDistribution(COUNTS))
