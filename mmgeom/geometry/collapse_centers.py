# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Neural collapse to multiple centres, and cosines of class vectors.

Everything is computed in float64; a vector of norm zero has cosine 0 with
every other.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .class_means import aligned_means, checked_directions, checked_features
from .precision import unit_vectors


class CenterDistance(NamedTuple):
    r"""Deviation of normalised features from the centre of their class.

    Attributes:
        mean (float): Of the squared distances
            :math:`\|\hat h_i - \bar w_{y_i}/\|\bar w_{y_i}\|\|^2`, in
            ``[0, 4]``.
        std (float): Their standard deviation over the samples.
        element_mean (float): Of all elements of the differences.
        element_std (float): Standard deviation of all elements.
    """

    mean: float
    std: float
    element_mean: float
    element_std: float


def unit_rows(vectors: Tensor) -> Tensor:
    """Vectors of norm one.

    Args:
        vectors (Tensor): Shape ``(N, d)``.

    Returns:
        Tensor: float64; rows of zeros stay zero.
    """
    return unit_vectors(vectors.detach().double(), eps=0)


def center_distance(
    features: Tensor, labels: Tensor, mean_centers: Tensor
) -> CenterDistance:
    r"""How far features are from neural collapse to multiple centres.

    .. math:: \mathrm{NC}_i = \left\| \frac{h_i}{\|h_i\|}
        - \frac{\bar w^{(y_i)}}{\|\bar w^{(y_i)}\|} \right\|^2

    Mean and standard deviation over the samples, and over all elements of
    the differences. A zero feature has the distance 1. Standard deviations
    are those of the samples at hand, without Bessel's correction.

    Source: NCMC (NeurIPS 2024), Section 4; the paper plots mean and standard
    deviation of the elements.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Classes in ``[0, K)``, shape ``(N,)``.
        mean_centers (Tensor): :math:`\bar w^{(k)}` of every class, of any
            length, shape ``(K, d)``.

    Returns:
        CenterDistance: The four numbers.

    Raises:
        ValueError: When there is no sample, or shapes do not fit.
    """
    features = checked_features(features, labels)
    centers = _own_rows(mean_centers, labels, features)
    difference = unit_rows(features) - unit_rows(centers)
    square = difference.square().sum(1)
    return CenterDistance(
        square.mean().item(),
        square.std(correction=0).item(),
        difference.mean().item(),
        difference.std(correction=0).item(),
    )


def variability(features: Tensor, labels: Tensor, directions: Tensor) -> float:
    r"""Mean angular distance of features and their class direction.

    .. math:: \frac1N \sum_i 1 - \cos(h_i, w_{y_i})

    At neural collapse to multiple centres it is the mean of
    :math:`1 - \cos\rho_{y_i}`, not zero. Source: NCMC (NeurIPS 2024),
    Section 4, whose printed formula lacks a transpose.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Classes in ``[0, K)``, shape ``(N,)``.
        directions (Tensor): :math:`w_k` of every class, shape ``(K, d)``.

    Returns:
        float: In ``[0, 2]``.

    Raises:
        ValueError: When there is no sample, or shapes do not fit.
    """
    features = checked_features(features, labels)
    own = unit_rows(_own_rows(directions, labels, features))
    return 1 - (unit_rows(features) * own).sum(1).mean().item()


def cosine_statistics(
    means: Tensor, directions: Tensor | None = None, target: str = 'simplex'
) -> dict[str, float]:
    r"""Cosines among class means (h) and class vectors (w).

    Mean and standard deviation of the cosines of pairs of different classes,
    ``cos_hh``, ``cos_ww`` and ``cos_hw``, and of the cosines of a class mean
    with its own vector, ``cos_own``. At a simplex the first three are
    :math:`-1/(K-1)` with standard deviation 0, in an orthogonal frame 0, and
    the last is 1.

    Source: *Inducing Neural Collapse in Imbalanced Learning* (NeurIPS 2022),
    Figure 2. Differences from its code: class means are centred on the mean
    of the class means rather than of all samples, all pairs enter
    ``cos_hw`` rather than half of them, and the standard deviation has no
    Bessel correction, so that it exists for a single pair.

    Args:
        means (Tensor): Class means, shape ``(K, d)``.
        directions (Tensor, optional): Class vectors of the same classes,
            shape ``(K, d)``. Defaults to None: only ``cos_hh``.
        target (str): ``'simplex'``, which centres the class means, or
            ``'orthogonal'``. Defaults to ``'simplex'``.

    Returns:
        dict[str, float]: ``cos_hh_mean``, ``cos_hh_std`` and so on.

    Raises:
        ValueError: When shapes do not fit, or the means coincide.
    """
    h = unit_rows(aligned_means(means, target))
    pairs = {'hh': (h, h)}
    if directions is not None:
        w = unit_rows(checked_directions(directions, h)).to(h.device)
        pairs |= {'ww': (w, w), 'hw': (h, w)}
    result = {}
    different = ~torch.eye(len(h), dtype=torch.bool, device=h.device)
    for name, (a, b) in pairs.items():
        cosines = a @ b.T
        result |= _mean_and_std(f'cos_{name}', cosines[different])
        if name == 'hw':
            result |= _mean_and_std('cos_own', cosines.diagonal())
    return result


def class_mean_gram(means: Tensor, target: str = 'simplex') -> Tensor:
    """Cosines of all pairs of class means, the data of a heat map.

    Args:
        means (Tensor): Class means, shape ``(K, d)``.
        target (str): ``'simplex'``, which centres the class means, or
            ``'orthogonal'``. Defaults to ``'simplex'``.

    Returns:
        Tensor: Shape ``(K, K)``, float64, in ``[-1, 1]``.

    Raises:
        ValueError: When the target is unknown, or the means coincide.
    """
    unit = unit_rows(aligned_means(means, target))
    return (unit @ unit.T).clamp(-1, 1)


def distance_from_sums(
    samples: float, width: int, sums: Tensor
) -> CenterDistance:
    """The numbers of :func:`center_distance` from sums over the samples.

    Args:
        samples (float): N.
        width (int): Elements of a feature.
        sums (Tensor): Of the squared distances, of their squares, and of the
            elements of the differences, shape ``(3,)``.

    Returns:
        CenterDistance: The four numbers.
    """
    mean, square_mean, row_mean = (sums / samples).tolist()
    element_mean = row_mean / width
    return CenterDistance(
        mean,
        _std(square_mean, mean),
        element_mean,
        _std(mean / width, element_mean),
    )


def _std(square_mean: float, mean: float) -> float:
    variance = square_mean - mean**2
    # Below is nothing but rounding of the two terms.
    return math.sqrt(variance) if variance > 1e-13 * square_mean else 0.0


def _own_rows(vectors: Tensor, labels: Tensor, features: Tensor) -> Tensor:
    """The vector of each sample's class."""
    if vectors.ndim != 2 or vectors.shape[1] != features.shape[1]:
        raise ValueError(
            f'class vectors of shape {tuple(vectors.shape)} do not fit '
            f'features of width {features.shape[1]}: give one vector of that '
            'width for each class.'
        )
    if labels.min() < 0 or labels.max() >= len(vectors):
        raise ValueError(
            f'labels must lie in [0, {len(vectors)}), got '
            f'{int(labels.min())} to {int(labels.max())}.'
        )
    return vectors.detach().to(features.device)[labels.to(features.device)]


def _mean_and_std(name: str, values: Tensor) -> dict[str, float]:
    return {
        f'{name}_mean': values.mean().item(),
        f'{name}_std': values.std(correction=0).item(),
    }
