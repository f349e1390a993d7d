# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Losses that shape the trace of a regression label on the sphere.

A trace is the sequence of the unit centroids of K label bins, in the order
of their labels. Bins that are not available are left out by masks, so that
shapes are static and no function waits for the device.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .precision import at_least_float32, unit_vectors
from .sphere import nearest_vectors

#: Mean features shorter than this have no direction but rounding errors.
MIN_NORM = 1e-6


def bin_sums(
    features: Tensor, bins: Tensor, num_bins: int
) -> tuple[Tensor, Tensor]:
    """Sum of the features and number of samples of each bin.

    Args:
        features (Tensor): Shape ``(B, n)``.
        bins (Tensor): In ``[0, K)``, int64, shape ``(B,)``.
        num_bins (int): K.

    Returns:
        tuple[Tensor, Tensor]: Sums ``(K, n)`` with gradient and numbers
        ``(K,)``, float32 or wider.

    Raises:
        ValueError: When shapes do not fit.
    """
    if features.ndim != 2 or bins.shape != features.shape[:1]:
        raise ValueError(
            'features must have shape (B, n) and bins (B,), got '
            f'{tuple(features.shape)} and {tuple(bins.shape)}.'
        )
    features = at_least_float32(features)
    sums = features.new_zeros(num_bins, features.shape[1])
    counts = features.new_zeros(num_bins)
    ones = features.new_ones(len(bins))
    return sums.index_add(0, bins, features), counts.index_add(0, bins, ones)


