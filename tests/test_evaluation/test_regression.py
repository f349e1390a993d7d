# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torchmetrics.functional.regression import spearman_corrcoef

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation.functional import (
    REGRESSION_ERRORS,
    as_written,
    balanced_error,
    bin_masks,
    checked_values,
    correlation,
    geometric_mean_error,
    interval_masks,
    label_numbers,
    mean_ranks,
    regression_errors,
)

ALL = tuple(REGRESSION_ERRORS)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def data(num=300, dims=1, seed=0):
    """Labels with many ties and predictions with some."""
    generator = np.random.default_rng(seed)
    target = generator.geometric(0.2, (num, dims)).astype(float)
    pred = target + generator.normal(0, 2, (num, dims))
    pred[::3] = np.round(pred[::3])
    return torch.tensor(pred), torch.tensor(target)


def reference(pred, target):
    """The definitions, sample by sample, for one target."""
    num = len(target)
    by_label = {}
    for p, t in zip(pred, target):
        by_label.setdefault(t, []).append(abs(p - t))
    errors = [e for group in by_label.values() for e in group]
    mse = sum(e * e for e in errors) / num
    logs = [math.log(e if e else 1e-10) for e in errors]
    return dict(
        mae=sum(errors) / num,
        mse=mse,
        rmse=math.sqrt(mse),
        gm=math.exp(sum(logs) / num),
        pearson=stats.pearsonr(pred, target).statistic,
        spearman=stats.spearmanr(pred, target).statistic,
        bmae=np.mean([np.mean(e) for e in by_label.values()]),
        bmse=np.mean([np.mean(np.square(e)) for e in by_label.values()]),
    )


@pytest.mark.parametrize('seed', range(3))
def test_reference(seed):
    pred, target = data(seed=seed)
    result = regression_errors(pred, target, ALL, label_numbers(target))
    expected = reference(pred[:, 0].tolist(), target[:, 0].tolist())
    assert result == pytest.approx(expected, rel=1e-12)
    assert list(result) == list(ALL)
    assert all(type(value) is float for value in result.values())


def test_closed_form():
    pred, target = column(1, 4, 2, 12), column(2, 2, 2, 4)
    result = regression_errors(pred, target, ALL, label_numbers(target))
    assert result['mae'] == 11 / 4
    assert result['mse'] == 69 / 4
    assert result['rmse'] == math.sqrt(69 / 4)
    assert result['gm'] == pytest.approx((1 * 2 * 1e-10 * 8) ** (1 / 4))
    assert result['bmae'] == (1 + 8) / 2
    assert result['bmse'] == pytest.approx((5 / 3 + 64) / 2)


def test_several_targets():
    pred, target = data(dims=3)
    labels = label_numbers(target)
    result = regression_errors(pred, target, ALL, labels)
    parts = [
        reference(p.tolist(), t.tolist()) for p, t in zip(pred.T, target.T)
    ]
    for name in ('mae', 'mse', 'gm', 'pearson', 'spearman'):
        mean = sum(part[name] for part in parts) / 3
        assert result[name] == pytest.approx(mean, rel=1e-12), name
    assert result['rmse'] == pytest.approx(math.sqrt(result['mse']))
    rows = {}
    for p, t in zip(pred.tolist(), target.tolist()):
        error = np.mean(np.abs(np.subtract(p, t)))
        rows.setdefault(tuple(t), []).append(error)
    mean = np.mean([np.mean(errors) for errors in rows.values()])
    assert result['bmae'] == pytest.approx(mean)
    assert len(rows) < len(target)


def test_no_sample_is_nan():
    nothing = torch.zeros(0, 1, dtype=torch.float64)
    labels = torch.zeros(0, dtype=torch.int64)
    result = regression_errors(nothing, nothing, ALL, labels)
    assert set(result) == set(ALL)
    assert all(math.isnan(value) for value in result.values())


