# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Points on the sphere for a whole training, fixed or drawn anew."""

import numpy as np
import torch
from torch import Tensor, nn

from .precision import at_least_float32
from .sphere import SpanSample, in_span, span_points, uniform_points
from .step_generator import StepGenerator

_KINDS = ('fixed', 'span')
_TIMES = ('never', 'epoch', 'iter')


class SpherePoints(nn.Module):
    r"""Uniform points that a trace is compared with, the same on all ranks.

    The points depend on the seed and, if they are drawn anew, on the epoch or
    on the number of draws before, and on nothing else: no global generator is
    touched, and a resumed run goes on with the points of the whole one. Those
    of ``resample='iter'`` and of ``kind='span'`` are drawn on the device of
    the centroids, whose generator gives other numbers on another kind of
    device.

    Whole points that stay for an epoch or longer are the buffer ``points`` of
    shape ``(N, n)``, float32. Numbers of ``kind='span'`` that stay are drawn
    once and kept. Drawing cannot be compiled: it breaks the graph of
    ``torch.compile`` in the steps that draw, with ``resample='iter'`` in each.

    Args:
        num_points (int): N, positive.
        dim (int): n, the sphere being that in n dimensions.
        seed (int): Of the points, not negative. Defaults to 0.
        resample (str): ``'never'``; ``'epoch'`` for new points in each
            epoch; or ``'iter'`` for new ones in each iteration. Defaults to
            ``'never'``.
        kind (str): ``'fixed'`` for whole points; ``'span'`` for their
            projections on the span of the centroids
            (:func:`~mmgeom.geometry.sphere.sample_span`), whose basis
            follows the centroids, so that only the random numbers are the
            same between two draws. Defaults to ``'fixed'``.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_points: int,
        dim: int,
        seed: int = 0,
        resample: str = 'never',
        kind: str = 'fixed',
    ) -> None:
        super().__init__()
        if resample not in _TIMES:
            raise ValueError(
                f"resample must be 'never', 'epoch' or 'iter', got "
                f'{resample!r}.'
            )
        if kind not in _KINDS:
            raise ValueError(
                f"points must be 'fixed' or 'span', got {kind!r}."
            )
        if seed < 0:
            raise ValueError(
                f'the seed of the points must not be negative, got {seed}.'
            )
        self.num_points = num_points
        self.dim = dim
        self.seed = seed
        self.resample = resample
        self.kind = kind
        self._epoch = 0
        self._drawn: Tensor | None = None
        # Drawn here in any case, which checks the numbers.
        first = uniform_points(num_points, dim, self._seed())
        if kind == 'fixed' and resample != 'iter':
            self.register_buffer('points', first)
        if resample == 'iter':
            self.generator = StepGenerator(seed)

    def start_epoch(self, epoch: int) -> None:
        """Draw new points if it is time for that.

        Args:
            epoch (int): Number of the epoch that starts, from 0.
        """
        self._epoch = epoch
        if self.resample != 'epoch':
            return
        self._drawn = None
        if self.kind == 'fixed':
            self.points.copy_(
                uniform_points(self.num_points, self.dim, self._seed())
            )

    def reset(self) -> None:
        """Start the draws anew."""
        self.start_epoch(0)
        if self.resample == 'iter':
            self.generator.reset()

    def forward(self, centroids: Tensor) -> SpanSample:
        """Points for an iteration, and the centroids in their coordinates.

        Args:
            centroids (Tensor): Shape ``(K, n)``.

        Returns:
            SpanSample: Points ``(N, m)`` and centroids ``(K, m)``; with
            ``kind='fixed'``, ``m = n`` and the centroids are as given.
        """
        if self.kind == 'fixed' and self.resample != 'iter':
            return SpanSample(self.points, centroids)
        if self.kind == 'fixed':
            return SpanSample(self._draw(centroids), centroids)
        if self.resample == 'iter':
            return in_span(centroids, self._draw(centroids))
        if not self._has_drawn_for(centroids):
            self._drawn = self._draw(centroids)
        return in_span(centroids, self._drawn)

    @torch.compiler.disable
    def _draw(self, centroids: Tensor) -> Tensor:
        """New points of the kind for centroids."""
        generator = self._generator(centroids.device)
        if self.kind == 'fixed':
            return uniform_points(self.num_points, self.dim, generator)
        dtype = at_least_float32(centroids).dtype
        shape = (self.num_points, *centroids.shape)
        return span_points(*shape, generator, dtype)

    def _has_drawn_for(self, centroids: Tensor) -> bool:
        """Whether the numbers that are kept fit centroids."""
        drawn = self._drawn
        return (
            drawn is not None
            and drawn.shape[1] == min(centroids.shape)
            and drawn.device == centroids.device
            and drawn.dtype == at_least_float32(centroids).dtype
        )

    def _generator(self, device: torch.device) -> torch.Generator:
        if self.resample == 'iter':
            return self.generator(device)
        return torch.Generator(device).manual_seed(self._seed())

    def _seed(self) -> int:
        """Seed of what is drawn for this epoch, or for all of them."""
        if self.resample == 'never':
            return self.seed
        # Unlike a sum, no two pairs of seed and epoch give the same.
        mixed = np.random.SeedSequence([self.seed, self._epoch])
        return int(mixed.generate_state(1, np.uint64)[0])

    def extra_repr(self) -> str:
        return (
            f'num_points={self.num_points}, dim={self.dim}, '
            f'seed={self.seed}, resample={self.resample!r}, '
            f'kind={self.kind!r}'
        )
