# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Laws of the angle between a class mean and a synthetic feature."""

import functools
import math

import torch
from torch import Tensor

SAMPLERS = ('truncnorm', 'uniform_cap', 'uniform_angle')

#: Standard deviation up to which the truncated normal law is a point.
_MIN_STD = 1e-6

#: From here down the tail of the normal law is taken from its asymptote,
#: before its probability leaves the range of a float64.
_DEEP_TAIL = -30.0

#: Nodes of the table of the law of a uniform cap.
_NUM_NODES = 4096


def sample_angles(
    labels: Tensor,
    cap: Tensor,
    dim: int,
    generator: torch.Generator,
    angle_mean: Tensor | None = None,
    angle_std: Tensor | None = None,
    sampler: str = 'truncnorm',
) -> Tensor:
    r"""Draw an angle in :math:`[0, \bar\theta_k]` for each label k.

    ``'truncnorm'``
        The normal law of the class's own angles, truncated to the cap:
        with its distribution function F,
        :math:`\phi = F^{-1}(F(0) + u (F(\bar\theta) - F(0)))`. A deviation
        below 1e-6 gives the mean, clipped to the cap. A mean far beyond the
        cap is no problem: angles then gather below its rim.
    ``'uniform_cap'``
        Features uniform in the cap, a density of
        :math:`\sin^{h-2} \phi`. In high dimension nearly all lie at the
        rim.
    ``'uniform_angle'``
        Angles uniform in the interval.

    Everything is computed in float64, by inverse distribution functions: one
    uniform number for each angle, no rejection.

    Source: FeatRecon (ICLR 2025), Eq. 14, for the truncated normal law. The
    paper's text also speaks of uniform sampling, without saying of what.

    Args:
        labels (Tensor): Classes in ``[0, K)``, int64, shape ``(G,)``.
        cap (Tensor): :math:`\bar\theta` in :math:`[0, \pi/2]`, shape
            ``(K,)``.
        dim (int): h, at least 2.
        generator (torch.Generator): On the device of the labels.
        angle_mean (Tensor, optional): Shape ``(K,)``, not negative; for
            ``'truncnorm'``. Defaults to None.
        angle_std (Tensor, optional): Shape ``(K,)``, not negative; for
            ``'truncnorm'``. Defaults to None.
        sampler (str): One of the above. Defaults to ``'truncnorm'``.

    Returns:
        Tensor: Float64, shape ``(G,)``.

    Raises:
        ValueError: When an argument is unknown or missing.
    """
    if sampler not in SAMPLERS:
        raise ValueError(
            f'sampler must be one of {", ".join(map(repr, SAMPLERS))}, got '
            f'{sampler!r}.'
        )
    if dim < 2:
        raise ValueError(
            f'a sphere has angles to sample from dimension 2 on, got {dim}.'
        )
    uniform = torch.rand(
        labels.shape,
        generator=generator,
        device=labels.device,
        dtype=torch.float64,
    )
    cap = cap.double()
    if sampler == 'uniform_angle':
        return uniform * cap[labels]
    if sampler == 'uniform_cap':
        return _uniform_cap(uniform, labels, cap, dim)
    if angle_mean is None or angle_std is None:
        raise ValueError(
            "sampler 'truncnorm' needs angle_mean and angle_std, got None: "
            'give the moments of the angles of each class.'
        )
    mean, std = angle_mean.double(), angle_std.double()
    return _truncated_normal(uniform, labels, cap, mean, std)


def _truncated_normal(
    uniform: Tensor, labels: Tensor, cap: Tensor, mean: Tensor, std: Tensor
) -> Tensor:
    spread = std.clamp(min=_MIN_STD)
    low, high = -mean / spread, (cap - mean) / spread
    below, above = _normal_cdf(low), _normal_cdf(high)
    probability = torch.lerp(below[labels], above[labels], uniform)
    score = torch.special.ndtri(probability)
    # P(t < x | t < b) ~ exp((b^2 - x^2) / 2) for a very negative b.
    square = high.square()
    rest = torch.exp((square - low.square()).clamp(max=0) / 2)
    share = torch.lerp(rest[labels], torch.ones_like(uniform), uniform)
    deep = -(square[labels] - 2 * share.log()).sqrt()
    score = torch.where(high[labels] < _DEEP_TAIL, deep, score)
    angle = mean[labels] + spread[labels] * score
    angle = torch.where(std[labels] < _MIN_STD, mean[labels], angle)
    return torch.minimum(angle.clamp(min=0), cap[labels])


def _normal_cdf(x: Tensor) -> Tensor:
    # That of torch loses the lower tail to rounding.
    return torch.erfc(x * -math.sqrt(0.5)) / 2


def _uniform_cap(
    uniform: Tensor, labels: Tensor, cap: Tensor, dim: int
) -> Tensor:
    log_angle, log_mass = _cap_table(dim, cap.device)
    # The mass of the whole cap, then the angle of a share of it, by the same
    # interpolation: a share of one is the cap itself.
    mass = _interpolate(cap.log(), log_angle, log_mass, dim - 1)
    target = mass[labels] + uniform.log()
    angle = _interpolate(target, log_mass, log_angle, 1 / (dim - 1)).exp()
    return torch.minimum(angle, cap[labels])


@functools.lru_cache(maxsize=8)
def _cap_table(dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    r"""Logarithms of angles and of the areas of the caps they bound.

    Between two nodes the density :math:`\sin^{h-2} \phi` is taken for a
    power of the angle and integrated in closed form, which is exact near 0;
    logarithms do not underflow in high dimension.

    Args:
        dim (int): h.
        device (torch.device): Of the table.

    Returns:
        tuple[Tensor, Tensor]: Float64, ascending, of one length.
    """
    steps = torch.arange(1, _NUM_NODES + 1, dtype=torch.float64)
    angle = steps * (math.pi / 2 / _NUM_NODES)
    x = angle.log()
    density = (dim - 2) * angle.sin().log()
    width = x.diff()
    power = density.diff() / width + 1
    piece = density[1:] + x[1:] - power.log()
    piece += torch.log(-torch.expm1(-power * width))
    first = density[:1] + x[:1] - math.log(dim - 1)
    mass = torch.cat([first, piece]).logcumsumexp(0)
    return x.to(device), mass.to(device)


def _interpolate(x: Tensor, xs: Tensor, ys: Tensor, slope: float) -> Tensor:
    """Linear between nodes, and of a given slope below the first."""
    index = torch.searchsorted(xs, x).clamp(1, len(xs) - 1)
    left = index - 1
    inner = (ys[index] - ys[left]) / (xs[index] - xs[left])
    inner = torch.where(x < xs[0], slope, inner)
    return ys[left] + (x - xs[left]) * inner