def test_spearman_with_ties_by_hand():
    # Places 1, 2.5, 2.5, 4 and 1, 3, 2, 4: 4.5 / sqrt(4.5 * 5).
    pred, target = column(1, 2, 2, 9), column(1, 3, 2, 4)
    assert mean_ranks(pred[:, 0]).tolist() == [1, 2.5, 2.5, 4]
    result = correlation(pred, target, ranked=True)
    assert result.item() == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    other = spearman_corrcoef(pred[:, 0], target[:, 0])
    assert result.item() == pytest.approx(other.item(), abs=1e-5)


def test_spearman_of_many_equal_labels():
    size = 70_000  # whose places add up to more than 32 bits hold
    values = torch.cat([torch.zeros(size), torch.arange(1, 3)])
    assert mean_ranks(values)[0].item() == (size + 1) / 2


@pytest.mark.parametrize('ranked', [False, True])
def test_correlation_of_lines(ranked):
    x = column(*range(10))
    assert correlation(2 * x + 1e6, x, ranked).item() == pytest.approx(1)
    assert correlation(-1e-6 * x, x, ranked).item() == pytest.approx(-1)


@pytest.mark.parametrize('ranked', [False, True])
@pytest.mark.parametrize(
    'pred, target',
    [
        (column(1), column(1)),
        (column(3, 3, 3), column(1, 2, 3)),
        (column(1, 2, 3), column(3, 3, 3)),
        (column(1, math.nan, 3), column(1, 2, 3)),
        (column(1, math.inf, 3), column(1, 2, 3)),
    ],
)
def test_undefined_correlation(pred, target, ranked, recwarn):
    assert correlation(pred, target, ranked).isnan()
    assert not recwarn.list


