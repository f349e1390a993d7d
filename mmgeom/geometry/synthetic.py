# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Synthetic features in the confidence supports of classes."""

import math

import torch
from torch import Tensor

from .angle_laws import sample_angles
from .precision import at_least_float32, unit_vectors

MODES = ('fill', 'const')


@torch.no_grad()
def sample_confidence_support(
    mean: Tensor,
    cap: Tensor,
    numbers: Tensor,
    generator: torch.Generator,
    angle_mean: Tensor | None = None,
    angle_std: Tensor | None = None,
    sampler: str = 'truncnorm',
    total: int | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Draw features from the spherical caps of classes.

    .. math::
        \tilde z = \cos\phi \, m + \sin\phi \, \nu, \qquad
        m = \tilde\mu' / \|\tilde\mu'\|

    with the angle :math:`\phi` of
    :func:`~mmgeom.geometry.angle_laws.sample_angles`, and a tangent direction
    :math:`\nu \perp m` uniform on its sphere. All classes are drawn at once.

    Source: FeatRecon (ICLR 2025), Eq. 14 to 16.

    Args:
        mean (Tensor): :math:`\tilde\mu'` of any length but zero, shape
            ``(K, h)`` with :math:`h \ge 2`.
        cap (Tensor): :math:`\bar\theta` in :math:`[0, \pi/2]`, shape
            ``(K,)``.
        numbers (Tensor): Features to draw of each class, int64, shape
            ``(K,)``; 0 for a class whose mean is zero.
        generator (torch.Generator): On the device of ``mean``.
        angle_mean (Tensor, optional): Mean angle of each class in radians,
            shape ``(K,)``; for ``'truncnorm'``. Defaults to None.
        angle_std (Tensor, optional): Their standard deviations, shape
            ``(K,)``; for ``'truncnorm'``. Defaults to None.
        sampler (str): ``'truncnorm'``, ``'uniform_cap'`` or
            ``'uniform_angle'``. Defaults to ``'truncnorm'``.
        total (int | None): Sum G of ``numbers``, for which the host waits
            for the device if it is not given. Defaults to None.

    Returns:
        tuple[Tensor, Tensor]: Unit features ``(G, h)`` in float32 or wider,
        class after class, and their classes ``(G,)``, int64.

    Raises:
        ValueError: When an argument does not fit. Values are checked only
            when they are in main memory.
    """
    _check_support(mean, cap, numbers, angle_mean, angle_std, total)
    mean = at_least_float32(mean.detach())
    classes = torch.arange(len(mean), device=mean.device)
    labels = classes.repeat_interleave(numbers, output_size=total)
    angle = sample_angles(
        labels, cap, mean.shape[1], generator, angle_mean, angle_std, sampler
    )[:, None]
    center = unit_vectors(mean)[labels]
    normal = torch.randn(
        center.shape,
        generator=generator,
        device=mean.device,
        dtype=mean.dtype,
    )
    tangent = unit_vectors(_without(normal, center))
    # Once more: little may be left in low dimension, and that inexact.
    tangent = unit_vectors(_without(tangent, center))
    cosine, sine = angle.cos().to(mean.dtype), angle.sin().to(mean.dtype)
    return cosine * center + sine * tangent, labels


@torch.no_grad()
def fill_numbers(
    batch_counts: Tensor,
    valid: Tensor,
    generator: torch.Generator,
    cap: int | None = None,
    max_total: int = 8192,
    mode: str = 'fill',
    number: int | None = None,
    eligible: Tensor | None = None,
) -> Tensor:
    r"""How many synthetic features each class gets in a batch.

    ``'fill'``
        :math:`m_k = \max_j c_j - c_k`, so that real and synthetic features
        together are balanced, which is what the bound of the contrastive
        loss asks for.
    ``'const'``
        The same ``number`` for each class.

    Neither is more than ``cap`` for a class. If the sum exceeds
    ``max_total``, classes are taken whole in random order until it is
    reached, the last one in part. Does not wait for the device.

    Source: FeatRecon (ICLR 2025) balances classes without publishing
    numbers; these are choices.

    Args:
        batch_counts (Tensor): Real features :math:`c_k` of each class in
            the batch, int64, shape ``(K,)``.
        valid (Tensor): Which classes have statistics, bool, shape ``(K,)``;
            the others get none.
        generator (torch.Generator): On the device of the counts.
        cap (int | None): Most features of a class. Defaults to None: no
            limit.
        max_total (int): Most features of all classes. Defaults to 8192.
        mode (str): ``'fill'`` or ``'const'``. Defaults to ``'fill'``.
        number (int | None): Features of a class in mode ``'const'``.
            Defaults to None: 8, or 1 from 1000 classes on.
        eligible (Tensor, optional): Which classes may get features, for
            instance those of the tail, bool, shape ``(K,)``. Defaults to
            None: all.

    Returns:
        Tensor: Int64, shape ``(K,)``.

    Raises:
        ValueError: When an argument does not fit.
    """
    _check_fill(batch_counts, valid, cap, max_total, mode, number, eligible)
    classes = len(batch_counts)
    if mode == 'fill':
        numbers = batch_counts.max() - batch_counts
    else:
        default = 1 if classes >= 1000 else 8
        numbers = torch.full_like(
            batch_counts, default if number is None else number
        )
    if cap is not None:
        numbers = numbers.clamp(max=cap)
    mask = valid if eligible is None else valid & eligible
    numbers = numbers.long() * mask
    order = torch.randperm(classes, generator=generator, device=numbers.device)
    ordered = numbers[order]
    left = max_total - (ordered.cumsum(0) - ordered)
    ordered = torch.minimum(ordered, left.clamp(min=0))
    return numbers.scatter(0, order, ordered)


def _without(vectors: Tensor, axes: Tensor) -> Tensor:
    return vectors - (vectors * axes).sum(1, keepdim=True) * axes


def _check_support(
    mean: Tensor,
    cap: Tensor,
    numbers: Tensor,
    angle_mean: Tensor | None,
    angle_std: Tensor | None,
    total: int | None,
) -> None:
    if mean.ndim != 2 or mean.shape[1] < 2:
        raise ValueError(
            'mean must have shape (K, h) with h at least 2, got '
            f'{tuple(mean.shape)}.'
        )
    _check_vectors(
        len(mean),
        cap=cap,
        numbers=numbers,
        angle_mean=angle_mean,
        angle_std=angle_std,
    )
    # Looking at values on another device would make the host wait for it.
    if numbers.device.type != 'cpu':
        return
    if (numbers < 0).any():
        raise ValueError(
            f'numbers must not be negative, got {numbers.min().item()}.'
        )
    if total is not None and total != numbers.sum():
        raise ValueError(
            f'total is {total}, but numbers sum to {numbers.sum().item()}.'
        )
    drawn = numbers > 0
    # Caps of float32 may exceed pi / 2 by rounding.
    if ((cap < 0) | (cap > math.pi / 2 + 1e-6) | cap.isnan())[drawn].any():
        raise ValueError(
            f'cap must lie in [0, pi/2], got {cap[drawn].min().item()} to '
            f'{cap[drawn].max().item()}.'
        )
    lost = drawn & ~(at_least_float32(mean).norm(dim=1) > 1e-12)
    if lost.any():
        raise ValueError(
            f'class {lost.nonzero()[0].item()} has a mean without direction: '
            'draw features of valid classes only.'
        )


def _check_fill(
    batch_counts: Tensor,
    valid: Tensor,
    cap: int | None,
    max_total: int,
    mode: str,
    number: int | None,
    eligible: Tensor | None,
) -> None:
    if batch_counts.ndim != 1 or batch_counts.is_floating_point():
        raise ValueError(
            'batch_counts must be integers of shape (K,), got '
            f'{batch_counts.dtype} of shape {tuple(batch_counts.shape)}.'
        )
    _check_vectors(len(batch_counts), valid=valid, eligible=eligible)
    if mode not in MODES:
        raise ValueError(f"mode must be 'fill' or 'const', got {mode!r}.")
    if mode == 'fill' and number is not None:
        raise ValueError(
            f"number={number} means nothing in mode 'fill': set cap to limit "
            "what a class gets, or mode='const'."
        )
    limits = dict(cap=cap, max_total=max_total, number=number)
    for name, value in limits.items():
        if value is not None and value < 0:
            raise ValueError(f'{name} must not be negative, got {value}.')
    if batch_counts.device.type == 'cpu' and (batch_counts < 0).any():
        raise ValueError(
            'batch_counts must not be negative, got '
            f'{batch_counts.min().item()}.'
        )


def _check_vectors(number: int, **vectors: Tensor | None) -> None:
    for name, vector in vectors.items():
        if vector is not None and vector.shape != (number,):
            raise ValueError(
                f'{name} must have shape ({number},), one entry for each '
                f'class, got {tuple(vector.shape)}.'
            )