def centroids_from_sums(sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Directions of the mean features of the bins that have one.

    Args:
        sums (Tensor): Of :func:`bin_sums`, shape ``(K, n)``.
        counts (Tensor): Shape ``(K,)``.

    Returns:
        tuple[Tensor, Tensor]: Unit centroids ``(K, n)`` with gradient, rows
        of zeros for bins that have none, and a bool mask ``(K,)`` of those
        that have one. A bin without samples has none, nor has one whose
        features cancel each other (a mean shorter than 1e-6).
    """
    means = sums / counts.clamp(min=1)[:, None]
    centroids = unit_vectors(means, eps=MIN_NORM)
    return centroids, centroids.detach().any(1)


def batch_centroids(
    features: Tensor, bins: Tensor, num_bins: int
) -> tuple[Tensor, Tensor]:
    r"""Unit centroids of the bins in a batch.

    .. math::
        c_k = \frac{\sum_{m: y_m = k} z_m}{\|\sum_{m: y_m = k} z_m\|}

    Source: SRL (CVPR 2025), Eq. 8.

    Args:
        features (Tensor): Unit features z, shape ``(B, n)``.
        bins (Tensor): In ``[0, K)``, int64, shape ``(B,)``.
        num_bins (int): K.

    Returns:
        tuple[Tensor, Tensor]: As of :func:`centroids_from_sums`.

    Raises:
        ValueError: When shapes do not fit.
    """
    return centroids_from_sums(*bin_sums(features, bins, num_bins))


class _MeanNearestCosine(torch.autograd.Function):
    """Mean inner product of points with their nearest centroids.

    Piecewise linear in the centroids: the gradient is a constant, found with
    the value, and neither the points nor the products have to be kept.
    """

    @staticmethod
    def forward(
        ctx: Any, centroids: Tensor, points: Tensor, available: Tensor | None
    ) -> Tensor:
        cosine, index = nearest_vectors(points, centroids, available)
        value, exists = cosine.mean(), None
        if available is not None:
            exists = available.any()
            value = torch.where(exists, value, 0)
        if ctx.needs_input_grad[0]:
            grad = torch.zeros_like(centroids)
            grad.index_add_(0, index, points.to(grad.dtype))
            grad /= len(points)
            if exists is not None:
                # Without any centroid, the points went to the first row.
                grad *= exists
            ctx.save_for_backward(grad)
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple:
        (grad,) = ctx.saved_tensors
        return grad_output * grad, None, None


def enveloping_loss(
    centroids: Tensor, points: Tensor, available: Tensor | None = None
) -> Tensor:
    r"""How far a trace is from the points of the sphere.

    .. math:: L_{env} = -\frac1N \sum_{i=1}^N \max_k \langle p_i, c_k\rangle

    Minus the soft volume of a tube around the trace: the smaller, the better
    the trace fills the sphere. It lies in :math:`[-1, 1]`, 0 for a single
    centroid and many points. Its standard error is the standard deviation of
    the nearest cosines (:func:`~mmgeom.geometry.sphere.nearest_vectors`) over
    :math:`\sqrt N`.

    The gradient goes to the nearest centroid of each point, in
    :math:`O(Nn)`; no gradient goes to the points. No matrix of N by K is
    kept.

    Source: SRL (CVPR 2025), Eq. 2 to 4, in the soft form that is trained.

    Args:
        centroids (Tensor): Unit rows, shape ``(K, n)``.
        points (Tensor): Uniform on the sphere, shape ``(N, n)``; or centroids
            and points of :func:`~mmgeom.geometry.sphere.sample_span`. Fixed,
            or drawn again whenever the caller wants.
        available (Tensor, optional): Bins that the trace has, bool, shape
            ``(K,)``; a row that is not available never wins, whatever it
            holds. Defaults to None: all.

    Returns:
        Tensor: Scalar; zero without any available bin.

    Raises:
        ValueError: When there is no point, or shapes do not fit.
    """
    centroids = at_least_float32(centroids)
    return -_MeanNearestCosine.apply(centroids, points, available)


def tube_volume(
    centroids: Tensor,
    points: Tensor,
    epsilon: float | Tensor,
    available: Tensor | None = None,
) -> Tensor:
    r"""Share of the sphere inside the tube around a trace.

    .. math::
        \frac{\#\{i : \max_k \langle p_i, c_k\rangle > \epsilon\}}{N}

    Source: SRL (CVPR 2025), Eq. 1 to 4. The tube is defined by the cosine,
    not by a distance.

    Args:
        centroids (Tensor): Unit rows, shape ``(K, n)``.
        points (Tensor): Uniform on the sphere, shape ``(N, n)``.
        epsilon (float | Tensor): Least cosine, in ``(0, 1)``; several at
            once as a tensor.
        available (Tensor, optional): As in :func:`enveloping_loss`. Defaults
            to None: all.

    Returns:
        Tensor: Volume over that of the sphere, in ``[0, 1]``, of the shape of
        ``epsilon``, without gradient.

    Raises:
        ValueError: When there is no point, or shapes do not fit.
    """
    cosine = nearest_vectors(points, centroids, available).cosine
    epsilon = torch.as_tensor(epsilon, dtype=cosine.dtype).to(cosine.device)
    return (cosine > epsilon[..., None]).to(cosine.dtype).mean(-1)


def homogeneity_loss(
    centroids: Tensor,
    labels: Tensor,
    available: Tensor | None = None,
    mode: str = 'paper',
    variance_weight: float = 0.0,
    normalize: bool = False,
) -> Tensor:
    r"""How unevenly, and how far, a trace runs along the label.

    With the steps from each available bin to the next available one,

    .. math::
        L_{homo} = \sum_k \frac{\|c_{k+1} - c_k\|^2}{y_{k+1} - y_k} .

    For a given image of the trace it is smallest at constant speed (Theorem
    1), as long as steps stay below a right angle. ``mode='cos'`` is the form
    of the released AgeDB code, which ignores the label gaps,

    .. math::
        -\sum_k \langle c_{k+1}, c_k\rangle
        + w \operatorname{var}_k \langle c_{k+1}, c_k\rangle ,

    half of Eq. 6 up to a constant for unit gaps and :math:`w = 0`.

    Source: SRL (CVPR 2025), Eq. 6.

    Args:
        centroids (Tensor): Unit rows, shape ``(K, n)``.
        labels (Tensor): Label values of the bins, strictly increasing, shape
            ``(K,)``, as the centers of
            :class:`~mmgeom.binning.LabelBins`.
        available (Tensor, optional): Bins that the trace has, bool, shape
            ``(K,)``. Defaults to None: all.
        mode (str): ``'paper'`` or ``'cos'``. Defaults to ``'paper'``.
        variance_weight (float): w, of the unbiased variance; with
            ``mode='cos'`` only. The code uses 0.1. Defaults to 0.
        normalize (bool): Divide by :math:`(A-1)^2 / (y_{max} - y_{min})` of
            the A available bins, which makes the loss at most 4 for equal
            gaps, the mean of :math:`\|c_{k+1} - c_k\|^2`, whatever the
            number of bins and the unit of the label. With ``mode='paper'``
            only. Defaults to False.

    Returns:
        Tensor: Scalar; zero with fewer than two available bins.

    Raises:
        ValueError: When shapes do not fit, or options exclude each other.
    """
    _check_homogeneity(centroids, labels, mode, variance_weight, normalize)
    centroids = at_least_float32(centroids)
    previous, is_step = _steps(len(centroids), available, centroids.device)
    before = centroids.index_select(0, previous)
    if mode == 'cos':
        cosine = torch.where(is_step, (centroids * before).sum(1), 0)
        loss = -cosine.sum()
        if variance_weight:
            loss = loss + variance_weight * _variance(cosine, is_step)
        return loss
    # Differences first: labels may be large and close to each other.
    gap = labels - labels.index_select(0, previous)
    rate = torch.where(is_step, gap.reciprocal(), 0).to(centroids.dtype)
    square = (centroids - before).square().sum(1)
    loss = (square * rate).sum()
    if normalize:
        number = is_step.sum().clamp(min=1)
        loss = loss * torch.where(is_step, gap, 0).sum() / number**2
    return loss


def centroid_contrast(
    features: Tensor,
    bins: Tensor,
    centroids: Tensor,
    available: Tensor | None = None,
    temperature: float = 0.3,
    reduction: str = 'mean',
) -> Tensor:
    r"""Contrast of features with the centroids of all available bins.

    .. math::
        \ell_m = -\log \frac{\exp(\langle z_m, c_{y_m}\rangle / T)}
        {\sum_k \exp(\langle z_m, c_k\rangle / T)}

    The centroids are constants here. A feature whose own bin is not
    available does not count.

    Source: SRL (CVPR 2025), Eq. 10, printed as a sum without temperature;
    the released code takes the mean, with T = 0.3 or 0.1.

    Args:
        features (Tensor): Unit features z, shape ``(B, n)``.
        bins (Tensor): In ``[0, K)``, int64, shape ``(B,)``.
        centroids (Tensor): Unit rows, shape ``(K, n)``.
        available (Tensor, optional): Bins that take part, bool, shape
            ``(K,)``. Defaults to None: all.
        temperature (float): T, positive. Defaults to 0.3.
        reduction (str): ``'mean'`` over the features that count, ``'sum'``,
            or ``'none'``. Defaults to ``'mean'``.

    Returns:
        Tensor: Scalar, not negative, or shape ``(B,)``; zero where nothing
        counts.

    Raises:
        ValueError: When an argument is out of its range.
    """
    if not temperature > 0:
        raise ValueError(f'temperature must be positive, got {temperature}.')
    if reduction not in ('mean', 'sum', 'none'):
        raise ValueError(
            f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}."
        )
    features = at_least_float32(features)
    rows = at_least_float32(centroids.detach()).to(features.dtype)
    if available is None:
        available = torch.ones_like(rows[:, 0], dtype=torch.bool)
    offset = torch.zeros_like(rows[:, 0])
    # With nothing to compare with, all rows stay in and no feature counts.
    offset.masked_fill_(~available & available.any(), -torch.inf)
    with torch.autocast(features.device.type, enabled=False):
        logits = torch.addmm(offset, features, rows.T / temperature)
    counts = available.index_select(0, bins)
    loss = F.cross_entropy(logits, bins, reduction='none')
    loss = torch.where(counts, loss, 0)
    if reduction == 'none':
        return loss
    if reduction == 'sum':
        return loss.sum()
    return loss.sum() / counts.sum().clamp(min=1)


def _steps(
    number: int, available: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The available bin before each bin, and whether both are available."""
    index = torch.arange(number, device=device)
    if available is None:
        available = torch.ones_like(index, dtype=torch.bool)
    latest = torch.where(available, index, -1).cummax(0).values
    previous = F.pad(latest[:-1], (1, 0), value=-1)
    return previous.clamp(min=0), available & (previous >= 0)


def _variance(values: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance of the masked values; zero for fewer than two."""
    number = mask.sum()
    mean = values.sum() / number.clamp(min=1)
    square = torch.where(mask, values - mean, 0).square().sum()
    return square / (number - 1).clamp(min=1)


def _check_homogeneity(
    centroids: Tensor,
    labels: Tensor,
    mode: str,
    variance_weight: float,
    normalize: bool,
) -> None:
    if centroids.ndim != 2 or labels.shape != centroids.shape[:1]:
        raise ValueError(
            'centroids must have shape (K, n) and labels (K,), got '
            f'{tuple(centroids.shape)} and {tuple(labels.shape)}.'
        )
    if mode not in ('paper', 'cos'):
        raise ValueError(f"mode must be 'paper' or 'cos', got {mode!r}.")
    if mode == 'paper' and variance_weight:
        raise ValueError(
            "variance_weight belongs to mode='cos', got "
            f"{variance_weight} with mode='paper'."
        )
    if mode == 'cos' and normalize:
        raise ValueError(
            "normalize=True needs mode='paper': the form of mode='cos' has "
            'no label gaps.'
        )
