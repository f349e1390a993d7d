# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What a practitioner should know about training and test labels."""

from collections.abc import Mapping, Sequence

import numpy as np

from mmgeom.distribution import LabelDistribution

#: A test set is called long-tailed from this imbalance factor on.
TEST_IMBALANCE = 2.0


def range_warnings(
    labels: np.ndarray, num_classes: int, split: str
) -> list[str]:
    """Warn about labels outside ``[0, K)``.

    Args:
        labels (np.ndarray): Integer labels, shape ``(N,)``.
        num_classes (int): K.
        split (str): What to call the data, e.g. ``'training'``.

    Returns:
        list[str]: None or one sentence.
    """
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(outside) == 0:
        return []
    return [
        f'{len(outside)} {split} labels lie outside [0, {num_classes}), the '
        f'first is {labels[outside[0]]} at position {outside[0]}, and were '
        'left out here: correct the labels or the number of classes.'
    ]


def class_number_warnings(
    configured: Mapping[str, int],
    declared: int | None,
    largest: int,
    num_classes: int,
) -> list[str]:
    """Warn about parts of a config that disagree with the data.

    Args:
        configured (Mapping[str, int]): ``num_classes`` of the parts of the
            model, by their place in the config.
        declared (int | None): Number of classes the dataset declares.
        largest (int): Largest training label.
        num_classes (int): K, the number of classes assumed.

    Returns:
        list[str]: One sentence for each disagreement.
    """
    warnings = [
        f'{place}={number} but the training data has {num_classes} classes: '
        f'set it to {num_classes}, or correct the classes of the dataset.'
        for place, number in configured.items()
        if number != num_classes
    ]
    if declared is None and largest + 1 < num_classes:
        warnings.append(
            'the dataset does not declare its classes and its largest label '
            f'is {largest}, so that training counts {largest + 1} classes '
            f'and not {num_classes}: give it the class names, '
            'metainfo=dict(classes=[...]).'
        )
    return warnings


def training_warnings(distribution: LabelDistribution) -> list[str]:
    """Warn about the counts of the training data.

    Args:
        distribution (LabelDistribution): Over classes.

    Returns:
        list[str]: One sentence for each matter.
    """
    warnings = []
    empty = distribution.empty.tolist()
    single = np.flatnonzero(distribution.counts.numpy() == 1).tolist()
    number = len(distribution)
    if empty:
        warnings.append(
            f'{len(empty)} of {number} classes have no training sample, '
            f'{_some(empty)}: correct the data or num_classes, since '
            'training refuses them unless allow_empty_classes=True of '
            'LabelDistributionHook.'
        )
    if single:
        warnings.append(
            f'{len(single)} of {number} classes have a single training '
            f'sample, {_some(single)}: nothing can be held out or contrasted '
            'within them, so collect more or merge such classes.'
        )
    if distribution.imbalance_factor == 1 and number > 1:
        warnings.append(
            'the training data is balanced (imbalance factor 1), so that '
            'methods for long tails have nothing to correct: check that the '
            'long-tailed subset was meant to be taken, and is.'
        )
    return warnings


def evaluation_warnings(
    counts: Sequence[int], split: str, kind: str = 'classes'
) -> list[str]:
    """Warn about the counts of the data to test on.

    Args:
        counts (Sequence[int]): Test samples of each class or bin, ``(K,)``.
        split (str): What to call the data, e.g. ``'test'``.
        kind (str): ``'classes'`` or ``'bins'``. Defaults to ``'classes'``.

    Returns:
        list[str]: One sentence for each matter.
    """
    warnings = []
    factor = LabelDistribution(counts).imbalance_factor
    absent = np.flatnonzero(np.asarray(counts) == 0).tolist()
    if factor > TEST_IMBALANCE:
        mean = 'class mean' if kind == 'classes' else 'balanced error'
        warnings.append(
            f'the {split} data is long-tailed too (imbalance factor '
            f'{factor:.4g}), so that its overall figures mostly tell about '
            f'frequent {kind}: report the {mean}, or a balanced test set.'
        )
    if absent and kind == 'classes':
        warnings.append(
            f'{len(absent)} of {len(counts)} classes have no {split} sample, '
            f'{_some(absent)}: they are left out of class and group means, '
            'so add samples or say so beside the results.'
        )
    return warnings


def _some(labels: Sequence[int], limit: int = 8) -> str:
    """A few labels in words."""
    names = ', '.join(str(label) for label in labels[:limit])
    return f'among them {names}' if len(labels) > limit else f'namely {names}'
