# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Losses of a feature against the fixed centres of its class."""

import math

import torch
from torch import Tensor

from .frames import MultiCenterFrame, OwnTerms


def cosine_center_loss(
    terms: OwnTerms, centers: Tensor, theta: float
) -> Tensor:
    r"""Squared deviations of the cosines to all own centres from one.

    .. math::
        \sum_{j=1}^{f_k} (\langle w_j^{(k)}, \hat h\rangle - 1)^2
        = \cos^2\theta \sum_j p_j^2 + 2 \cos\theta\,(s - 1) \sum_j p_j
        + f_k (s - 1)^2

    with :math:`s = \sin\theta\,\langle w_k, \hat h\rangle` and
    :math:`p_j = \langle v_j^{(k)}, \hat h\rangle`. The minimum over the
    sphere is :math:`f_k(1 - \cos\alpha_k)^2`, at the mean centre.

    Source: NCMC (NeurIPS 2024), Eq. 34, in closed form.

    Args:
        terms (OwnTerms): Of :meth:`MultiCenterFrame.own_terms`.
        centers (Tensor): :math:`f_k` of each sample's class, shape ``(B,)``.
        theta (float): Angle of the frame in radians.

    Returns:
        Tensor: Shape ``(B,)``, not negative.
    """
    cosine = math.cos(theta)
    gap = math.sin(theta) * terms.direction - 1
    loss = (
        cosine**2 * terms.square_sum
        + 2 * cosine * gap * terms.sum
        + centers * gap**2
    )
    # A sum of squares; its closed form may round below zero.
    return loss.clamp(min=0)


def center_regression_loss(
    frame: MultiCenterFrame, feature: Tensor, label: Tensor
) -> Tensor:
    r"""Squared error of all centre products to the :math:`f_k`-hot target.

    .. math:: \tfrac12 \|W h - y_k\|^2

    where ``W`` holds all F centres and :math:`y_k` is one on the rows of
    class ``k``. The per-sample term of objective P (NCMC, Eq. 20 and 21; the
    inner sums are printed with a wrong upper limit). Touches all F centres,
    so it costs a pass over ``(B, F)``.

    Args:
        frame (MultiCenterFrame): The frame, centres allocated.
        feature (Tensor): Shape ``(B, d)``, not normalised.
        label (Tensor): Classes, shape ``(B,)``.

    Returns:
        Tensor: Shape ``(B,)``.
    """
    z = frame.coordinates(feature)
    own = frame.class_of_center()
    direction, parts = z[:, : frame.num_classes], z[:, frame.num_classes :]
    cosine, sine = math.cos(frame.theta), math.sin(frame.theta)
    product = cosine * parts + sine * direction[:, own]
    target = own[None] == label[:, None]
    return 0.5 * (product - target.to(product.dtype)).square().sum(1)


def dot_regression_loss(cosine: Tensor) -> Tensor:
    r"""Dot-regression loss to a fixed unit class vector.

    .. math:: \tfrac12 (\langle m_y, \hat h\rangle - 1)^2

    Its gradient on the sphere is :math:`-(1 - \cos)\, m_y`.

    Source: *Inducing Neural Collapse in Imbalanced Learning* (NeurIPS 2022),
    Eq. 8, for normalised features.

    Args:
        cosine (Tensor): :math:`\langle m, \hat h\rangle`, any shape.

    Returns:
        Tensor: Same shape.
    """
    return 0.5 * (cosine - 1).square()


def norm_penalty(norm: Tensor) -> Tensor:
    r"""Squared deviation of a feature's norm from one.

    .. math:: (\|h\| - 1)^2

    Source: NCMC (NeurIPS 2024), Appendix F.1.

    Args:
        norm (Tensor): Shape ``(B,)``.

    Returns:
        Tensor: Shape ``(B,)``.
    """
    return torch.square(norm - 1)
