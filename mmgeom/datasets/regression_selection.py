# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Which samples of each label bin a regression dataset keeps."""

import numpy as np


def held_out_counts(
    counts: np.ndarray,
    test_per_bin: int,
    val_per_bin: int,
    max_share: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Test and validation samples of each bin.

    Of the :math:`n_b` samples of a bin at most
    :math:`h_b = \lfloor \mathrm{max\_share}\, n_b \rfloor` are held out. With
    :math:`t` test and :math:`v` validation samples wanted, a bin gives

    .. math::
        t_b = \min\bigl(t, \lceil h_b\, t / (t + v) \rceil\bigr), \quad
        v_b = \min(v, h_b - t_b),

    so that every bin that has enough gives the same number, a rare one as
    many as it can, and the first sample that a bin can spare is tested on.

    Args:
        counts (np.ndarray): Samples :math:`n_b` of each bin, ``(K,)``.
        test_per_bin (int): :math:`t`, not negative.
        val_per_bin (int): :math:`v`, not negative.
        max_share (float): In ``[0, 1)``.

    Returns:
        tuple[np.ndarray, np.ndarray]: :math:`t_b` and :math:`v_b`, int64.
    """
    wanted = max(test_per_bin + val_per_bin, 1)
    # 0.3 * 10 is a little less than 3 in floating point.
    spare = np.floor(counts * max_share + 1e-9).astype(np.int64)
    share = -(-spare * test_per_bin // wanted)  # rounded up
    test = np.minimum(share, test_per_bin)
    return test, np.minimum(spare - test, val_per_bin)


def proportional_counts(
    counts: np.ndarray, masses: np.ndarray, num_samples: int | None = None
) -> np.ndarray:
    r"""Samples of each bin that follow a density as far as they last.

    Without ``num_samples`` a bin gets :math:`q_b = [c\, p_b]` (rounded) for
    the largest :math:`c` that no bin with samples is too small for,

    .. math:: c = \min_{b:\, n_b > 0,\, p_b > 0} n_b / p_b.

    With ``num_samples`` :math:`M` it gets :math:`q_b = \min(n_b, c\, p_b)`
    with the :math:`c` for which :math:`\sum_b q_b = M`; fractions are
    rounded to that sum by largest remainder.

    Args:
        counts (np.ndarray): Samples :math:`n_b` of each bin, ``(K,)``.
        masses (np.ndarray): :math:`p_b`, not negative, ``(K,)``.
        num_samples (int, optional): :math:`M`. Defaults to None.

    Returns:
        np.ndarray: :math:`q_b`, int64.

    Raises:
        ValueError: When no bin has both samples and mass, or these hold
            fewer than ``num_samples``.
    """
    usable = (counts > 0) & (masses > 0)
    available = int(counts[usable].sum())
    if available == 0:
        raise ValueError(
            'the label density is 0 wherever there are samples: change its '
            'arguments.'
        )
    _require_available(num_samples, available)
    masses = np.where(usable, masses, 0.0)
    ratios = counts[usable] / masses[usable]
    if num_samples is None:
        wanted = ratios.min() * masses
        return np.minimum(np.rint(wanted).astype(np.int64), counts)
    scale = _filling_scale(ratios, masses[usable], num_samples)
    return _rounded_to_sum(
        np.minimum(counts, scale * masses), counts, num_samples
    )


def rank_in_bin(bin_index: np.ndarray, seed: int) -> np.ndarray:
    """Place of each sample in a random order of its bin.

    Args:
        bin_index (np.ndarray): Bin of each sample, ``(N,)``.
        seed (int): Of the order.

    Returns:
        np.ndarray: int64, from 0 in each bin, ``(N,)``.
    """
    keys = np.random.default_rng(seed).random(len(bin_index))
    order = np.lexsort((keys, bin_index))
    ordered = bin_index[order]
    ranks = np.empty(len(bin_index), dtype=np.int64)
    ranks[order] = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return ranks


def draw_weighted(
    weights: np.ndarray, num_samples: int, seed: int
) -> np.ndarray:
    r"""Draw without replacement, each time in proportion to the weights.

    The samples with the largest :math:`\log(u_i) / w_i`, with uniform
    :math:`u_i`: *Weighted random sampling with a reservoir* (Efraimidis and
    Spirakis, 2006).

    Args:
        weights (np.ndarray): Not negative, ``(N,)``.
        num_samples (int): How many to draw.
        seed (int): Of the draw.

    Returns:
        np.ndarray: Ascending indices.

    Raises:
        ValueError: When fewer than ``num_samples`` weights are positive.
    """
    positive = np.flatnonzero(weights > 0)
    _require_available(num_samples, len(positive))
    # A stream apart from that of `rank_in_bin`.
    generator = np.random.default_rng([seed, 1])
    uniform = 1 - generator.random(len(weights))[positive]  # in (0, 1]
    keys = np.log(uniform) / weights[positive]
    order = np.argsort(-keys, kind='stable')
    return np.sort(positive[order[:num_samples]])


def _require_available(num_samples: int | None, available: int) -> None:
    if num_samples is not None and num_samples > available:
        raise ValueError(
            f'{num_samples} samples are asked for, but only {available} have '
            'a positive label density: ask for fewer.'
        )


def _filling_scale(
    ratios: np.ndarray, masses: np.ndarray, total: int
) -> float:
    r"""The c for which :math:`\sum_b \min(r_b, c)\, p_b` is the total."""
    order = np.argsort(ratios)
    ratios, masses = ratios[order], masses[order]
    full = np.concatenate([[0.0], np.cumsum(ratios * masses)])[:-1]
    free = np.cumsum(masses[::-1])[::-1]
    # With c at the k-th ratio, the smaller bins are used up.
    at_ratio = full + ratios * free
    first = min(int(np.searchsorted(at_ratio, total)), len(ratios) - 1)
    return float((total - full[first]) / free[first])


def _rounded_to_sum(
    wanted: np.ndarray, counts: np.ndarray, total: int
) -> np.ndarray:
    # A hair below a whole number is that number.
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    remainder = np.where(whole < counts, wanted - whole, -np.inf)
    order = np.argsort(-remainder, kind='stable')
    whole[order[: total - int(whole.sum())]] += 1
    return whole
