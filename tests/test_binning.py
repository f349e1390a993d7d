# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import json

import numpy as np
import pytest
import torch

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution


def slow_index(edges, value):
    """Half-open bins; the last one closed; outside values clamped."""
    for k in range(len(edges) - 2):
        if value < edges[k + 1]:
            return k
    return len(edges) - 2


def test_index_equals_a_loop():
    edges = [-1.0, 0.0, 0.5, 2.0, 7.0]
    bins = LabelBins(edges)
    values = [-9, -1, -0.5, 0, 0.49, 0.5, 1.99, 2, 6.9, 7, 100]
    expected = [slow_index(edges, v) for v in values]
    assert bins.index(values).tolist() == expected
    shaped = bins.index(torch.tensor(values[:10]).reshape(2, 5))
    assert shaped.shape == (2, 5)
    assert shaped.dtype == torch.int64
    assert len(bins) == 4
    assert bins.centers.tolist() == [-0.5, 0.25, 1.25, 4.5]
    one = LabelBins([0, 1])
    assert one.index([-5, 0.5, 5]).tolist() == [0, 0, 0]


def test_index_refuses_outsiders_and_nan():
    bins = LabelBins([0, 1, 2])
    assert bins.index([0.0, 2.0], clamp=False).tolist() == [0, 1]
    with pytest.raises(
        ValueError, match=r'target 2.5 lies outside the bins \[0, 2\] \(2 '
    ):
        bins.index([1.0, 2.5, -1.0], clamp=False)
    with pytest.raises(ValueError, match='1 of 2 targets are not a number'):
        bins.index([1.0, float('nan')])
    assert bins.index([float('-inf'), float('inf')]).tolist() == [0, 1]


def test_width_one_gives_the_whole_numbers():
    bins = LabelBins.from_spec([3, 1, 7], width=1)
    assert bins.centers.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert bins.edges.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    negative = LabelBins.from_spec([-1.4, 0.2], width=1)
    assert negative.centers.tolist() == [-1, 0]
    fixed = LabelBins.from_spec([3.0], width=2, start=0, stop=10)
    assert fixed.centers.tolist() == [0, 2, 4, 6, 8, 10]
    assert LabelBins.from_spec([], width=1, start=0, stop=2) == (
        LabelBins.from_spec([0, 2], width=1)
    )


@pytest.mark.parametrize('width', [1e-3, 0.05, 0.1, 1 / 3, 0.7, 1, 2.5])
def test_own_values_always_fall_into_their_bins(width):
    generator = np.random.default_rng(0)
    for _ in range(150):
        size = generator.integers(1, 8)
        # Multiples of half the width lie on the edges, up to rounding.
        values = generator.integers(-40, 200, size) * width / 2
        distribution = LabelDistribution.from_values(values, dict(width=width))
        assert distribution.num_samples == size
        assert distribution.counts[[0, -1]].min() > 0, values


def test_unique_values():
    values = [0.0, 1.0, 3.0, 1.0]
    bins = LabelBins.from_spec(values, unique=True)
    assert bins.centers.tolist() == [0, 1, 3]
    assert bins.edges.tolist() == [-0.5, 0.5, 2, 4]
    assert bins.index(values).tolist() == [0, 1, 2, 1]
    alone = LabelBins.from_spec([5.0, 5.0], unique=True)
    assert alone.edges.tolist() == [4.5, 5.5]
    many = np.random.default_rng(0).normal(size=300)
    bins = LabelBins.from_spec(many, unique=True)
    assert bins.index(many).bincount().tolist() == [1] * 300


def test_edges():
    bins = LabelBins.from_spec([9.0], edges=(0, 1, 10))
    assert bins == LabelBins([0, 1, 10])
    assert bins != LabelBins([0, 1, 10], centers=[0.2, 3])
    assert bins != 'bins'
    assert repr(bins) == 'LabelBins(2 bins over [0, 10])'


def test_edges_without_errors_of_rounding():
    computed = [0.1 * k for k in range(51)]
    decimal = [k / 10 for k in range(51)]
    assert computed != decimal
    bins = LabelBins(computed)
    assert bins.edges.tolist() == decimal
    assert bins.index(decimal[:-1]).tolist() == list(range(50))
    large = LabelBins([1e6 + 0.1 * k for k in range(30)])
    assert large.edges.tolist() == [(10**7 + k) / 10 for k in range(30)]
    shifted = LabelBins.from_spec([], width=0.2, start=-0.1, stop=0.7)
    assert shifted.edges.tolist() == [-0.2, 0.0, 0.2, 0.4, 0.6, 0.8]


@pytest.mark.parametrize(
    'edges',
    [
        [0, 1 / 3, 2 / 3, 1],
        [np.log(k) for k in range(1, 9)],
        [1.0, 1.0 + 1e-13, 1.0 + 3e-13],
        [1.0, 1.0 + 4e-16, 1.0 + 9e-16],
        [-5e-324, 0, 5e-324],
        [1e300, 1.5e300, 1.7e308],
        np.linspace(-1, 1, 8, dtype=np.float32),
    ],
)
def test_other_edges_are_kept(edges):
    bins = LabelBins(edges)
    assert bins.edges.tolist() == [float(edge) for edge in edges]


def test_round_trip_through_json():
    bins = LabelBins.from_spec([0.1, 2.3], width=0.1)
    again = LabelBins(**json.loads(json.dumps(bins.to_dict())))
    assert again == bins


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(), 'give exactly one of `width`, `edges` and `unique=True`'),
        (dict(width=1, unique=True), 'exactly one of .* got width=1'),
        (dict(width=0), 'bin width must be positive, got 0'),
        (dict(width=-1), 'bin width must be positive, got -1'),
        (dict(width=float('inf')), 'bin width must be finite, got inf'),
        (dict(width=1, start=5, stop=3), 'stop >= start, got start=5, stop=3'),
        (dict(edges=[0]), 'at least two strictly increasing finite'),
        (dict(edges=[0, 0, 1]), 'strictly increasing finite'),
        (dict(edges=[0, float('nan')]), 'strictly increasing finite'),
        (dict(edges=[0, float('inf')]), 'strictly increasing finite'),
        (dict(edges=[2, 1]), r'got \[2, 1\]'),
    ],
)
def test_errors_of_rules(kwargs, match):
    with pytest.raises(ValueError, match=match):
        LabelBins.from_spec([1.0, 2.0], **kwargs)


@pytest.mark.parametrize('centers', [[0.5], [0.5, 2.5], [-1, 1.5], [0.5, 3]])
def test_errors_of_centers(centers):
    with pytest.raises(ValueError, match='2 bins need as many centers'):
        LabelBins([0, 1, 2], centers)


def test_no_values_need_limits():
    with pytest.raises(ValueError, match='no values at all need `start`'):
        LabelBins.from_spec([], width=1)
