# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Remembered centroids that complete those of a batch."""

import torch
from torch import Tensor, nn

from .precision import unit_vectors
from .trace import MIN_NORM, bin_sums, centroids_from_sums


class Surrogate(nn.Module):
    r"""Unit centroids of all label bins, renewed after each epoch.

    A batch has samples of few bins. The others are filled in from here,
    without gradient, so that losses see a whole trace in each iteration
    (Eq. 9). During epoch e the features are summed up; at its end

    .. math::
        S^{e+1} = \frac{\alpha S^e + (1-\alpha)\hat S^e}
        {\|\alpha S^e + (1-\alpha)\hat S^e\|}

    for bins that had samples, with the unit centroids :math:`\hat S^e` of
    the features of that epoch. Bins that had some for the first time take
    :math:`\hat S^e` as it is, which covers the first epoch; the others stay
    as they are. A bin that never had a sample is not available.

    All state is in persistent buffers: ``centroids`` ``(K, n)`` and ``seen``
    ``(K,)``, and the sums of the running epoch, ``acc`` ``(K, n)`` and
    ``cnt`` ``(K,)``. With several processes, add up the sums of
    :meth:`sums` over all of them and give them to :meth:`replace_sums`
    before :meth:`update`.

    Source: SRL (CVPR 2025), Section 3.4. The momentum is not printed there;
    the released code keeps 0.9 of the old.

    Args:
        num_bins (int): K.
        dim (int): Width n of the features.

    Raises:
        ValueError: When a number is not positive.
    """

    centroids: Tensor
    seen: Tensor
    acc: Tensor
    cnt: Tensor

    def __init__(self, num_bins: int, dim: int) -> None:
        super().__init__()
        if num_bins < 1 or dim < 1:
            raise ValueError(
                f'num_bins and dim must be positive, got {num_bins} and {dim}.'
            )
        self.register_buffer('centroids', torch.zeros(num_bins, dim))
        self.register_buffer('seen', torch.zeros(num_bins, dtype=torch.bool))
        self.register_buffer('acc', torch.zeros(num_bins, dim))
        # Not whole numbers: model averaging leaves those out.
        self.register_buffer('cnt', torch.zeros(num_bins))

    @torch.no_grad()
    def accumulate(self, features: Tensor, bins: Tensor) -> None:
        """Add the features of a batch to the sums of the epoch.

        Features that are not finite are left out, since one of them would
        stay in the centroid of its bin for good.

        Args:
            features (Tensor): Unit features, shape ``(B, n)``.
            bins (Tensor): In ``[0, K)``, int64, shape ``(B,)``.

        Raises:
            ValueError: When shapes do not fit.
        """
        if features.ndim != 2 or features.shape[1] != self.acc.shape[1]:
            raise ValueError(
                f'features must have shape (B, {self.acc.shape[1]}), got '
                f'{tuple(features.shape)}.'
            )
        features = features.detach().to(self.acc.dtype)
        finite = features.isfinite().all(1)
        features = torch.where(finite[:, None], features, 0)
        sums, _ = bin_sums(features, bins, len(self.acc))
        self.acc += sums
        self.cnt.index_add_(0, bins, finite.to(self.cnt.dtype))

    def refill(
        self, centroids: Tensor, present: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Complete the centroids of a batch (Eq. 9).

        Args:
            centroids (Tensor): Of the batch, shape ``(K, n)``.
            present (Tensor): Which bins it has, bool, shape ``(K,)``; see
                :func:`~mmgeom.geometry.trace.batch_centroids`.

        Returns:
            tuple[Tensor, Tensor]: Centroids ``(K, n)``, with gradient to
            those of the batch only, and the bool mask ``(K,)`` of the bins
            that are present or were seen in an epoch before. The rows of
            others are zeros.
        """
        own = self.centroids.to(centroids.dtype)
        rows = torch.where(present[:, None], centroids, own)
        return rows, present | self.seen

    def sums(self) -> Tensor:
        """The sums of the epoch so far, as one tensor.

        Returns:
            Tensor: A copy, shape ``(K, n + 1)``: sums of features, numbers
            of samples.
        """
        return torch.cat([self.acc, self.cnt[:, None]], 1)

    @torch.no_grad()
    def replace_sums(self, sums: Tensor) -> None:
        """Take over sums, of all processes or none.

        Args:
            sums (Tensor): As of :meth:`sums`, shape ``(K, n + 1)``; zeros
                forget the epoch so far.

        Raises:
            ValueError: When the shape is another.
        """
        number, dim = self.acc.shape
        if sums.shape != (number, dim + 1):
            raise ValueError(
                f'sums must have shape ({number}, {dim + 1}), got '
                f'{tuple(sums.shape)}.'
            )
        self.acc.copy_(sums[:, :dim])
        self.cnt.copy_(sums[:, dim])

    @torch.no_grad()
    def update(self, momentum: float = 0.9) -> None:
        r"""Renew the centroids at the end of an epoch, and start new sums.

        Args:
            momentum (float): :math:`\alpha`, the weight of the old
                centroids, in ``[0, 1]``. Defaults to 0.9.

        Raises:
            ValueError: When the momentum is out of its range.
        """
        if not 0 <= momentum <= 1:
            raise ValueError(
                'momentum is the weight of the old centroids and must lie '
                f'in [0, 1], got {momentum}.'
            )
        new, present = centroids_from_sums(self.acc, self.cnt)
        mixed = unit_vectors(
            momentum * self.centroids + (1 - momentum) * new, eps=MIN_NORM
        )
        # Opposite directions may cancel, which leaves no direction at all.
        mixed = torch.where(mixed.any(1)[:, None], mixed, self.centroids)
        mixed = torch.where(self.seen[:, None], mixed, new)
        rows = torch.where(present[:, None], mixed, self.centroids)
        self.centroids.copy_(rows)
        self.seen |= present
        self.acc.zero_()
        self.cnt.zero_()

    def extra_repr(self) -> str:
        number, dim = self.acc.shape
        return f'num_bins={number}, dim={dim}'
