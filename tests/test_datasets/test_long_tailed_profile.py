# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest

from mmgeom.datasets.long_tailed_profile import PROFILES, long_tailed_counts


@pytest.mark.parametrize('num_classes', [2, 10, 100, 1000])
@pytest.mark.parametrize('factor', [1, 2, 10, 50, 100, 200, 256])
@pytest.mark.parametrize('profile', PROFILES)
def test_ends_and_order(profile, factor, num_classes):
    counts = long_tailed_counts(num_classes, 1280, factor, profile)
    assert counts.dtype == np.int64
    assert counts.shape == (num_classes,)
    assert counts[0] == 1280
    assert counts[-1] == 1280 // factor
    assert (np.diff(counts) <= 0).all()


def test_exponential_counts_of_cifar10():
    counts = long_tailed_counts(10, 5000, 100)
    assert counts.tolist() == [
        5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50
    ]  # fmt: skip


def test_step():
    counts = long_tailed_counts(10, 500.0, 100, 'step')
    assert counts.tolist() == [500] * 5 + [5] * 5
    assert long_tailed_counts(11, 500, 10, 'step').tolist() == (
        [500] * 5 + [50] * 6
    )
    few = long_tailed_counts(100, 500, 10, 'step', step_fraction=0.29)
    assert (few == 500).sum() == 29  # 100 * 0.29 is a little less than 29
    one = long_tailed_counts(2, 500, 10, 'step', step_fraction=0.1)
    assert one.tolist() == [500, 50]


def test_pareto_equals_its_formula_and_approaches_exp():
    counts = long_tailed_counts(5, 1000, 16, 'pareto', pareto_alpha=2)
    # (1 + 3 r)^-2 at r = 0, 1/4, 1/2, 3/4, 1
    assert counts.tolist() == [1000, 326, 160, 94, 62]
    flat = long_tailed_counts(50, 1000, 100, 'pareto', pareto_alpha=1e6)
    exp = long_tailed_counts(50, 1000, 100)
    assert np.abs(flat - exp).max() <= 1
    steep = long_tailed_counts(50, 1000, 100, 'pareto', pareto_alpha=1)
    assert (steep <= exp).all()
    assert steep.sum() < exp.sum()


def test_one_class():
    for profile in PROFILES:
        assert long_tailed_counts(1, 7, 100, profile).tolist() == [7]


@pytest.mark.parametrize(
    ('args', 'kwargs', 'match'),
    [
        ((0, 5, 10), {}, 'num_classes must be positive, got 0'),
        ((3, 5, 0.01), {}, 'at least 1, got 0.01.* its inverse, 100'),
        ((3, 5, float('nan')), {}, 'at least 1, got nan'),
        ((3, 0.5, 10), {}, 'max_count must be at least 1, got 0.5'),
        ((3, 5, 10, 'linear'), {}, r"'linear' is unknown: use one of \['exp"),
        (
            (3, 5, 10, 'step'),
            dict(step_fraction=1.0),
            r'step_fraction must lie in \(0, 1\), got 1.0',
        ),
        (
            (3, 5, 10, 'pareto'),
            dict(pareto_alpha=0),
            'pareto_alpha must be positive, got 0',
        ),
    ],
)
def test_errors(args, kwargs, match):
    with pytest.raises(ValueError, match=match):
        long_tailed_counts(*args, **kwargs)
