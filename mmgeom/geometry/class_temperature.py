# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Temperatures of the contrastive loss, by class and by epoch."""

import math

import torch
from torch import Tensor


def class_temperature(
    counts: Tensor, tau_minus: float = 0.1, tau_plus: float = 1.0
) -> Tensor:
    r"""Temperature of each class, low for rare ones.

    .. math::
        \tau_k = \tau_- + (\tau_+ - \tau_-) \left[1 - \frac12 \left(1 +
        \cos \pi \frac{N_k - N_{\min}}{N_{\max} - N_{\min}} \right)\right]

    The rarest class gets :math:`\tau_-`, the most frequent :math:`\tau_+`.
    Where all classes are equally frequent, all get :math:`\tau_-`.

    Source: FeatRecon (ICLR 2025), Eq. 11.

    Args:
        counts (Tensor): Training samples :math:`N_k \ge 0` of each class,
            shape ``(K,)``.
        tau_minus (float): :math:`\tau_- > 0`. Defaults to 0.1.
        tau_plus (float): :math:`\tau_+ > 0`, for instance of
            :func:`kukleva_schedule`. Defaults to 1.0.

    Returns:
        Tensor: Shape ``(K,)``; float64 if the counts are, else float32.

    Raises:
        ValueError: When there are no classes, or a temperature is not
            positive, or a count in main memory is negative or not finite.
    """
    _check_positive(tau_minus=tau_minus, tau_plus=tau_plus)
    if counts.ndim != 1 or len(counts) == 0:
        raise ValueError(
            'counts must have shape (K,), one for each class, got '
            f'{tuple(counts.shape)}.'
        )
    # Looking at values on another device would make the host wait for it.
    if counts.device.type == 'cpu':
        wrong = ~(counts.isfinite() & (counts >= 0))
        if wrong.any():
            raise ValueError(
                'counts must be finite and not negative, got '
                f'{counts[wrong][0].item()}.'
            )
    wide = counts.double()
    low, high = wide.aminmax()
    span = high - low
    share = (wide - low) / span.where(span > 0, 1)
    rise = (1 - torch.cos(math.pi * share)) / 2
    tau = tau_minus + (tau_plus - tau_minus) * rise
    return tau if counts.dtype == torch.float64 else tau.float()


def kukleva_schedule(
    epoch: float,
    tau_min: float = 0.1,
    tau_max: float = 1.0,
    period: float = 200,
) -> float:
    r"""Temperature that swings between two values over the epochs.

    .. math::
        \tau(e) = \tau_{\min} + \frac12 (\tau_{\max} - \tau_{\min})
        \left(1 + \cos \frac{\pi e}{T}\right)

    Source: *Temperature Schedules for Self-Supervised Contrastive Methods on
    Long-Tail Data* (ICLR 2023), in the parametrisation of its released code,
    where T is the way from one extreme to the other, half an oscillation.

    Args:
        epoch (float): :math:`e \ge 0`; may be fractional.
        tau_min (float): Positive, reached after T epochs. Defaults to 0.1.
        tau_max (float): Positive, of the first epoch. Defaults to 1.0.
        period (float): :math:`T > 0` in epochs. Defaults to 200.

    Returns:
        float: The temperature.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_positive(tau_min=tau_min, tau_max=tau_max, period=period)
    if not 0 <= epoch < math.inf:
        raise ValueError(
            f'epoch must be finite and not negative, got {epoch}.'
        )
    swing = (1 + math.cos(math.pi * epoch / period)) / 2
    return tau_min + (tau_max - tau_min) * swing


def _check_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise ValueError(
                f'{name} must be positive and finite, got {value}.'
            )
