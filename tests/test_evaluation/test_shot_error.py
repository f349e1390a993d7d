# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.hooks import CheckpointHook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.structures import DataSample
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation import ShotError
from mmgeom.evaluation.functional import REGRESSION_ERRORS
from mmgeom.registry import METRICS

ALL = tuple(REGRESSION_ERRORS)
DEFAULT = ('mae', 'mse', 'rmse', 'gm')
COUNTS = [500, 101, 100, 20, 19, 0]
LOCATIONS = dict(
    many=[[0.2, 0.8]],
    medium=[[0.1, 0.2], [0.8, 0.9]],
    few=[[0, 0.1], [0.9, 1]],
)
# The lists of the STS-B-DIR benchmark, bins of a tenth over [0, 5].
STS_MANY = [0, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38]
STS_MANY += [40, 42, 44, 46, 48, 49]
STS_MEDIUM = [2, 4, 6, 8, 27, 35, 37]


@pytest.fixture
def messages(monkeypatch):
    """What is logged to the current logger: level and text."""
    logged = []

    def log(message, logger=None, level=20):
        logged.append((level, message))

    for module in ('shot_metric', 'shot_error'):
        monkeypatch.setattr(
            f'mmgeom.evaluation.metrics.{module}.print_log', log
        )
    return logged


def warnings(messages):
    return [text for level, text in messages if level == 30]


def ages(counts=COUNTS):
    """Training labels of width-one bins at 0, 1, ..."""
    return LabelDistribution(counts, LabelBins(np.arange(-0.5, len(counts))))


def data(num=200, seed=0):
    """Predictions and labels; no label is in bin 3."""
    generator = np.random.default_rng(seed)
    target = generator.choice([0, 1, 2, 4, 5], num)
    target = target + generator.uniform(-0.4, 0.4, num).round(1)
    pred = target + generator.normal(0, 1, num)
    return pred.astype(np.float32), target.astype(np.float32)


def group_of(count):
    return 'many' if count > 100 else 'few' if count < 20 else 'medium'


def reference(pred, target, counts):
    """The definitions of mae, mse, bmae and gm, sample by sample."""
    groups = {None: {}, 'many': {}, 'medium': {}, 'few': {}}
    for p, t in zip(pred.tolist(), target.tolist()):
        label = min(max(round(t), 0), len(counts) - 1)
        for name in (None, group_of(counts[label])):
            groups[name].setdefault(label, []).append(abs(p - t))
    result = {}
    for name, by_label in groups.items():
        errors = [e for group in by_label.values() for e in group]
        num = len(errors)
        end = '' if name is None else f'_{name}'
        result[f'mae{end}'] = sum(errors) / num
        result[f'mse{end}'] = sum(e * e for e in errors) / num
        result[f'gm{end}'] = math.exp(sum(map(math.log, errors)) / num)
        means = [sum(e) / len(e) for e in by_label.values()]
        result[f'bmae{end}'] = sum(means) / len(means)
    return result


def samples(pred, target, **extra):
    """Data samples as the host hands them to an evaluator."""
    result = []
    for i, (p, t) in enumerate(zip(np.atleast_1d(pred), target)):
        sample = DataSample()
        sample.set_gt_score(torch.tensor(np.atleast_1d(t)))
        sample.set_pred_score(torch.tensor(np.atleast_1d(p)))
        sample.set_metainfo({name: v[i] for name, v in extra.items()})
        result.append(sample)
    return result


@pytest.mark.parametrize('form', [torch.tensor, np.asarray, list])
def test_reference(form):
    pred, target = data()
    result = ShotError.calculate(
        form(pred.tolist()),
        form(target.tolist()),
        ages(),
        items=('mae', 'mse', 'gm', 'bmae'),
    )
    expected = reference(pred, target, COUNTS)
    assert result == pytest.approx(expected, rel=1e-6)
    assert all(type(value) is float for value in result.values())


def test_sample_weighted_within_a_group():
    # Three samples of one many-shot bin, one of another.
    result = ShotError.calculate([1, 1, 1, 5], [0, 0, 0, 1], ages([200, 150]))
    assert result['mae_many'] == 7 / 4
    assert result['mse_many'] == 19 / 4
    balanced = ShotError.calculate(
        [1, 1, 1, 5], [0, 0, 0, 1], ages([200, 150]), items='bmae'
    )
    assert balanced['bmae_many'] == (1 + 4) / 2


