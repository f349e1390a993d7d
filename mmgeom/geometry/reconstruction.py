# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Statistics of tail classes, drawn towards those of similar head classes."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .class_statistics import MIN_NORM
from .precision import at_least_float32

#: Sum of weighted similarities below which a class has no neighbours.
_MIN_SIMILARITY = 1e-8


class Reconstruction(NamedTuple):
    r"""Confidence supports of all classes.

    Attributes:
        mean (Tensor): :math:`\tilde\mu'`, not normalised, shape ``(K, h)``.
        angle (Tensor): :math:`\hat\theta'` in radians, shape ``(K,)``.
        cap (Tensor): :math:`\bar\theta`, at most half the angle between
            vertices of the regular simplex, shape ``(K,)``.
        angle_mean (Tensor): Mean angle, shape ``(K,)``.
        angle_std (Tensor): Standard deviation of the angles, shape ``(K,)``.
        clipped (Tensor): Valid classes whose angle exceeds the half angle,
            bool, shape ``(K,)``.
        valid (Tensor): Classes that have statistics and a direction, bool,
            shape ``(K,)``.
    """

    mean: Tensor
    angle: Tensor
    cap: Tensor
    angle_mean: Tensor
    angle_std: Tensor
    clipped: Tensor
    valid: Tensor


def simplex_half_angle(num_classes: int) -> float:
    r"""Half the angle between two vertices of the regular simplex.

    .. math:: \frac12 \arccos \frac{-1}{K - 1}

    Caps of this radius around the vertices touch without overlapping.

    Source: FeatRecon (ICLR 2025), Eq. 10.

    Args:
        num_classes (int): K, at least 2.

    Returns:
        float: In radians; :math:`\pi / 2` for two classes, towards
        :math:`\pi / 4` for many.

    Raises:
        ValueError: When there are fewer than two classes.
    """
    if num_classes < 2:
        raise ValueError(
            f'num_classes must be at least 2 for a simplex, got {num_classes}.'
        )
    return math.acos(-1 / (num_classes - 1)) / 2


def head_weights(
    tail: Tensor, head: Tensor, counts: Tensor, q: int
) -> tuple[Tensor, Tensor]:
    r"""Weights of the head classes that are nearest to tail classes.

    .. math::
        \omega_k^c = \frac{N_c (\hat\mu_k \cdot \hat\mu_c)_+}
        {\sum_{j \in C_k^q} N_j (\hat\mu_k \cdot \hat\mu_j)_+}

    for the q head classes :math:`C_k^q` of largest inner product. Negative
    products count as zero.

    Source: FeatRecon (ICLR 2025), before Eq. 8 and in Eq. 8 and 9, where the
    count of class c is what makes the weights sum to one.

    Args:
        tail (Tensor): Means of the tail classes, shape ``(T, h)``.
        head (Tensor): Means of the head classes, shape ``(H, h)``.
        counts (Tensor): Samples of the head classes, shape ``(H,)``, in the
            type of the means.
        q (int): Number of neighbours; all if there are not more.

    Returns:
        tuple[Tensor, Tensor]: Weights, shape ``(T, H)``, rows that sum to
        one or are zeros; and which rows are not zeros, bool, shape ``(T,)``:
        those of similarities that sum to at least 1e-8.

    Raises:
        ValueError: When ``q`` is not positive.
    """
    if q < 1:
        raise ValueError(
            f'q is a number of head classes and must be positive, got {q}.'
        )
    similarity = tail @ head.T
    similarity, index = similarity.topk(min(q, len(head)), dim=1)
    weight = counts[index] * similarity.clamp(min=0)
    total = weight.sum(1, keepdim=True)
    similar = total >= _MIN_SIMILARITY
    weight = torch.where(similar, weight / total.where(similar, 1), 0)
    dense = torch.zeros_like(tail[:, :1]).repeat(1, len(head))
    return dense.scatter_(1, index, weight), similar[:, 0]


