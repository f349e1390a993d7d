# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Class means, and whether they have a geometry to speak of.

Everything is computed in float64. Classes without samples are left out, and
K below is the number of classes that have some.
"""

from typing import NamedTuple

import torch
from torch import Tensor

#: Geometries of the class means: a simplex around the mean of the class
#: means, or orthogonal vectors around the origin.
TARGETS = ('simplex', 'orthogonal')

#: Eigenvalues of the between-class covariance below this share of the
#: largest count as zero.
RTOL = 1e-9


class ClassMeans(NamedTuple):
    """Means of the classes that have samples.

    Attributes:
        mean (Tensor): Shape ``(K, d)``, float64.
        label (Tensor): Their classes, ascending, int64, shape ``(K,)``.
        count (Tensor): Their samples, float64, shape ``(K,)``.
    """

    mean: Tensor
    label: Tensor
    count: Tensor


def class_means(features: Tensor, labels: Tensor) -> ClassMeans:
    """Mean feature of each class that has samples.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Classes, not negative, int64, shape ``(N,)``.

    Returns:
        ClassMeans: In float64.

    Raises:
        ValueError: When there is no sample, shapes do not fit, or a feature
            is not finite.
    """
    features = checked_features(features, labels)
    labels = labels.to(features.device)
    label, row = labels.unique(return_inverse=True)
    count = torch.bincount(row).double()
    sums = features.new_zeros(len(label), features.shape[1])
    sums.index_add_(0, row, features)
    check_finite(sums)
    return ClassMeans(sums / count[:, None], label, count)


def means_differ(means: Tensor, target: str = 'simplex') -> bool:
    """Whether class means have a geometry to compare with the target.

    Args:
        means (Tensor): Class means, float64, shape ``(K, d)``.
        target (str): As in :func:`nc2`. Defaults to ``'simplex'``.

    Returns:
        bool: Whether there are two or more, which differ by more than
        rounding or, for an orthogonal target, are not all zero.
    """
    if len(means) < 2:
        return False
    if target == 'orthogonal':
        return bool(means.any())
    spread = (means - means.mean(0)).norm()
    return bool(spread > 1e-12 * means.norm())


def aligned_means(means: Tensor, target: str = 'simplex') -> Tensor:
    """Class means as the target looks at them.

    Args:
        means (Tensor): Class means, shape ``(K, d)``.
        target (str): As in :func:`nc2`. Defaults to ``'simplex'``.

    Returns:
        Tensor: float64, less their mean for a simplex.

    Raises:
        ValueError: When the target is unknown, or the means coincide.
    """
    if target not in TARGETS:
        raise ValueError(
            f'target {target!r} is unknown: use one of {list(TARGETS)}.'
        )
    means = means.detach().double()
    if not means_differ(means, target):
        raise ValueError(
            f'the means of {len(means)} classes have no geometry: neural '
            'collapse needs samples of at least two classes whose mean '
            'features differ and are not all zero.'
        )
    return means - means.mean(0) if target == 'simplex' else means


def separating_axes(means: Tensor) -> Tensor:
    r"""Axes on which the spread within classes sums up to NC1.

    A matrix ``A`` with :math:`A A^T = \Sigma_B^\dagger / K`, so that
    :math:`\mathrm{NC1} = \operatorname{tr}(A^T \Sigma_W A)`.

    Args:
        means (Tensor): Class means, float64, shape ``(K, d)``.

    Returns:
        Tensor: Shape ``(d, r)`` with ``r < K``; no column when fewer than
        two class means differ.
    """
    if not means_differ(means):
        return means.new_zeros(means.shape[1], 0)
    centered = means - means.mean(0)
    number, width = centered.shape
    # The smaller Gram matrix: several times faster than an SVD.
    if number > width:
        size, axes = torch.linalg.eigh(centered.T @ centered)
    else:
        size, axes = torch.linalg.eigh(centered @ centered.T)
        # One direction is lost to centring.
        size, axes = size[1:], axes[:, 1:]
    keep = size > RTOL * size[-1]
    size, axes = size[keep], axes[:, keep]
    return axes / size.sqrt() if number > width else centered.T @ axes / size


def checked_features(features: Tensor, labels: Tensor) -> Tensor:
    """Features in float64, known to fit the labels.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Shape ``(N,)``.

    Returns:
        Tensor: Detached, float64.

    Raises:
        ValueError: When there is no sample, or shapes do not fit.
    """
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            'features must have shape (N, d) and labels (N,), got '
            f'{tuple(features.shape)} and {tuple(labels.shape)}.'
        )
    if features.numel() == 0:
        raise ValueError('neural collapse needs samples, got none.')
    return features.detach().double()


def check_finite(sums: Tensor) -> None:
    """Refuse what has no geometry.

    Args:
        sums (Tensor): Sums of features.

    Raises:
        ValueError: When a feature was NaN or infinite.
    """
    if not torch.isfinite(sums).all():
        raise ValueError(
            'features hold NaN or infinite values: look for a diverged '
            'training or a broken checkpoint.'
        )


def checked_directions(directions: Tensor, like: Tensor) -> Tensor:
    """Class vectors, known to have a shape.

    Args:
        directions (Tensor): One vector of each class.
        like (Tensor): Tensor of the shape they must have.

    Returns:
        Tensor: Detached.

    Raises:
        ValueError: When the shape is another.
    """
    if directions.shape != like.shape:
        raise ValueError(
            f'class vectors of shape {tuple(directions.shape)} do not fit '
            f'class means of shape {tuple(like.shape)}: give one vector of '
            "the features' width for each class."
        )
    return directions.detach()
