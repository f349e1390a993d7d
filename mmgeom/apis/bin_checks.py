# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What a practitioner should know about regression labels and their bins."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution


def value_statistics(values: np.ndarray) -> dict[str, float]:
    """Where labels lie, those left out that are not finite.

    Args:
        values (np.ndarray): Regression targets, shape ``(N,)``.

    Returns:
        dict[str, float]: Smallest, median, mean, largest, standard
        deviation; empty when no label is finite.
    """
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return {}
    return {
        'smallest': float(values.min()),
        'median': float(np.median(values)),
        'mean': float(values.mean()),
        'largest': float(values.max()),
        'standard deviation': float(values.std()),
    }


def bin_counts(
    values: np.ndarray, bins: LabelBins, split: str
) -> tuple[list[int], list[str]]:
    """Count data to test on in the bins of the training data.

    Args:
        values (np.ndarray): Regression targets, shape ``(N,)``.
        bins (LabelBins): Of the training data.
        split (str): What to call the data, e.g. ``'test'``.

    Returns:
        tuple[list[int], list[str]]: The samples of each bin, and a sentence
        for each kind of label that does not fit.
    """
    warnings = []
    finite = np.isfinite(values)
    if not finite.all():
        warnings.append(
            f'{int((~finite).sum())} {split} targets are not finite and were '
            'left out here: remove or fill such rows.'
        )
    values = values[finite]
    low, high = bins.edges[0].item(), bins.edges[-1].item()
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        warnings.append(
            f'{outside} {split} targets lie outside the bins of the training '
            f'data, [{low:g}, {high:g}], and count in the first or last bin: '
            'widen the bins if they matter.'
        )
    counts = np.bincount(bins.index(values).numpy(), minlength=len(bins))
    return counts.tolist(), warnings


def training_bin_warnings(distribution: LabelDistribution) -> list[str]:
    """Warn about bins that do not suit the training labels.

    Args:
        distribution (LabelDistribution): Over bins.

    Returns:
        list[str]: One sentence for each matter.
    """
    present = distribution.counts[distribution.counts > 0]
    if len(present) == 1:
        return [
            f'all {distribution.num_samples} training labels lie in one bin, '
            'so that methods for imbalanced labels have nothing to correct: '
            'check the labels, or make the bins narrower.'
        ]
    if present.max() == 1:
        return [
            f'none of the {len(present)} bins with training labels has more '
            'than one, so that counts tell nothing about the density of '
            'labels: make the bins wider.'
        ]
    if distribution.imbalance_factor == 1:
        return [
            'all bins that have training labels have as many (imbalance '
            'factor 1), so that methods for imbalanced labels have nothing '
            'to correct: check that an imbalanced subset was meant to be '
            'taken, and is.'
        ]
    return []


def training_group_warnings(
    distribution: LabelDistribution, groups: Mapping[str, Any]
) -> list[str]:
    """Warn about shot groups that no bin belongs to.

    Args:
        distribution (LabelDistribution): Over bins.
        groups (Mapping[str, Any]): Arguments of
            :meth:`LabelDistribution.groups`.

    Returns:
        list[str]: None or one sentence.
    """
    members = distribution.groups(**groups)
    empty = [name for name, index in members.items() if len(index) == 0]
    if not empty:
        return []
    return [
        f'no label bin is in the shot groups {", ".join(empty)}, so that '
        'their errors will be NaN: choose a rule that fits the counts, e.g. '
        "groups=dict(by='thirds')."
    ]


def evaluation_group_warnings(
    distribution: LabelDistribution,
    groups: Mapping[str, Any],
    counts: Sequence[int],
    split: str,
) -> list[str]:
    """Warn about shot groups that have bins but no sample to test on.

    Args:
        distribution (LabelDistribution): Of the training data, over bins.
        groups (Mapping[str, Any]): Arguments of
            :meth:`LabelDistribution.groups`.
        counts (Sequence[int]): Test samples of each bin, shape ``(K,)``.
        split (str): What to call the data, e.g. ``'test'``.

    Returns:
        list[str]: None or one sentence.
    """
    counts = np.asarray(counts)
    empty = [
        name
        for name, index in distribution.groups(**groups).items()
        if len(index) and counts[index.numpy()].sum() == 0
    ]
    if not empty:
        return []
    return [
        f'no {split} sample is in the shot groups {", ".join(empty)}, so '
        'that their errors will be NaN: add samples, or say so beside the '
        'results.'
    ]
