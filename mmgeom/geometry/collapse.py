# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Neural collapse: how close class means come to a fixed geometry.

Everything is computed in float64. Classes without samples are left out, and
K below is the number of classes that have some.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from .class_means import (
    ClassMeans,
    aligned_means,
    checked_directions,
    checked_features,
    class_means,
    separating_axes,
)


def nc1(features: Tensor, labels: Tensor) -> float:
    r"""Variability within the classes, relative to that between them.

    .. math::
        \mathrm{NC1} = \frac1K \operatorname{tr}(\Sigma_W \Sigma_B^\dagger),
        \qquad \Sigma_W = \frac1N \sum_i (h_i - \mu_{y_i})(h_i - \mu_{y_i})^T,
        \qquad \Sigma_B = \frac1K \sum_k (\mu_k - \mu_G)(\mu_k - \mu_G)^T

    with :math:`\mu_G` the mean of the class means. The pseudo-inverse has
    rank :math:`K - 1` at most and cuts eigenvalues off at a relative 1e-9.
    No matrix of shape ``(d, d)`` appears: features are projected on the
    directions that separate the class means.

    Source: *Prevalence of neural collapse* (PNAS 2020), NC1.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Classes, shape ``(N,)``.

    Returns:
        float: Not negative.

    Raises:
        ValueError: Unless two classes have samples and different means.
    """
    means = class_means(features, labels)
    aligned_means(means.mean)  # refuses means that coincide
    return second_pass(means, [(features, labels)])['nc1']


def nc2(means: Tensor, target: str = 'simplex') -> float:
    r"""Distance of the class means from the target geometry.

    .. math:: \left\| \frac{M M^T}{\|M M^T\|_F} - T \right\|_F

    For ``'simplex'`` the rows of ``M`` are :math:`\mu_k - \mu_G` and
    :math:`T = (I - 11^T/K)/\sqrt{K-1}`; for ``'orthogonal'``, the fixed point
    of NCMC, they are :math:`\mu_k` and :math:`T = I/\sqrt{K}`.

    Source: *Prevalence of neural collapse* (PNAS 2020), NC2.

    Args:
        means (Tensor): Class means, shape ``(K, d)``.
        target (str): As above. Defaults to ``'simplex'``.

    Returns:
        float: In ``[0, 2]``; zero for K = 2 and a simplex.

    Raises:
        ValueError: When the target is unknown, or the means coincide.
    """
    rows = aligned_means(means, target)
    number = len(rows)
    ideal = torch.eye(number, dtype=rows.dtype, device=rows.device)
    if target == 'simplex':
        ideal -= 1 / number
    gram = rows @ rows.T
    return torch.dist(gram / gram.norm(), ideal / ideal.norm()).item()


def nc3(means: Tensor, directions: Tensor, target: str = 'simplex') -> float:
    r"""Distance between class means and classifier, both scaled.

    .. math:: \left\| \frac{W}{\|W\|_F} - \frac{M}{\|M\|_F} \right\|_F

    with ``M`` as in :func:`nc2`. SETF reports its square.

    Source: *Prevalence of neural collapse* (PNAS 2020), NC3.

    Args:
        means (Tensor): Class means, shape ``(K, d)``.
        directions (Tensor): Classifier weights of the same classes, shape
            ``(K, d)``.
        target (str): As in :func:`nc2`. Defaults to ``'simplex'``.

    Returns:
        float: In ``[0, 2]``.

    Raises:
        ValueError: When shapes do not fit, the means coincide, or all
            weights are zero.
    """
    rows = aligned_means(means, target)
    weight = checked_directions(directions, rows).to(rows)
    if not weight.any():
        raise ValueError(
            'NC3 needs classifier weights that are not all zero, got '
            f'{tuple(weight.shape)} zeros.'
        )
    return torch.dist(weight / weight.norm(), rows / rows.norm()).item()


def nc4(features: Tensor, labels: Tensor, pred: Tensor) -> float:
    r"""How often classifier and nearest class mean disagree.

    .. math:: \frac1N \sum_i \mathbb{1}\left[\arg\max_k s_{ik} \ne
        \arg\min_k \|h_i - \mu_k\|\right]

    A prediction of a class without samples is a disagreement.

    Source: *Prevalence of neural collapse* (PNAS 2020), NC4.

    Args:
        features (Tensor): Shape ``(N, d)``.
        labels (Tensor): Classes, shape ``(N,)``.
        pred (Tensor): Scores, shape ``(N, K)``, or predicted classes, shape
            ``(N,)``.

    Returns:
        float: In ``[0, 1]``.

    Raises:
        ValueError: When shapes do not fit.
    """
    means = class_means(features, labels)
    return second_pass(means, [(features, labels, pred)])['nc4']


def second_pass(
    means: ClassMeans, batches: Iterable[Sequence[Tensor]]
) -> dict[str, float]:
    """NC1 and NC4 from features in batches, once their means are known.

    For features that do not fit into memory, or are too wide for the scatter
    matrix of :class:`~mmgeom.geometry.collapse_statistics.CollapseStatistics`:
    the first pass gives the means, this one needs ``(K, d)`` memory only.

    Args:
        means (ClassMeans): Of all the features.
        batches (Iterable[Sequence[Tensor]]): Features ``(B, d)``, labels
            ``(B,)`` and, for NC4, scores ``(B, K)`` or predicted classes
            ``(B,)``.

    Returns:
        dict[str, float]: ``nc1`` unless the means coincide, and ``nc4`` when
        predictions are given.

    Raises:
        ValueError: When there is no sample, shapes do not fit, or a label
            has no mean.
    """
    axes = separating_axes(means.mean)
    square_sum, differ, samples, predicted = 0.0, 0.0, 0, 0
    for features, labels, *pred in batches:
        features = checked_features(features, labels).to(means.mean.device)
        residual = features - means.mean[_rows_of(means, labels)]
        square_sum += (residual @ axes).square().sum()
        samples += len(features)
        if pred:
            nearest = means.label[_nearest(means.mean, features)]
            chosen = _classes(pred[0], nearest)
            differ += (chosen != nearest).sum()
            predicted += len(features)
    if samples == 0:
        raise ValueError('neural collapse needs samples, got none.')
    result = {}
    if axes.numel():
        result['nc1'] = float(square_sum) / samples
    if predicted:
        result['nc4'] = float(differ) / predicted
    return result


def _rows_of(means: ClassMeans, labels: Tensor) -> Tensor:
    labels = labels.to(means.label).contiguous()
    row = torch.searchsorted(means.label, labels).clamp(
        max=len(means.label) - 1
    )
    unknown = means.label[row] != labels
    if unknown.any():
        raise ValueError(
            f'class {int(labels[unknown][0])} has no mean: take the means '
            'over all the features.'
        )
    return row


def _nearest(means: Tensor, features: Tensor) -> Tensor:
    """Row of the nearest mean; the square of the feature cancels."""
    distance = means.square().sum(1) - 2 * (features @ means.T)
    return distance.argmin(1)


def _classes(pred: Tensor, like: Tensor) -> Tensor:
    classes = pred.argmax(1) if pred.ndim == 2 else pred
    if classes.shape != like.shape:
        raise ValueError(
            'predictions must be scores (N, K) or classes (N,) of '
            f'{len(like)} samples, got shape {tuple(pred.shape)}.'
        )
    return classes.to(like)
