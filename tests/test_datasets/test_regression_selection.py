# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import itertools
import math

import numpy as np
import pytest

from mmgeom.datasets.regression_selection import (
    draw_weighted,
    held_out_counts,
    proportional_counts,
    rank_in_bin,
)

COUNTS = np.array([0, 1, 2, 3, 5, 9, 30, 200])


@pytest.mark.parametrize('wanted', [(0, 0), (4, 0), (0, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize('share', [0.0, 0.3, 0.5, 0.9])
def test_held_out_counts_by_a_plain_loop(wanted, share):
    test, val = held_out_counts(COUNTS, *wanted, share)
    for count, got in zip(COUNTS, zip(test, val)):
        spare = math.floor(round(count * share, 9))
        total = sum(wanted)
        first = min(wanted[0], math.ceil(spare * wanted[0] / max(total, 1)))
        assert got == (first, min(wanted[1], spare - first))
        assert sum(got) <= spare
        assert count == 0 or sum(got) < count
        if spare >= total:
            assert got == wanted


def test_density_that_no_bin_is_too_small_for():
    counts, masses = np.array([10, 8, 0, 5]), np.array([1, 2, 9, 0.5])
    assert proportional_counts(counts, masses).tolist() == [4, 8, 0, 2]
    none_there = np.array([0.0, 0, 9, 0])
    with pytest.raises(ValueError, match='is 0 wherever there are samples'):
        proportional_counts(counts, none_there)


@pytest.mark.parametrize('total', [1, 2, 7, 20, 60, 125, 126, 127])
def test_a_given_size_fills_bins_up(total):
    counts = np.array([100, 7, 20, 0, 50])
    masses = np.array([1.0, 4, 2, 3, 0])
    got = proportional_counts(counts, masses, total)
    assert got.sum() == total
    # The scale by bisection.
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        filled = np.minimum(counts, middle * masses).sum()
        low, high = (middle, high) if filled < total else (low, middle)
    assert (abs(got - np.minimum(counts, high * masses)) < 1).all()


def test_too_many_samples_are_asked_for():
    with pytest.raises(ValueError, match='11 samples .* but only 10 have'):
        proportional_counts(np.array([10, 5]), np.array([1, 0]), 11)
    with pytest.raises(ValueError, match='2 samples .* but only 1 have'):
        draw_weighted(np.array([0, 1.0]), 2, seed=0)


def test_ranks_are_permutations_of_each_bin():
    bins = np.random.default_rng(0).integers(0, 4, 50)
    ranks = rank_in_bin(bins, seed=0)
    for k in range(4):
        members = ranks[bins == k].tolist()
        assert sorted(members) == list(range(len(members)))
        assert members != sorted(members)
    assert (rank_in_bin(bins, seed=0) == ranks).all()
    assert (rank_in_bin(bins, seed=1) != ranks).any()


def test_weighted_draws_have_the_right_distribution():
    """Against the probability of every ordered draw of two out of four."""
    weights = np.array([1.0, 3.0, 0.0, 6.0])
    exact = np.zeros(4)
    for first, second in itertools.permutations(range(4), 2):
        rest = weights.sum() - weights[first]
        chance = weights[first] / weights.sum() * weights[second] / rest
        exact[[first, second]] += chance
    draws = 4000
    found = np.zeros(4)
    for seed in range(draws):
        chosen = draw_weighted(weights, 2, seed)
        assert len(chosen) == 2
        found[chosen] += 1 / draws
    assert found[2] == 0
    # Four standard deviations.
    assert (
        abs(found - exact) <= 4 * np.sqrt(exact * (1 - exact) / draws)
    ).all()
