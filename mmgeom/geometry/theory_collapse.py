# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Optima of multi-centre classifiers with free features, in closed form.

The unconstrained-feature model replaces the network by free features
:math:`h_{k,i}` and minimises objective P (NCMC, Eq. 20): half the squared
error of all centre products to the :math:`f_k`-hot target, divided by
:math:`S = \\sum_k f_k n_k`, with penalties :math:`\\lambda_H/2\\,\\|H\\|^2`
and, for a learnable frame, :math:`\\lambda_{W_0}/2\\,\\|W_0\\|^2`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class LearnableFrameOptimum(NamedTuple):
    r"""Squared norms at the optimum, both float64 of shape ``(K,)``.

    Attributes:
        direction (Tensor): :math:`\|w_k^*\|^2`.
        feature (Tensor): :math:`\|h_k^*\|^2`.
    """

    direction: Tensor
    feature: Tensor


def cos_alpha(centers: Sequence[int] | Tensor, theta: float) -> Tensor:
    r"""Cosine of the mean centre and any centre of a class.

    .. math:: \cos\alpha_k
        = \sqrt{(\cos^2\theta + f_k \sin^2\theta) / f_k}

    Source: NCMC (NeurIPS 2024), Definition 3.2.

    Args:
        centers (Sequence[int] | Tensor): :math:`f_k`, at least 1 each.
        theta (float): Angle of the frame in radians, in ``[0, pi/2]``.

    Returns:
        Tensor: Shape ``(K,)``, float64, in ``(0, 1]``.

    Raises:
        ValueError: When an argument is out of its range.
    """
    f = _positive('centers', centers)
    return (gradient_bound(f, theta) / f).sqrt()


def gradient_bound(centers: Sequence[int] | Tensor, theta: float) -> Tensor:
    r"""Weighted bound of the gradient that a class receives.

    .. math:: \cos\alpha_k \Big\|\sum_{j=1}^{f_k} w_j^{(k)}\Big\|
        = \cos^2\theta + f_k \sin^2\theta

    Linear in :math:`f_k`, so that the allocation of centres steers how
    strongly a class is pulled.

    Source: NCMC (NeurIPS 2024), Appendix F.1.

    Args:
        centers (Sequence[int] | Tensor): :math:`f_k`, at least 1 each.
        theta (float): Angle of the frame in radians, in ``[0, pi/2]``.

    Returns:
        Tensor: Shape ``(K,)``, float64.

    Raises:
        ValueError: When an argument is out of its range.
    """
    f = _positive('centers', centers)
    if not 0 <= theta <= math.pi / 2:
        raise ValueError(
            f'theta is an angle in radians in [0, pi/2], got {theta}.'
        )
    return math.cos(theta) ** 2 + f * math.sin(theta) ** 2


def fixed_frame_norm(
    centers: Sequence[int] | Tensor,
    counts: Sequence[int] | Tensor,
    theta: float,
    lambda_h: float,
) -> Tensor:
    r"""Norms of the optimal features when the unit frame is fixed.

    .. math:: \|h_k^*\|
        = \frac{f_k \cos\alpha_k}{f_k \cos^2\alpha_k + \lambda_H S}

    All features of a class coincide, in the direction of its mean centre,
    and are orthogonal to those of other classes.

    Source: NCMC (NeurIPS 2024), Corollary 3.7.

    Args:
        centers (Sequence[int] | Tensor): :math:`f_k`, at least 1 each.
        counts (Sequence[int] | Tensor): Training samples :math:`n_k` of each
            class, at least 1 each.
        theta (float): Angle of the frame in radians, in ``[0, pi/2]``.
        lambda_h (float): :math:`\lambda_H`, not negative.

    Returns:
        Tensor: Shape ``(K,)``, float64.

    Raises:
        ValueError: When an argument is out of its range.
    """
    f, n = _centers_and_counts(centers, counts)
    if not 0 <= lambda_h < math.inf:
        raise ValueError(f'lambda_h must not be negative, got {lambda_h}.')
    cosine = cos_alpha(f, theta)
    return f * cosine / (f * cosine**2 + lambda_h * (f * n).sum())


