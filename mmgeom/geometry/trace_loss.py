# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The losses on the trace of a label, with all state they need."""

import torch
from torch import Tensor, nn

from ..distribution import LabelDistribution
from .collectives import all_reduce_sum, reduce_sum_, world_size
from .precision import at_least_float32
from .sphere_points import SpherePoints
from .surrogate import Surrogate
from .trace import (
    bin_sums,
    centroid_contrast,
    centroids_from_sums,
    enveloping_loss,
    homogeneity_loss,
)


class TraceLoss(nn.Module):
    r"""Enveloping, homogeneity and contrast of a regression representation.

    .. math::
        \lambda_e L_{env} + \lambda_h L_{homo} + \lambda_{con} L_{con}

    of the surrogate: the unit centroids of the label bins in the batch, with
    gradient, and for all other bins those remembered from the epochs before
    (:class:`~mmgeom.geometry.surrogate.Surrogate`). Bins that have neither,
    or no training sample at all, are left out. See
    :func:`~mmgeom.geometry.trace.enveloping_loss`,
    :func:`~mmgeom.geometry.trace.homogeneity_loss` and
    :func:`~mmgeom.geometry.trace.centroid_contrast`.

    The centroids are those of the batches of all ranks together, so that the
    mean of the ranks' losses, with its gradient, is that of one process on
    the concatenated batch, whatever the ranks' batch sizes.

    Buffers: ``edges`` ``(K + 1,)``, ``values`` ``(K,)`` (what stands for each
    bin, in label units) and ``counts`` ``(K,)`` of the training labels,
    float32; those of ``surrogate`` and ``points``. They are the same on all
    ranks at any time, so that a checkpoint may be written at any time.

    Source: SRL (CVPR 2025), Eq. 7 to 11.

    Args:
        num_bins (int): K, at least 2.
        dim (int): Width n of the features.
        lambda_e (float): Weight of the enveloping loss, not negative.
        lambda_h (float): Weight of the homogeneity loss, not negative.
        lambda_con (float): Weight of the contrast, not negative.
        temperature (float): T of the contrast. Defaults to 0.3.
        num_points (int): N, of the enveloping loss. Defaults to 2000.
        points_seed (int): Seed of the points. Defaults to 0.
        resample (str): ``'never'``, ``'epoch'`` or ``'iter'``. Defaults to
            ``'never'``.
        points (str): ``'fixed'`` or ``'span'``, the kind of
            :class:`~mmgeom.geometry.sphere_points.SpherePoints`. Defaults
            to ``'fixed'``.
        homo_mode (str): ``'paper'`` or ``'cos'``, the mode of the
            homogeneity loss. Defaults to ``'paper'``.
        homo_var (float): Its ``variance_weight``. Defaults to 0.0.
        homo_normalize (bool): Its ``normalize``. Defaults to False.

    Raises:
        ValueError: When an argument is out of its range, or options exclude
            each other.
    """

    #: Buffers that a label distribution fills, so that a checkpoint need not
    #: have them.
    distribution_buffers = ('edges', 'values', 'counts')

    def __init__(
        self,
        num_bins: int,
        dim: int,
        lambda_e: float,
        lambda_h: float,
        lambda_con: float,
        temperature: float = 0.3,
        num_points: int = 2000,
        points_seed: int = 0,
        resample: str = 'never',
        points: str = 'fixed',
        homo_mode: str = 'paper',
        homo_var: float = 0.0,
        homo_normalize: bool = False,
    ) -> None:
        super().__init__()
        if num_bins < 2:
            raise ValueError(
                f'a trace needs num_bins of at least 2, got {num_bins}.'
            )
        if not temperature > 0:
            raise ValueError(
                f'temperature must be positive, got {temperature}.'
            )
        for name, value in (
            ('lambda_e', lambda_e),
            ('lambda_h', lambda_h),
            ('lambda_con', lambda_con),
            ('homo_var', homo_var),
        ):
            if not 0 <= value < float('inf'):
                raise ValueError(
                    f'{name} must not be negative or infinite, got {value}.'
                )
        self.num_bins = num_bins
        self.lambda_e = lambda_e
        self.lambda_h = lambda_h
        self.lambda_con = lambda_con
        self.temperature = temperature
        self.homogeneity = dict(
            mode=homo_mode, variance_weight=homo_var, normalize=homo_normalize
        )
        # Any trace will do to have the options checked.
        homogeneity_loss(torch.eye(2), torch.arange(2.0), **self.homogeneity)
        self.surrogate = Surrogate(num_bins, dim)
        self.points = SpherePoints(
            num_points, dim, points_seed, resample, points
        )
        unknown = float('nan')
        self.register_buffer('edges', torch.full((num_bins + 1,), unknown))
        self.register_buffer('values', torch.full((num_bins,), unknown))
        self.register_buffer('counts', torch.zeros(num_bins))
        self._has_bins = False

    @property
    def is_active(self) -> bool:
        """Whether any of the three losses has a weight."""
        return any((self.lambda_e, self.lambda_h, self.lambda_con))

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the label bins of the training data.

        Args:
            distribution (LabelDistribution): Over K bins.

        Raises:
            ValueError: When it has classes instead of bins, another number
                of bins, or bins that float32 cannot tell apart.
        """
        bins = distribution.bins
        if bins is None:
            raise ValueError(
                'a trace needs the bins of a regression label, got '
                f'{distribution!r}: give LabelDistributionHook the bins, '
                'e.g. bins=dict(width=1.0).'
            )
        if len(bins) < 2:
            raise ValueError(
                'a trace needs at least two bins of the label, but all '
                f'training labels are in one ({bins!r}): make the bins of '
                'LabelDistributionHook narrower.'
            )
        if len(bins) != self.num_bins:
            raise ValueError(
                f'the head has num_bins={self.num_bins} but the training '
                f'labels have {len(bins)} bins ({bins!r}): set '
                f'num_bins={len(bins)}, or change the bins of '
                'LabelDistributionHook if that is too fine or too coarse.'
            )
        edges, values = bins.edges.float(), bins.centers.float()
        if not (edges.diff() > 0).all() or not (values.diff() > 0).all():
            raise ValueError(
                f'{bins!r} are too narrow to be told apart in float32, as '
                'targets are: subtract an offset from the labels, or make '
                'the bins wider.'
            )
        self.edges.copy_(edges)
        self.values.copy_(values)
        self.counts.copy_(distribution.counts)
        self._has_bins = True

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        """Look at what a checkpoint brings."""
        super()._load_from_state_dict(*args, **kwargs)
        self._has_bins = bool(self.edges.isfinite().all())

    def bin_index(self, target: Tensor) -> Tensor:
        """Bin of each target, by the rule of ``LabelBins.index``.

        Targets outside the edges go to the first or the last bin. Edges are
        rounded to float32 as the targets are, so that a label on an edge is
        on the same side of it here and where the training labels were
        counted.

        Args:
            target (Tensor): In label units, shape ``(B,)``.

        Returns:
            Tensor: int64, shape ``(B,)``.

        Raises:
            RuntimeError: When neither a label distribution nor a checkpoint
                told the bins.
        """
        if not self._has_bins:
            # Not read from the device in each step.
            self._has_bins = bool(self.edges.isfinite().all())
        if not self._has_bins:
            raise RuntimeError(
                'the label bins are not known: add '
                "dict(type='mmgeom.LabelDistributionHook', "
                'bins=dict(width=...)) to the hooks, or call '
                'set_label_distribution.'
            )
        edges = self.edges[1:-1]
        return torch.bucketize(target.to(edges.dtype), edges, right=True)

    def forward(self, features: Tensor, bins: Tensor) -> dict[str, Tensor]:
        """The losses that have a weight.

        Args:
            features (Tensor): Unit features z of this rank, shape ``(B, n)``.
            bins (Tensor): Of :meth:`bin_index`, shape ``(B,)``.

        Returns:
            dict[str, Tensor]: Weighted scalars ``loss_enveloping``,
            ``loss_homogeneity`` and ``loss_contrast``, and without gradient
            ``available_bins``, the number of bins of the trace.
        """
        with torch.autocast(features.device.type, enabled=False):
            return self._losses(at_least_float32(features), bins)

    def _losses(self, features: Tensor, bins: Tensor) -> dict[str, Tensor]:
        sums, numbers = self._sums_of_all_ranks(features, bins)
        has_data = self.counts > 0
        own, present = centroids_from_sums(sums, numbers)
        trace, available = self.surrogate.refill(own, present)
        available = available & has_data
        losses = {}
        if self.lambda_e:
            points, vectors = self.points(trace)
            losses['loss_enveloping'] = self.lambda_e * enveloping_loss(
                vectors, points, available
            )
        if self.lambda_h:
            losses['loss_homogeneity'] = self.lambda_h * homogeneity_loss(
                trace, self.values, available, **self.homogeneity
            )
        if self.lambda_con:
            contrast = centroid_contrast(
                features, bins, trace, available, self.temperature, 'sum'
            )
            # The mean over ranks of this is the mean over their samples.
            number = (numbers * available).sum().clamp(min=1)
            losses['loss_contrast'] = (
                self.lambda_con * world_size() * contrast / number
            )
        losses['available_bins'] = available.sum().to(trace.dtype)
        return losses

    def _sums_of_all_ranks(
        self, features: Tensor, bins: Tensor
    ) -> tuple[Tensor, Tensor]:
        sums, numbers = bin_sums(features, bins, self.num_bins)
        if world_size() == 1:
            return sums, numbers
        total = all_reduce_sum(torch.cat([sums, numbers[:, None]], 1))
        return total[:, :-1], total[:, -1].detach()

    def accumulate(self, features: Tensor, bins: Tensor) -> None:
        """Add the batches of all ranks to the sums of the epoch.

        Args:
            features (Tensor): Unit features of this rank, shape ``(B, n)``;
                no gradient.
            bins (Tensor): Of :meth:`bin_index`, shape ``(B,)``.
        """
        if world_size() == 1:
            self.surrogate.accumulate(features, bins)
            return
        before = self.surrogate.sums()
        self.forget_sums()
        self.surrogate.accumulate(features, bins)
        batch = self.surrogate.sums()
        reduce_sum_(batch)
        self.surrogate.replace_sums(before + batch)

    def forget_sums(self) -> None:
        """Forget the epoch so far."""
        self.surrogate.replace_sums(torch.zeros_like(self.surrogate.sums()))

    def start_epoch(self, epoch: int) -> None:
        """Draw new points if it is time for that.

        Args:
            epoch (int): Number of the epoch that starts, from 0.
        """
        self.points.start_epoch(epoch)

    def end_epoch(self, momentum: float = 0.9) -> None:
        """Renew the surrogate from the sums of the epoch.

        Args:
            momentum (float): Weight of the old centroids. Defaults to 0.9.
        """
        self.surrogate.update(momentum)

    @torch.no_grad()
    def reset(self) -> None:
        """Forget the surrogate and start the draws of points anew."""
        for buffer in self.surrogate.buffers():
            buffer.zero_()
        self.points.reset()
