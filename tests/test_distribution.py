# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution

AGEDB = Path(__file__).parents[2] / 'shared' / 'data' / 'agedb_labels.csv'
CASES = [
    [500, 50, 5],
    [1, 1],
    [7],
    [3, 0, 1],
    [0, 0],
    [10**9, 1],
    [5, 400, 20, 100, 101, 19],
]


def cifar_lt_counts(num_classes, max_count, imbalance):
    """The exponential profile, written down plainly."""
    return [
        int(max_count * imbalance ** (c / (num_classes - 1)))
        for c in range(num_classes)
    ]


@pytest.mark.parametrize('counts', CASES)
def test_derived_quantities_equal_the_plain_formulas(counts):
    distribution = LabelDistribution(counts)
    total = sum(counts)
    assert len(distribution) == distribution.num_classes == len(counts)
    assert distribution.num_samples == total
    assert distribution.counts.dtype == torch.int64
    for k, n in enumerate(counts):
        assert distribution.prior[k].item() == pytest.approx(
            n / max(total, 1), rel=1e-15
        )
        assert distribution.log_prior[k].item() == pytest.approx(
            math.log(max(n, 1) / max(total, 1)), rel=1e-14, abs=1e-15
        )
    present = [n for n in counts if n] or [1]
    assert distribution.imbalance_factor == max(present) / min(present)
    assert distribution.empty.tolist() == [
        k for k, n in enumerate(counts) if n == 0
    ]


@pytest.mark.parametrize('counts', CASES)
@pytest.mark.parametrize('beta', [0.0, 0.5, 0.99, 0.9999, 1 - 1e-9])
def test_effective_numbers_and_weights(counts, beta):
    distribution = LabelDistribution(counts)
    effective = distribution.effective_numbers(beta)
    # A geometric series, which needs no difference of close numbers.
    for k, n in enumerate(counts):
        if n <= 1000:
            series = math.fsum(beta**i for i in range(n))
            assert effective[k].item() == pytest.approx(series, rel=1e-6)
    weights = distribution.class_weights(beta)
    present = [k for k, n in enumerate(counts) if n]
    assert torch.isfinite(weights).all()
    assert weights.sum().item() == pytest.approx(len(present))
    assert (weights[distribution.empty] == 0).all()
    for k in present:
        expected = weights[present[0]] * effective[present[0]] / effective[k]
        assert weights[k].item() == pytest.approx(expected.item(), rel=1e-9)


def test_golden_fixture_of_three_classes():
    distribution = LabelDistribution([500, 50, 5])
    np.testing.assert_allclose(
        distribution.class_weights(),
        [0.027689599633, 0.270763021591, 2.701547378776],
        atol=1e-11,
    )
    np.testing.assert_allclose(
        distribution.log_prior,
        [-0.104360015324, -2.406945108318, -4.709530201312],
        atol=1e-11,
    )
    np.testing.assert_allclose(
        distribution.effective_numbers(),
        [(1 - 0.9999**n) / (1 - 0.9999) for n in (500, 50, 5)],
        rtol=1e-9,
    )


def test_weights_with_beta_towards_one_are_inverse_frequency():
    weights = LabelDistribution([400, 100, 4]).class_weights(1 - 1e-12)
    inverse = np.array([1 / 400, 1 / 100, 1 / 4])
    np.testing.assert_allclose(weights, 3 * inverse / inverse.sum(), 1e-6)
    assert (
        LabelDistribution([400, 100, 4]).class_weights(0.0).tolist()
        == [pytest.approx(1.0)] * 3
    )


@pytest.mark.parametrize('counts', CASES)
def test_nothing_is_nan_or_infinite(counts):
    distribution = LabelDistribution(counts)
    for value in (
        distribution.prior,
        distribution.log_prior,
        distribution.effective_numbers(),
        distribution.class_weights(),
        distribution.smoothed(),
    ):
        assert torch.isfinite(value).all()
        assert value.dtype == torch.float64
    assert math.isfinite(distribution.imbalance_factor)
    assert str(distribution.num_samples) in repr(distribution)


@pytest.mark.parametrize('beta', [-0.1, 1.0, 1.5, float('nan')])
def test_beta_out_of_range(beta):
    with pytest.raises(ValueError, match=r'beta must lie in \[0, 1\)'):
        LabelDistribution([1, 2]).class_weights(beta)


def test_head_masks():
    distribution = LabelDistribution([500, 101, 100, 19, 0])  # mean 144
    mask = distribution.head_mask
    assert mask().tolist() == [True, False, False, False, False]
    assert mask('many_shot').tolist() == [True, True, False, False, False]
    assert mask(('top', 0.5)).tolist() == [True, True, True, False, False]
    assert mask(['top', 1]).all()
    assert LabelDistribution([4, 4]).head_mask().all()