def learnable_frame_optimum(
    centers: Sequence[int] | Tensor,
    counts: Sequence[int] | Tensor,
    theta: float,
    lambda_h: float,
    lambda_w: float,
) -> LearnableFrameOptimum:
    r"""Squared norms of the optimum when the frame's norms are learned.

    With :math:`q_k = \lambda_{W_0} / (n_k \lambda_H)`,

    .. math::
        \|w_k^*\|^2 = \frac{\sqrt{q_k} \cos\alpha_k
        - S \lambda_{W_0} / (f_k n_k)}{q_k \cos^2\alpha_k}, \qquad
        \|h_k^*\|^2 = q_k \|w_k^*\|^2

    where :math:`\cos\alpha_k > (S/f_k) \sqrt{\lambda_H \lambda_{W_0}/n_k}`;
    a class for which this fails vanishes, both norms are zero.

    Source: NCMC (NeurIPS 2024), Theorem 3.4; with equal counts Theorem 3.3.

    Args:
        centers (Sequence[int] | Tensor): :math:`f_k`, at least 1 each.
        counts (Sequence[int] | Tensor): Training samples :math:`n_k` of each
            class, at least 1 each.
        theta (float): Angle of the frame in radians, in ``[0, pi/2]``.
        lambda_h (float): :math:`\lambda_H`, positive.
        lambda_w (float): :math:`\lambda_{W_0}`, positive.

    Returns:
        LearnableFrameOptimum: Squared norms of class directions and features.

    Raises:
        ValueError: When an argument is out of its range.
    """
    f, n = _centers_and_counts(centers, counts)
    for name, value in (('lambda_h', lambda_h), ('lambda_w', lambda_w)):
        if not 0 < value < math.inf:
            raise ValueError(f'{name} must be positive, got {value}.')
    cosine = cos_alpha(f, theta)
    total = (f * n).sum()
    q = lambda_w / (n * lambda_h)
    # Not positive exactly when the condition of the theorem fails.
    surplus = (q.sqrt() * cosine - total * lambda_w / (f * n)).clamp(min=0)
    direction = surplus / (q * cosine**2)
    return LearnableFrameOptimum(direction, q * direction)


def pairwise_probability(
    centers: Sequence[int] | Tensor, other: Sequence[int] | Tensor
) -> Tensor:
    r"""Chance that a hard sample goes to the first of two classes.

    .. math:: P = \frac{f_k}{f_k + f_{k'}}

    under the rule of the nearest centre, for a feature that is symmetric
    noise around the mean of all class vectors.

    Source: NCMC (NeurIPS 2024), Section 3.1.

    Args:
        centers (Sequence[int] | Tensor): Centres :math:`f_k`, at least 1.
        other (Sequence[int] | Tensor): Centres :math:`f_{k'}`, at least 1,
            of a shape that broadcasts.

    Returns:
        Tensor: float64, in ``(0, 1)``.

    Raises:
        ValueError: When a number is less than 1.
    """
    f, g = _positive('centers', centers), _positive('other', other)
    return f / (f + g)


def nearest_center_probability(
    centers: Sequence[int] | Tensor, hard: Sequence[float] | Tensor
) -> float:
    r"""Chance that a hard sample is classified correctly.

    .. math:: P_{\mathrm{GCR}} = \frac1F \sum_k f_k \, P\{E_k\}

    under the rule of the nearest centre (GCR), where :math:`E_k` is the event
    that a hard sample is of class ``k``. With equal :math:`f_k` it is
    :math:`1/K`, the value of the rule with one vector per class (RCR).

    Source: NCMC (NeurIPS 2024), Section 3.1 and Proposition 3.1.

    Args:
        centers (Sequence[int] | Tensor): :math:`f_k`, at least 1 each.
        hard (Sequence[float] | Tensor): :math:`P\{E_k\}`, not negative, sum
            1.

    Returns:
        float: In ``(0, 1)``.

    Raises:
        ValueError: When an argument is out of its range.
    """
    f = _positive('centers', centers)
    p = torch.as_tensor(hard, dtype=torch.float64)
    if p.shape != f.shape or not (p >= 0).all() or abs(p.sum() - 1) > 1e-6:
        raise ValueError(
            f'hard must be {f.numel()} probabilities that sum to 1, one for '
            f'each class, got {p.numel()} numbers with sum {p.sum().item()}.'
        )
    return ((f * p).sum() / f.sum()).item()


def _centers_and_counts(
    centers: Sequence[int] | Tensor, counts: Sequence[int] | Tensor
) -> tuple[Tensor, Tensor]:
    f, n = _positive('centers', centers), _positive('counts', counts)
    if f.shape != n.shape:
        raise ValueError(
            f'{f.numel()} numbers of centres do not fit {n.numel()} class '
            'counts: give one of each for every class.'
        )
    return f, n


def _positive(name: str, values: Sequence[int] | Tensor) -> Tensor:
    numbers = torch.as_tensor(values).double()
    if not ((numbers >= 1) & torch.isfinite(numbers)).all():
        raise ValueError(
            f'{name} must be finite and at least 1 each, got '
            f'{numbers.flatten().tolist()[:8]}.'
        )
    return numbers