def test_groups_without_test_samples_are_left_out():
    result = ShotError.calculate([0], [1], ages(), items=ALL)
    assert set(result) == {*ALL, *(f'{name}_many' for name in ALL)}
    # One sample has no correlation.
    assert {key for key, value in result.items() if math.isnan(value)} == {
        *('pearson', 'spearman', 'pearson_many', 'spearman_many'),
    }


def test_labels_beyond_the_bins_and_empty_bins():
    training = ages([200, 0, 50])
    result = ShotError.calculate(
        [0, 0, 0, 0], [-7, 1, 9, 2], training, items=['mae']
    )
    assert result == dict(
        mae=19 / 4, mae_many=7.0, mae_medium=11 / 2, mae_few=1.0
    )


def test_lists_of_bins_of_sts_b():
    training = LabelDistribution([9] * 50, LabelBins(np.linspace(0, 5, 51)))
    given = dict(many=STS_MANY, medium=STS_MEDIUM)
    groups = dict(by='given', groups=given, rest='few')
    assert len(training.groups(**groups)['few']) == 50 - 22 - 7
    # One label inside each bin, and 5.0, which is in the last.
    target = np.append(np.arange(50) / 10 + 0.05, 5.0)
    error = np.arange(51.0)
    result = ShotError.calculate(
        target + error, target, training, groups, items=['mae']
    )
    few = set(range(50)) - set(STS_MANY) - set(STS_MEDIUM)
    expected = dict(
        mae=25.0,
        mae_many=(sum(STS_MANY) + 50) / 23,
        mae_medium=sum(STS_MEDIUM) / 7,
        mae_few=sum(few) / 21,
    )
    assert result == pytest.approx(expected)


def test_labels_on_edges_are_grouped_as_in_training():
    # As float32, which samples carry, 3.8 lies a little below the edge 3.8.
    target = np.full(4, 3.8)
    training = LabelDistribution.from_values(target, dict(edges=[0, 3.8, 5]))
    groups = dict(by='given', groups=dict(low=[0], high=[1]))
    metric = ShotError('mae', groups)
    metric.set_label_distribution(training)
    metric.process(
        None, [s.to_dict() for s in samples(target, target.astype('float32'))]
    )
    result = metric.compute_metrics(metric.results)
    assert result['mae_high'] == pytest.approx(0, abs=1e-6)
    assert 'mae_low' not in result


def test_thirds_with_ties():
    # Of equal counts the lower bin is the more frequent.
    training = ages([7, 7, 7, 7, 9, 0])
    target = np.arange(6.0)
    result = ShotError.calculate(
        target + [1, 2, 4, 8, 16, 32],
        target,
        training,
        dict(by='thirds'),
        items=['mae'],
    )
    assert result['mae_many'] == (16 + 1) / 2
    assert result['mae_medium'] == (2 + 4) / 2
    assert result['mae_few'] == (8 + 32) / 2


def test_named_ranges():
    groups = dict(by='range', ranges=dict(young=(0, 2), overall=(2, 6)))
    result = ShotError.calculate([1, 4], [0, 2], ages(), groups, items=['mae'])
    assert result == dict(mae=1.5, mae_young=1.0, mae_overall=2.0)


@pytest.mark.parametrize('with_training', [False, True])
def test_groups_by_another_number(with_training):
    location = [0.05, 0.1, 0.5, 0.7, 0.85, 0.9, 1.0, 2.0]
    error = 2.0 ** np.arange(8)
    result = ShotError.calculate(
        error,
        np.zeros(8),
        ages() if with_training else None,
        items=['mae'],
        group_values=location,
        intervals=LOCATIONS,
    )
    assert result == dict(
        mae=255 / 8, mae_many=12 / 2, mae_medium=18 / 2, mae_few=97 / 3
    )


@pytest.mark.parametrize(
    'values',
    [
        [0.5, 0.15, 0.95],
        np.array([0.5, 0.15, 0.95], dtype=np.float32),
        [torch.tensor([0.5]), torch.tensor(0.15), np.array([0.95])],
    ],
)
def test_groups_by_an_entry_of_the_samples(values, messages):
    metric = METRICS.build(
        dict(
            type='mmgeom.ShotError',
            items='mae',
            group_by='group_value',
            intervals=LOCATIONS,
        )
    )
    evaluator = Evaluator([metric])
    evaluator.process(samples([1.0, 3.0, 7.0], [0.0] * 3, group_value=values))
    assert evaluator.evaluate(3) == {
        'error/mae': pytest.approx(11 / 3),
        'error/mae_many': 1.0,
        'error/mae_medium': 3.0,
        'error/mae_few': 7.0,
    }
    assert metric.groups == {}  # for the table of LabelDistributionHook
    assert warnings(messages) == []