@torch.no_grad()
def reconstruct(
    mean: Tensor,
    angle: Tensor,
    angle_mean: Tensor,
    angle_std: Tensor,
    counts: Tensor,
    head_mask: Tensor,
    valid: Tensor,
    q: int = 3,
    gamma: float = 0.5,
) -> Reconstruction:
    r"""Regularise the statistics of tail classes by those of head classes.

    For each tail class k, with the weights of :func:`head_weights`,

    .. math::
        \tilde\mu'_k &= (1-\gamma) \sum_{c \in C_k^q} \omega_k^c \hat\mu_c
        + \gamma \hat\mu_k \\
        \hat\theta'_k &= (1-\gamma) \sum_{c \in C_k^q} \omega_k^c
        \hat\theta_c + \gamma \hat\theta_k \\
        \bar\theta_k &= \min(\hat\theta'_k,
        \tfrac12 \arccos \tfrac{-1}{K-1})

    and mean and standard deviation of the angles like
    :math:`\hat\theta'`. Head classes keep their own statistics, and so does
    a tail class that is similar to no head class, or when no head class is
    valid. One product of matrices of ``(T, h)`` and ``(h, H)`` for T tail
    and H head classes, in float32 or wider.

    Source: FeatRecon (ICLR 2025), Eq. 8 to 10. That head classes are not
    regularised, that negative similarities count as zero, and the values of
    ``q`` and ``gamma`` are choices where the paper says nothing.

    Args:
        mean (Tensor): Means of unit features, not normalised, shape
            ``(K, h)``.
        angle (Tensor): Quantiles of the angles in radians, shape ``(K,)``.
        angle_mean (Tensor): Their means, shape ``(K,)``.
        angle_std (Tensor): Their standard deviations, shape ``(K,)``.
        counts (Tensor): Training samples of each class, shape ``(K,)``.
        head_mask (Tensor): Which classes are head, bool, shape ``(K,)``.
        valid (Tensor): Which classes have statistics, bool, shape ``(K,)``.
            The others are no neighbours, and stay as they are.
        q (int): Number of neighbours; all valid head classes if there are
            not more. Defaults to 3.
        gamma (float): Weight of a class's own statistics in ``[0, 1]``.
            Defaults to 0.5.

    Returns:
        Reconstruction: Without gradient. A class whose regularised mean is
        shorter than 1e-6 is not valid.

    Raises:
        ValueError: When shapes or arguments do not fit.
    """
    half_angle = simplex_half_angle(len(mean))
    _check(mean, angle, angle_mean, angle_std, counts, head_mask, valid)
    if not 0 <= gamma <= 1:
        raise ValueError(
            'gamma is the weight of own statistics and must lie in [0, 1], '
            f'got {gamma}.'
        )
    mean = at_least_float32(mean.detach())
    head_mask, valid = head_mask.to(mean.device), valid.to(mean.device)
    angles = [v.to(mean)[:, None] for v in (angle, angle_mean, angle_std)]
    head = (head_mask & valid).nonzero()[:, 0]
    tail = (~head_mask & valid).nonzero()[:, 0]
    counts = counts.to(mean)[head]
    with torch.autocast(mean.device.type, enabled=False):
        statistics = torch.cat([mean, *angles], 1)
        weight, similar = head_weights(mean[tail], mean[head], counts, q)
        mixed = weight @ statistics[head]
    own = statistics[tail]
    mixed = torch.lerp(mixed, own, gamma)
    statistics[tail] = torch.where(similar[:, None], mixed, own)
    mean = statistics[:, :-3].contiguous()
    angle, angle_mean, angle_std = statistics[:, -3:].T.contiguous()
    valid = valid & (mean.norm(dim=1) >= MIN_NORM)
    return Reconstruction(
        mean=mean,
        angle=angle,
        cap=angle.clamp(max=half_angle),
        angle_mean=angle_mean,
        angle_std=angle_std,
        clipped=valid & (angle > half_angle),
        valid=valid,
    )


def _check(mean: Tensor, *vectors: Tensor) -> None:
    if mean.ndim != 2:
        raise ValueError(
            f'mean must have shape (K, h), got {tuple(mean.shape)}.'
        )
    names = 'angle', 'angle_mean', 'angle_std', 'counts', 'head_mask', 'valid'
    for name, vector in zip(names, vectors, strict=True):
        if vector.shape != mean.shape[:1]:
            raise ValueError(
                f'{name} must have shape ({len(mean)},), one entry for each '
                f'class, got {tuple(vector.shape)}.'
            )
        if name in ('head_mask', 'valid') and vector.dtype != torch.bool:
            raise ValueError(
                f'{name} must be a bool mask, got {vector.dtype}.'
            )