@pytest.mark.parametrize('share', [0.07, 0.14, 0.28, 0.29, 0.55, 0.56, 0.57])
def test_top_share_does_not_depend_on_rounding(share):
    distribution = LabelDistribution(list(range(100, 0, -1)))
    expected = round(share * 100)
    assert int(distribution.head_mask(('top', share)).sum()) == expected


@pytest.mark.parametrize(
    'rule', ['median', ('top', 0), ('top', 1.5), ('bottom', 0.5), 3, None]
)
def test_head_rule_unknown(rule):
    with pytest.raises(ValueError, match='head rule .* is unknown'):
        LabelDistribution([1, 2]).head_mask(rule)


@pytest.mark.parametrize('size', [1, 5, 9, 21])
@pytest.mark.parametrize('kernel', ['gaussian', 'laplace', 'triangular'])
def test_smoothed_equals_a_loop(kernel, size):
    counts = [5, 0, 0, 40, 3, 1, 100]
    sigma = 1.5
    shapes = dict(
        gaussian=lambda d: math.exp(-(d**2) / (2 * sigma**2)),
        laplace=lambda d: math.exp(-abs(d) / sigma),
        triangular=lambda d: 1 - abs(d) / (size // 2 + 1),
    )
    expected = [
        sum(
            n * shapes[kernel](j - k)
            for j, n in enumerate(counts)
            if abs(j - k) <= size // 2
        )
        for k in range(len(counts))
    ]
    smoothed = LabelDistribution(counts).smoothed(kernel, size, sigma)
    np.testing.assert_allclose(smoothed, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(size=4), 'kernel size must be odd and positive, got 4'),
        (dict(size=-1), 'kernel size must be odd'),
        (dict(sigma=0), 'kernel sigma must be positive, got 0'),
        (dict(kernel='box'), "kernel 'box' is unknown"),
    ],
)
def test_smoothing_errors(kwargs, match):
    with pytest.raises(ValueError, match=match):
        LabelDistribution([1, 2]).smoothed(**kwargs)


@pytest.mark.parametrize(
    ('counts', 'match'),
    [
        ([], 'non-empty one-dimensional list'),
        ([[1, 2]], r'got shape \(1, 2\)'),
        (5, 'one-dimensional list'),
        ([1, -2], 'whole numbers of samples, got -2'),
        ([1, 2.5], 'whole numbers of samples, got 2.5'),
    ],
)
def test_count_errors(counts, match):
    with pytest.raises(ValueError, match=match):
        LabelDistribution(counts)


def test_lengths_of_names_and_bins_are_checked():
    with pytest.raises(ValueError, match='2 counts do not fit 3 class_names'):
        LabelDistribution([1, 2], class_names=['a', 'b', 'c'])
    with pytest.raises(ValueError, match='2 counts do not fit 1 bins'):
        LabelDistribution([1, 2], bins=LabelBins([0, 1]))


def test_counts_are_a_copy_of_what_was_given():
    given = np.array([3, 4])
    distribution = LabelDistribution(given)
    given[0] = 99
    assert distribution.counts.tolist() == [3, 4]


@pytest.mark.parametrize(
    'labels',
    [
        [0, 2, 2, 1],
        np.array([0, 2, 2, 1], dtype=np.uint8),
        torch.tensor([0, 2, 2, 1]),
        [[0, 2], [2], [1]],
    ],
)
def test_from_labels(labels):
    distribution = LabelDistribution.from_labels(labels)
    assert distribution.counts.tolist() == [1, 1, 2]
    wider = LabelDistribution.from_labels(labels, num_classes=5)
    assert wider.counts.tolist() == [1, 1, 2, 0, 0]
    named = LabelDistribution.from_labels(labels, class_names='abcd')
    assert named.counts.tolist() == [1, 1, 2, 0]
    assert named.class_names == ('a', 'b', 'c', 'd')


def test_from_labels_errors():
    with pytest.raises(ValueError, match='holds no samples'):
        LabelDistribution.from_labels([])
    with pytest.raises(
        ValueError, match=r'label 7 at position 2 lies outside \[0, 3\) \(2'
    ):
        LabelDistribution.from_labels([0, 1, 7, -1], num_classes=3)
    with pytest.raises(ValueError, match='label -1 at position 0'):
        LabelDistribution.from_labels([-1, 1])
    with pytest.raises(TypeError, match=r'integers, got float64.*bins=dict'):
        LabelDistribution.from_labels([0.5, 1.0])