@pytest.mark.parametrize('batch', [7, 200])
def test_in_an_evaluator(batch, messages):
    pred, target = data()
    metric = METRICS.build(dict(type='mmgeom.ShotError', items=ALL))
    training = ages()
    metric.set_label_distribution(training)
    assert metric.label_distribution is training
    evaluator = Evaluator([metric])
    everything = samples(pred, target)
    for start in range(0, len(target), batch):
        evaluator.process(everything[start : start + batch])
    assert len(metric.results) == len(target)
    result = evaluator.evaluate(len(target))
    expected = ShotError.calculate(pred, target, training, items=ALL)
    assert result == {f'error/{k}': v for k, v in expected.items()}
    assert len(result) == len(ALL) * 4
    ((_, table),) = messages
    lines = [line.split() for line in table.splitlines()]
    assert lines[1] == ['bins', 'samples', *ALL]
    heads = [line[0] for line in lines[3:]]
    assert heads == ['overall', 'many', 'medium', 'few']
    row = lines[-1]
    assert row[1:3] == ['2', str(sum(target > 3.5))]
    assert row[3] == f'{expected["mae_few"]:.4g}'
    assert '…' not in table  # nothing was cut off


def test_defaults():
    result = ShotError.calculate([1], [0], ages([200]))
    assert set(result) == {*DEFAULT, *(f'{m}_many' for m in DEFAULT)}


def test_padding_of_the_last_batch_is_cut_off():
    pred, target = data(10)
    evaluator = Evaluator([ShotError()])
    everything = samples(pred, target)
    evaluator.process(everything + everything[:2])
    result = evaluator.evaluate(10)
    expected = ShotError.calculate(pred, target)
    assert result == {f'error/{k}': v for k, v in expected.items()}


def test_plain_numbers_as_saved_to_a_file():
    metric = ShotError()
    metric.process(None, [dict(gt_score=[1.5], pred_score=2)])
    half = torch.tensor([0.5], dtype=torch.float16, requires_grad=True)
    metric.process(None, [dict(gt_score=np.ones(1), pred_score=half)])
    assert metric.results == [([2.0], [1.5], None), ([0.5], [1.0], None)]


def test_without_distribution_one_warning(messages):
    metric = ShotError('mae')
    for _ in range(2):
        result = metric.compute_metrics([([0], [0], None), ([1], [0], None)])
        assert result == dict(mae=0.5)
    (warning,) = warnings(messages)
    assert 'LabelDistributionHook' in warning
    assert 'labels' in messages[1][1]


def test_empty_groups_one_warning(messages):
    metric = ShotError('mae')
    metric.set_label_distribution(ages())
    for _ in range(2):
        metric.compute_metrics([([0], [2], None)])
    (warning,) = warnings(messages)
    assert warning.startswith('No test sample is in the shot groups many, few')
    assert 'nan' not in messages[-1][1]


def test_several_targets_have_no_groups(messages):
    metric = ShotError(('mae', 'bmae'))
    metric.set_label_distribution(ages())
    for _ in range(2):
        result = metric.compute_metrics(
            [([0, 1], [0, 0], None), ([0, 0], [4, 0], None)]
        )
        assert result == dict(mae=5 / 4, bmae=5 / 4)
    (warning,) = warnings(messages)
    assert 'one target a sample and these have 2' in warning
    direct = ShotError.calculate(
        [[0, 1], [0, 0]], [[0, 0], [4, 0]], ages(), items=['mae', 'bmae']
    )
    assert direct == result


@pytest.mark.parametrize('wrong', [math.nan, math.inf])
def test_predictions_that_are_not_finite_are_reported(wrong, messages):
    metric = ShotError(('mae', 'spearman'))
    metric.set_label_distribution(ages([200, 50, 5]))
    metric.process(
        None,
        [
            s.to_dict()
            for s in samples([wrong, 1.5, 2.0, 1.0], [0.0, 1.0, 2.0, 1.0])
        ],
    )
    result = metric.compute_metrics(metric.results)
    assert result['mae'] == pytest.approx(wrong, nan_ok=True)
    assert result['mae_many'] == pytest.approx(wrong, nan_ok=True)
    assert result['mae_medium'] == 0.25
    assert result['mae_few'] == 0
    assert math.isnan(result['spearman'])
    (warning,) = warnings(messages)
    assert warning.startswith('The predictions of 1 of 4 test samples')


@pytest.mark.parametrize('listed', [False, True])
def test_mmengine_does_not_take_it_for_an_evaluator(listed):
    cfg = dict(type='mmgeom.ShotError', items=('mae', 'mse'))
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        evaluator = Runner.build_evaluator(None, [cfg] if listed else cfg)
    assert evaluator.metrics[0].items == ('mae', 'mse')


