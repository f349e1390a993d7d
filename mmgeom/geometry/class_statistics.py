# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Where the features of each class lie on the sphere, and how widely."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .collectives import all_gather_rows, broadcast_, reduce_sum_
from .feature_bank import FeatureBank
from .precision import unit_vectors
from .segments import (
    check_level,
    histogram_quantile,
    segment_mean_std,
    segment_quantile,
)

#: Norm below which a mean has no direction.
MIN_NORM = 1e-6

#: Bins of the histogram of angles over [0, pi/2].
NUM_BINS = 256
BIN_WIDTH = math.pi / 2 / NUM_BINS

STORES = ('exact', 'stream')


class _Epoch(NamedTuple):
    """What one epoch says about each class.

    Attributes:
        mean (Tensor): Of the unit features, shape ``(K, h)``.
        present (Tensor): Which classes had samples, bool, shape ``(K,)``.
        angles (Tensor): Quantile, mean and standard deviation of the angles,
            shape ``(K, 3)``.
        measured (Tensor): Which classes have angles, bool, shape ``(K,)``.
    """

    mean: Tensor
    present: Tensor
    angles: Tensor
    measured: Tensor


def angle_between(first: Tensor, second: Tensor) -> Tensor:
    r"""Angles of pairs of unit vectors.

    .. math:: \angle(a, b) = 2 \arctan \frac{\|a - b\|}{\|a + b\|}

    which is exact to rounding everywhere, while the arc cosine of an inner
    product in float32 errs by up to :math:`5 \cdot 10^{-4}` near 0.

    Args:
        first (Tensor): Unit rows, shape ``(..., h)``.
        second (Tensor): Unit rows, shape ``(..., h)``.

    Returns:
        Tensor: In :math:`[0, \pi]`, shape ``(...)``.
    """
    apart = (first - second).norm(dim=-1)
    return 2 * torch.atan2(apart, (first + second).norm(dim=-1))