@pytest.mark.parametrize('wrong', [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize('name', ['mae', 'mse', 'rmse', 'gm', 'bmae', 'bmse'])
def test_predictions_that_are_not_finite_stay_so(wrong, name):
    pred, target = column(1, wrong, 3, 0), column(1, 2, 2, 2)
    result = regression_errors(pred, target, [name], label_numbers(target))
    expected = abs(wrong)
    assert result[name] == pytest.approx(expected, nan_ok=True)


def test_exact_predictions_have_the_smallest_geometric_mean():
    target = column(1, 2, 3)
    assert geometric_mean_error(target, target).item() == pytest.approx(1e-10)


def test_balanced_error_counts_each_label_once():
    error = torch.tensor([1.0, 2.0, 3.0, 10.0])
    labels = torch.tensor([7, 7, 7, 0])
    assert balanced_error(error, labels).item() == (2 + 10) / 2


# Bins and intervals -----------------------------------------------------
def test_bins_beat_distinct_labels():
    target = column(0.1, 0.4, 2.2)
    training = LabelDistribution.from_values([0, 1, 2], dict(width=1.0))
    assert label_numbers(target).tolist() == [0, 1, 2]
    assert label_numbers(target, training).tolist() == [0, 0, 2]
    assert label_numbers(column(-9, 9), training).tolist() == [0, 2]


@pytest.mark.parametrize(
    'edges', [np.linspace(0, 5, 51), np.arange(51) / 10, [0, 0.8, 3.8, 5]]
)
def test_single_precision_labels_keep_their_bins(edges):
    values = torch.arange(501, dtype=torch.float64) / 100
    bins = LabelBins(edges)
    expected = bins.index(values)
    single = values.float().double()
    assert (bins.index(single) != expected).any()
    assert torch.equal(bins.index(as_written(single)), expected)
    assert torch.equal(as_written(values), values)


def test_as_written_leaves_double_precision_alone():
    values = torch.tensor([1 / 3, 1e300, -math.pi], dtype=torch.float64)
    values = torch.cat([values, torch.tensor([math.inf, 0.0])])
    assert torch.equal(as_written(values), values)
    assert len(as_written(values[:0])) == 0


def test_groups_of_bins():
    training = LabelDistribution([200, 50, 0], LabelBins([0, 1, 2, 3]))
    target = column(0.5, 2.5, 1.5, 9)
    labels = label_numbers(target, training)
    masks = bin_masks(target, labels, training)
    assert {name: mask.tolist() for name, mask in masks.items()} == dict(
        many=[True, False, False, False],
        medium=[False, False, True, False],
        few=[False, True, False, True],
    )
    two = torch.cat([target, target], dim=1)
    assert bin_masks(two, label_numbers(two, training), training) == {}
    assert bin_masks(target, labels, None) == {}


def test_classes_are_no_bins():
    with pytest.raises(ValueError, match='need the bins .* in 2 classes'):
        label_numbers(column(1), LabelDistribution([2, 1]))


def test_intervals_hold_their_start_and_the_highest_end():
    intervals = dict(
        many=[[0.2, 0.8]],
        medium=[[0.1, 0.2], (0.8, 0.9)],
        few=[[0, 0.1], [0.9, 1]],
    )
    values = [0, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.01, -0.01]
    groups = [*'ffmMMmff', '', '']
    for form in (list, np.asarray, torch.tensor, np.float32):
        masks = interval_masks(form(values), intervals)
        names = dict(f='few', m='medium', M='many')
        for letter, name in names.items():
            expected = [group == letter for group in groups]
            assert masks[name].tolist() == expected, form
    assert list(masks) == ['many', 'medium', 'few']


def test_infinite_intervals():
    masks = interval_masks(
        [-9e9, 1, 9e9], dict(low=[[-math.inf, 1]], high=[[1, math.inf]])
    )
    assert masks['low'].tolist() == [True, False, False]
    assert masks['high'].tolist() == [False, True, True]


@pytest.mark.parametrize(
    'intervals, match',
    [
        ({}, 'at least one interval'),
        (dict(a=[]), 'at least one interval'),
        ([[0, 1]], 'must be a dict'),
        (dict(a=0.5), "of group 'a' must be a list"),
        (dict(a=[0, 1]), r"of group 'a' must be \[start, stop\].*got 0"),
        (dict(a=[[1, 0]]), r'start < stop, got \[1, 0\]'),
        (dict(a=[[0, math.nan]]), 'start < stop'),
        (dict(a=[[0, 1, 2]]), r'got \[0, 1, 2\]'),
        (
            dict(a=[[0, 2]], b=[[1, 3]]),
            "'a' ends at 2, beyond the start 1 of one of group 'b'",
        ),
        (dict(a=[[0, 2], [1, 3]]), "start 1 of one of group 'a'"),
    ],
)
def test_wrong_intervals(intervals, match):
    with pytest.raises(ValueError, match=match):
        interval_masks([0.5], intervals)


@pytest.mark.parametrize('form', [list, np.asarray, torch.tensor])
def test_values_become_columns(form):
    pred, target = checked_values(form([0.1, 0.2]), form([[0.3], [0.4]]))
    assert pred.shape == target.shape == (2, 1)
    assert pred.dtype == target.dtype == torch.float64
    digits = 1e-7 if form is torch.tensor else 0
    assert target[0].item() == pytest.approx(0.3, abs=digits)


def test_lists_of_tensors():
    rows = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    pred, _ = checked_values(rows, torch.zeros(2, 2))
    assert pred.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    'pred, target, match',
    [
        ([], [], 'no test sample'),
        ([1], [1, 2], r'shape \(1, 1\) do not fit .* \(2, 1\)'),
        ([[1, 2]], [1], r'shape \(1, 2\) do not fit .* \(1, 1\)'),
        ([[[1]]], [1], r'predictions must have shape .* \(1, 1, 1\)'),
        (np.float64(1), [1], r'predictions must have shape .* \(\)'),
        (
            [1, 2, 3],
            [1, math.nan, math.inf],
            r'target \[nan\] of test sample 1 is not finite \(2 such',
        ),
    ],
)
def test_wrong_values(pred, target, match):
    with pytest.raises(ValueError, match=match):
        checked_values(np.asarray(pred), target)