def test_save_best_needs_a_rule():
    with pytest.raises(ValueError, match='Cannot infer the rule'):
        CheckpointHook(save_best='error/mae')
    hook = CheckpointHook(save_best='error/mae_few', rule='less')
    assert hook.rules == ['less']


# Two ranks --------------------------------------------------------------
def run_rank(rank, folder):
    """Seven samples: four on rank 0, three and one of padding on rank 1."""
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    pred, target = data(7)
    order = [*range(7), 0][rank::2]
    metric = ShotError(ALL)
    metric.set_label_distribution(ages())
    evaluator = Evaluator([metric])
    evaluator.process(samples(pred[order], target[order]))
    torch.save(evaluator.evaluate(7), f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


def test_two_ranks_equal_one_process(tmp_path):
    spawn(run_rank, args=(str(tmp_path),), nprocs=2)
    pred, target = data(7)
    expected = ShotError.calculate(pred, target, ages(), items=ALL)
    for rank in (0, 1):
        result = torch.load(tmp_path / f'rank{rank}.pth')
        assert result == pytest.approx(
            {f'error/{k}': v for k, v in expected.items()}, nan_ok=True
        )


# Refusals ---------------------------------------------------------------
@pytest.mark.parametrize(
    'kwargs, match',
    [
        (dict(items=['mae', 'r2']), r"some of .*'bmse'\], got \['mae', 'r2"),
        (dict(items=[]), r'some of .* got \[\]'),
        (dict(group_by='y'), 'intervals=None and a number to group by'),
        (dict(intervals=LOCATIONS), 'and no number to group by'),
        (
            dict(group_by='y', intervals=dict(a=[[0, 2]], b=[[1, 2]])),
            "of one of group 'b': separate them",
        ),
        (
            dict(group_by='y', intervals=LOCATIONS, groups=dict(by='thirds')),
            'cannot both divide the test samples',
        ),
    ],
)
def test_wrong_arguments(kwargs, match):
    with pytest.raises(ValueError, match=match):
        ShotError(**kwargs)


@pytest.mark.parametrize(
    'sample, match',
    [
        (dict(pred_score=torch.ones(1)), "no 'gt_score', only"),
        (dict(gt_score=torch.ones(1)), "no 'pred_score', only"),
        (
            dict(gt_score=torch.ones(1), pred_score=torch.ones(10)),
            '10 predictions a sample do not fit 1 targets',
        ),
    ],
)
def test_wrong_samples(sample, match):
    with pytest.raises(ValueError, match=match):
        ShotError().process(None, [sample])


def test_targets_of_varying_length():
    batch = [
        dict(gt_score=torch.ones(n), pred_score=torch.ones(1)) for n in (1, 2)
    ]
    with pytest.raises(ValueError, match=r"'gt_score' .* vary .* \[1, 2\]"):
        ShotError().process(None, batch)


@pytest.mark.parametrize(
    'extra, match',
    [
        ({}, "no 'y' to group by"),
        (dict(y=[0, 1]), "'y' must be one finite number .* got \\[0, 1\\]"),
        (dict(y=math.nan), 'got nan'),
    ],
)
def test_wrong_group_values(extra, match):
    metric = ShotError(group_by='y', intervals=LOCATIONS)
    sample = dict(gt_score=torch.ones(1), pred_score=torch.ones(1), **extra)
    with pytest.raises(ValueError, match=match):
        metric.process(None, [sample])


def test_group_values_of_another_number():
    with pytest.raises(ValueError, match='3 group values do not fit 2 test'):
        ShotError.calculate(
            [0, 1], [0, 1], group_values=[0, 1, 0.5], intervals=LOCATIONS
        )


def test_no_results():
    with pytest.raises(ValueError, match='no test sample'):
        ShotError().compute_metrics([])


def test_groups_need_a_distribution():
    with pytest.raises(ValueError, match='need the label distribution'):
        ShotError.calculate([0], [0], groups=dict(by='thirds'))


@pytest.mark.parametrize(
    'groups, distribution, match',
    [
        (None, LabelDistribution(COUNTS), 'need the bins of the label'),
        (dict(by='half'), ages(), 'unknown'),
        (dict(by='given', groups=dict(a=[50])), ages(), 'lies outside'),
    ],
)
def test_wrong_distributions_are_refused_before_training(
    groups, distribution, match
):
    metric = ShotError(groups=groups)
    with pytest.raises(ValueError, match=match):
        metric.set_label_distribution(distribution)