def test_from_values():
    distribution = LabelDistribution.from_values(
        [0.0, 0.4, 0.6, 3.0], dict(width=1.0)
    )
    assert distribution.counts.tolist() == [2, 1, 0, 1]
    assert distribution.bins.centers.tolist() == [0, 1, 2, 3]
    bins = LabelBins([0, 2, 4])
    again = LabelDistribution.from_values([0.0, 1.9, 2.0, 4.0], bins)
    assert again.counts.tolist() == [2, 2]
    assert again.bins is bins


@pytest.mark.parametrize(
    ('values', 'match'),
    [
        ([], 'holds no samples'),
        ([[1.0, 2.0]], r'one target a sample, got targets of shape \(1, 2\)'),
        ([1.0, float('nan')], 'target nan in row 1 is not finite'),
        ([float('inf'), 1.0], 'target inf in row 0 is not finite'),
        ([1.0, 9.0], r'target 9 lies outside the bins \[0, 5\]'),
    ],
)
def test_from_values_errors(values, match):
    with pytest.raises(ValueError, match=match):
        LabelDistribution.from_values(values, dict(edges=[0, 5]))


@pytest.mark.parametrize(
    'distribution',
    [
        LabelDistribution([500, 50, 0]),
        LabelDistribution([1, 2], class_names=['cat', 'dog']),
        LabelDistribution.from_values(
            np.random.default_rng(0).normal(size=50), dict(width=0.1)
        ),
        LabelDistribution.from_values([1 / 3, 2 / 7, 5], dict(unique=True)),
    ],
)
def test_round_trip_through_json(distribution):
    state = json.loads(json.dumps(distribution.to_dict()))
    again = LabelDistribution.from_dict(state)
    assert again == distribution
    assert again.class_names == distribution.class_names
    assert again.to_dict() == distribution.to_dict()


def test_equality():
    one = LabelDistribution([1, 2])
    assert one == LabelDistribution([1, 2], class_names=['a', 'b'])
    assert one != LabelDistribution([2, 1])
    assert one != LabelDistribution([1, 2, 0])
    assert one != LabelDistribution([1, 2], bins=LabelBins([0, 1, 2]))
    assert LabelDistribution([1, 2], bins=LabelBins([0, 1, 2])) != (
        LabelDistribution([1, 2], bins=LabelBins([0, 1, 3]))
    )
    assert one != [1, 2]


def group_sizes(distribution, **kwargs):
    return [len(index) for index in distribution.groups(**kwargs).values()]


@pytest.mark.parametrize(
    ('num_classes', 'imbalance', 'total', 'sizes'),
    [
        (10, 0.005, 11203, [7, 3, 0]),
        (10, 0.01, 12406, [8, 2, 0]),
        (10, 0.02, 13996, [9, 1, 0]),
        (10, 0.1, 20431, [10, 0, 0]),
        (100, 0.005, 9502, [30, 31, 39]),
        (100, 0.01, 10847, [35, 35, 30]),
        (100, 0.02, 12608, [41, 41, 18]),
        (100, 0.1, 19573, [69, 31, 0]),
    ],
)
def test_shot_groups_of_cifar_lt(num_classes, imbalance, total, sizes):
    counts = cifar_lt_counts(num_classes, 50000 / num_classes, imbalance)
    distribution = LabelDistribution(counts)
    assert distribution.num_samples == total
    assert group_sizes(distribution) == sizes
    groups = distribution.groups()
    assert torch.cat(list(groups.values())).tolist() == list(
        range(num_classes)
    )
    assert all(counts[k] > 100 for k in groups['many'])
    assert all(20 <= counts[k] <= 100 for k in groups['medium'])
    assert all(counts[k] < 20 for k in groups['few'])


@pytest.mark.skipif(not AGEDB.is_file(), reason='the AgeDB labels are absent')
def test_agedb_shot_groups():
    with AGEDB.open() as file:
        rows = list(csv.DictReader(file))
    ages = {
        split: np.array([float(r['age']) for r in rows if r['split'] == split])
        for split in ('train', 'val', 'test')
    }
    assert [len(ages[s]) for s in ('train', 'val', 'test')] == [
        12208,
        2140,
        2140,
    ]
    distribution = LabelDistribution.from_values(
        ages['train'], dict(width=1.0)
    )
    centers = distribution.bins.centers
    assert (centers[0], centers[-1], len(distribution)) == (1, 101, 101)
    assert centers[distribution.empty].tolist() == [2]
    in_use = set(ages['train']) | set(ages['test'])
    groups = {
        name: [k for k in index.tolist() if float(centers[k]) in in_use]
        for name, index in distribution.groups().items()
    }
    assert [len(index) for index in groups.values()] == [51, 16, 33]
    few = distribution.counts[distribution.groups()['few']].sum()
    assert few / distribution.num_samples == pytest.approx(0.0166, abs=5e-5)