class ClassStatistics(nn.Module):
    r"""Mean and angular spread of each class, renewed after each epoch.

    Of the unit features :math:`z_i` of an epoch,

    .. math::
        \hat\mu_k &= \frac{1}{N_k} \sum_{y_i = k} z_i \\
        \theta_i &= \arccos(z_i \cdot \hat\mu_k / \|\hat\mu_k\|) \\
        \hat\theta_k &= Q_\alpha\{\theta_i : y_i = k\}

    with the empirical quantile :math:`Q_\alpha` by linear interpolation, and
    the mean and the population standard deviation of the angles. Call
    :meth:`accumulate` for each batch and :meth:`update` at the end of the
    epoch. Classes without samples in an epoch keep what they have.

    Statistics are in persistent buffers: ``mean`` ``(K, h)``, not
    normalised; ``angle``, ``angle_mean`` and ``angle_std`` ``(K,)`` in
    radians; ``valid`` ``(K,)``, False for a class that was never seen or
    whose mean is shorter than 1e-6; and ``num_updates``, the number of
    epochs that renewed anything.

    Two ways to hold the features of a running epoch:

    ``'exact'``
        A bank of all features in half precision, ``2 N h`` bytes over all
        processes, which moves a feature by at most 5e-4, and their sums by
        class, ``4 K h`` bytes. Angles are to the mean of the same epoch;
        the end of the epoch reads the bank once for them. Neither is state:
        a checkpoint written in the middle of an epoch lacks the samples
        before it.
    ``'stream'``
        Persistent buffers of fixed size: sums of features ``(K, h)``,
        histograms of 256 bins and moments of the angles. Angles are to the
        mean as it was before the epoch, so that a class is valid one epoch
        after it was first seen. The quantile is exact to one bin, 0.35
        degrees, and counts angles above 90 degrees as 90. A checkpoint in
        the middle of an epoch holds the sums of its own process.

    Over several processes both give the statistics of one process that has
    seen all samples, identical on every rank; :meth:`update` must be called
    on all of them. The exact store sends angles, not features.

    Source: FeatRecon (ICLR 2025), Eq. 7. Interpolation of the quantile and
    momentum are choices where the paper says nothing.

    Args:
        num_classes (int): K.
        dim (int): Width h of the features.
        alpha (float): Level of the quantile in ``(0, 1]``. Defaults to 0.99.
        store (str): ``'exact'`` or ``'stream'``. Defaults to ``'exact'``.
        momentum (float): Weight of the old statistics in ``[0, 1]``; the
            angles that are averaged are each to the mean of their own epoch.
            A class without old ones takes the new ones as they are. Defaults
            to 0.0, which replaces.

    Raises:
        ValueError: When an argument is out of its range.
    """

    mean: Tensor
    angle: Tensor
    angle_mean: Tensor
    angle_std: Tensor
    valid: Tensor
    num_updates: Tensor
    sums: Tensor
    counts: Tensor
    histogram: Tensor
    angle_sum: Tensor
    angle_square_sum: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        alpha: float = 0.99,
        store: str = 'exact',
        momentum: float = 0.0,
    ) -> None:
        super().__init__()
        if num_classes < 1 or dim < 1:
            raise ValueError(
                'num_classes and dim must be positive, got '
                f'{num_classes} and {dim}.'
            )
        check_level(alpha)
        if store not in STORES:
            raise ValueError(
                f"store must be 'exact' or 'stream', got {store!r}."
            )
        if not 0 <= momentum <= 1:
            raise ValueError(
                'momentum is the weight of the old statistics and must lie '
                f'in [0, 1], got {momentum}.'
            )
        self.alpha = alpha
        self.store = store
        self.momentum = momentum
        self.register_buffer('mean', torch.zeros(num_classes, dim))
        for name in ('angle', 'angle_mean', 'angle_std'):
            self.register_buffer(name, torch.zeros(num_classes))
        valid = torch.zeros(num_classes, dtype=torch.bool)
        self.register_buffer('valid', valid)
        # No whole number: model averaging leaves those out.
        self.register_buffer('num_updates', torch.zeros(()))
        self._bank = FeatureBank()
        if store == 'stream':
            self.register_buffer('sums', torch.zeros(num_classes, dim))
            self.register_buffer(
                'histogram', torch.zeros(num_classes, NUM_BINS)
            )
            for name in ('counts', 'angle_sum', 'angle_square_sum'):
                self.register_buffer(name, torch.zeros(num_classes))

    @torch.no_grad()
    def accumulate(self, features: Tensor, labels: Tensor) -> None:
        """Add the features of a batch to the running epoch.

        They are normalised in float32. Features that are not finite or are
        zero have no direction and are left out. Does not wait for the device.

        Args:
            features (Tensor): Shape ``(B, h)``; may be empty.
            labels (Tensor): Classes in ``[0, K)``, int64, shape ``(B,)``.
                Values are checked only when they are in main memory.

        Raises:
            ValueError: When shapes do not fit or a label is out of range.
        """
        self._check(features, labels)
        if len(features) == 0:
            return
        labels = labels.to(self.mean.device)
        if self.store == 'exact':
            self._bank.add(features.detach(), labels, self.mean)
            return
        rows = unit_vectors(features.detach()).to(self.mean)
        # 1, but 0 for zeros and not a number for what is not finite.
        keep = rows.norm(dim=1) > 0.5
        # Taking rows out would need their number, and so the device.
        self._add_to_sums(rows, labels.masked_fill(~keep, 0), keep)

    @torch.no_grad()
    def update(self) -> None:
        """Renew the statistics at the end of an epoch, and start a new one.

        With several processes, to be called on all of them.
        """
        exact = self.store == 'exact'
        self._renew(self._exact_epoch() if exact else self._stream_epoch())
        self.clear()

    def clear(self) -> None:
        """Forget the running epoch."""
        self._bank.clear()
        if self.store == 'stream':
            for buffer in self._running():
                buffer.zero_()

    def reset(self) -> None:
        """Forget everything."""
        self.clear()
        for buffer in self.buffers():
            buffer.zero_()

    def extra_repr(self) -> str:
        number, dim = self.mean.shape
        return (
            f'num_classes={number}, dim={dim}, alpha={self.alpha}, '
            f'store={self.store!r}, momentum={self.momentum}'
        )

    def _running(self) -> tuple[Tensor, ...]:
        return (
            self.sums,
            self.counts,
            self.histogram,
            self.angle_sum,
            self.angle_square_sum,
        )

    def _add_to_sums(self, rows: Tensor, labels: Tensor, keep: Tensor) -> None:
        rows = torch.where(keep[:, None], rows, 0)
        self.sums.index_add_(0, labels, rows)
        self.counts.index_add_(0, labels, keep.to(rows.dtype))
        mean = self.mean[labels]
        known = keep & (mean.norm(dim=1) >= MIN_NORM)
        weight = known.to(rows.dtype)
        angle = weight * angle_between(rows, unit_vectors(mean))
        index = (angle / BIN_WIDTH).long().clamp_(max=NUM_BINS - 1)
        index += labels * NUM_BINS
        self.histogram.view(-1).index_add_(0, index, weight)
        self.angle_sum.index_add_(0, labels, angle)
        self.angle_square_sum.index_add_(0, labels, angle.square())

    def _exact_epoch(self) -> _Epoch:
        number = len(self.mean)
        sums, counts = self._bank.totals(self.mean)
        reduce_sum_(sums, counts)
        mean = sums.div_(counts.clamp(min=1)[:, None])
        table = self._bank.angles(mean.float(), counts)
        angles, labels = all_gather_rows(table).unbind(1)
        labels = labels.long()
        quantile = segment_quantile(angles, labels, number, self.alpha)
        moments = segment_mean_std(angles, labels, number)
        statistics = torch.stack([quantile, *moments], 1)
        # Sums on a GPU may round differently on each of them.
        broadcast_(statistics)
        present = counts > 0
        return _Epoch(mean.float(), present, statistics, present)

    def _stream_epoch(self) -> _Epoch:
        reduce_sum_(*self._running())
        mean = self.sums / self.counts.clamp(min=1)[:, None]
        number = self.histogram.double().sum(1)
        share = 1 / number.clamp(min=1)
        average = self.angle_sum * share
        variance = self.angle_square_sum * share - average.square()
        deviation = variance.clamp(min=0).sqrt()
        quantile = histogram_quantile(self.histogram, BIN_WIDTH, self.alpha)
        # No value is farther from the mean of n (Samuelson's inequality);
        # that of a single one is exact.
        reach = deviation * (number - 1).clamp(min=0).sqrt()
        quantile = quantile.clamp(average - reach, average + reach)
        statistics = torch.stack([quantile, average, deviation], 1)
        return _Epoch(mean, self.counts > 0, statistics, number > 0)

    def _renew(self, new: _Epoch) -> None:
        directed = new.mean.norm(dim=1) >= MIN_NORM
        valid = new.measured & directed
        mean = new.mean
        if self.momentum:
            known = self.mean.norm(dim=1) >= MIN_NORM
            weight = self.momentum * (known & directed)[:, None]
            mean = torch.lerp(mean, self.mean.float(), weight)
            valid = valid & (mean.norm(dim=1) >= MIN_NORM)
        weight = self.momentum * (self.valid & valid)[:, None]
        names = ('angle', 'angle_mean', 'angle_std')
        old = torch.stack([getattr(self, name) for name in names], 1)
        angles = torch.lerp(new.angles.float(), old.float(), weight)
        angles = angles * valid[:, None]
        present = new.present
        # Without another tensor of this size.
        mean = mean.to(self.mean.dtype)
        torch.where(present[:, None], mean, self.mean, out=self.mean)
        for name, column in zip(names, angles.unbind(1), strict=True):
            buffer = getattr(self, name)
            buffer.copy_(torch.where(present, column, buffer))
        self.valid.copy_(torch.where(present, valid, self.valid))
        self.num_updates += present.any()

    def _check(self, features: Tensor, labels: Tensor) -> None:
        number, dim = self.mean.shape
        if features.ndim != 2 or features.shape[1] != dim:
            raise ValueError(
                f'features must have shape (B, {dim}), got '
                f'{tuple(features.shape)}.'
            )
        if labels.shape != features.shape[:1] or labels.is_floating_point():
            raise ValueError(
                f'labels must be {len(features)} integer classes, one for '
                f'each feature, got {labels.dtype} of shape '
                f'{tuple(labels.shape)}; soft and mixed labels have no class.'
            )
        if labels.device.type != 'cpu' or len(labels) == 0:
            return
        low, high = labels.aminmax()
        if low < 0 or high >= number:
            raise ValueError(
                f'labels must lie in [0, {number}), got {low.item()} to '
                f'{high.item()}.'
            )
