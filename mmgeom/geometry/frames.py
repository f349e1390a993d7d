# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Fixed multi-centre frames."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .allocation import checked_centers
from .orthonormal import orthonormal_rows
from .own_block import EPS, chosen_products, norm_and_coordinates
from .precision import full_precision
from .theory_collapse import cos_alpha
from .walsh_hadamard import RandomHadamard

LAYOUTS = ('random', 'axis', 'hadamard')
_LAYOUT_BUFFERS = dict(random='directions', hadamard='rotation.signs')


class OwnTerms(NamedTuple):
    r"""What a feature has to do with the centres of its own class.

    Attributes:
        direction (Tensor): :math:`\langle w_k, \hat h\rangle`, ``(B,)``.
        sum (Tensor): :math:`\sum_j \langle v_j^{(k)}, \hat h\rangle`.
        square_sum (Tensor): :math:`\sum_j \langle v_j^{(k)}, \hat h\rangle^2`.
        norm (Tensor): :math:`\|h\|`.
    """

    direction: Tensor
    sum: Tensor
    square_sum: Tensor
    norm: Tensor


class MultiCenterFrame(nn.Module):
    r"""Class directions and centres that are fixed and mutually orthogonal.

    With orthonormal :math:`w_1..w_K` and :math:`v_j^{(k)}`, class :math:`k`
    has the :math:`f_k` centres

    .. math:: w_j^{(k)} = v_j^{(k)} \cos\theta + w_k \sin\theta ,

    so that :math:`\langle w_j^{(k)}, w_k\rangle = \sin\theta`, two centres of
    a class have inner product :math:`\sin^2\theta`, and centres of different
    classes are orthogonal. Source: NCMC (NeurIPS 2024), Definition 3.2 with
    unit norms; the Gram condition (16) is printed there with its transpose on
    the wrong side.

    Three layouts of the :math:`F + K` orthonormal vectors, with
    :math:`F = \sum_k f_k`:

    - ``'random'``: a dense random matrix of shape ``(F + K, d)``;
    - ``'axis'``: coordinate axes, no matrix at all;
    - ``'hadamard'``: dense directions without a matrix, when d is a power of
      two, see :class:`~mmgeom.geometry.walsh_hadamard.RandomHadamard`.

    In all three the first K coordinates of the rotated feature belong to the
    class directions, then follow the centres class by class. State is in
    persistent buffers of fixed shape: the allocation of the F centres to the
    classes may be set later, once the class counts are known.

    Args:
        num_classes (int): K, at least 2.
        num_centers (int): F, at least K.
        dim (int): Width d of the feature, at least F + K; a power of two for
            ``'hadamard'``.
        theta (float): Angle in radians, in ``[0, pi/2]``. Small angles give
            nearly orthogonal centres, :math:`\pi/2` a single centre.
            Defaults to 0.2.
        layout (str): As above. Defaults to ``'random'``.
        seed (int): Of the directions. Defaults to 0.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_classes: int,
        num_centers: int,
        dim: int,
        theta: float = 0.2,
        layout: str = 'random',
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check(num_classes, num_centers, dim, theta, layout)
        self.num_classes = num_classes
        self.num_centers = num_centers
        self.dim = dim
        self.theta = theta
        self.layout = layout
        self.rank = num_classes + num_centers
        self.register_buffer(
            'centers', torch.zeros(num_classes, dtype=torch.int64)
        )
        if layout == 'random':
            directions = orthonormal_rows(self.rank, dim, seed)
            self.register_buffer('directions', directions)
        elif layout == 'hadamard':
            self.rotation = RandomHadamard(dim, seed)
        # Only compared when a checkpoint is loaded.
        self.register_buffer('angle', torch.tensor(theta, dtype=torch.float64))
        self._largest: int | None = None

    # Allocation
    def set_centers(self, centers: Sequence[int] | Tensor) -> None:
        """Set the number of centres of each class.

        Args:
            centers (Sequence[int] | Tensor): At least 1 each, sum F.

        Raises:
            ValueError: When they are not.
        """
        numbers = checked_centers(centers, self.num_classes)
        if int(numbers.sum()) != self.num_centers:
            raise ValueError(
                f'the frame has {self.num_centers} centres, but the numbers '
                f'of centres sum to {int(numbers.sum())}.'
            )
        self.centers.copy_(numbers)
        self._largest = int(numbers.max())

    @property
    def is_set(self) -> bool:
        """Whether the centres are allocated to classes."""
        return bool((self.centers > 0).all())

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, *args
    ) -> None:
        """Load, unless the state is that of another geometry."""
        held = [
            layout
            for layout, name in _LAYOUT_BUFFERS.items()
            if prefix + name in state_dict
        ]
        layout = held[0] if held else 'axis'
        if prefix + 'centers' in state_dict and layout != self.layout:
            raise ValueError(
                f'the checkpoint holds a frame of layout {layout!r}, the '
                f'config asks for {self.layout!r}: give the config it was '
                'trained with.'
            )
        angle = float(state_dict.get(prefix + 'angle', self.theta))
        if abs(angle - self.theta) > 1e-3:
            raise ValueError(
                f'the checkpoint holds a frame of theta={angle:g}, the config '
                f'asks for {self.theta:g}: give the config it was trained '
                'with.'
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._largest = int(self.centers.max()) if self.is_set else None

    def require_centers(self) -> int:
        """Make sure that the centres are allocated.

        Returns:
            int: The largest number of centres of a class, read from the
            device only once.

        Raises:
            RuntimeError: When they are not allocated yet.
        """
        if self._largest is None:
            if not self.is_set:
                raise RuntimeError(
                    'the centres are not allocated to classes yet: keep '
                    'mmgeom.LabelDistributionHook in the config, load a '
                    'checkpoint, or call set_centers().'
                )
            self._largest = int(self.centers.max())
        return self._largest

    # Quantities of the frame
    def cos_alpha(self) -> Tensor:
        r"""Cosine of the mean centre and any centre of a class.

        :math:`\sqrt{(\cos^2\theta + f_k \sin^2\theta)/f_k}`, which is the norm
        of the mean centre too.

        Returns:
            Tensor: Shape ``(K,)``, float64.
        """
        return cos_alpha(self.centers, self.theta)

    def cos_rho(self) -> Tensor:
        r"""Cosine of the mean centre and the class direction.

        :math:`f_k \sin\theta / \sqrt{f_k\cos^2\theta + f_k^2\sin^2\theta}`.

        Returns:
            Tensor: Shape ``(K,)``, float64.
        """
        return math.sin(self.theta) / self.cos_alpha()

    def loss_floor(self) -> Tensor:
        r"""Smallest value of the cosine loss of a sample of each class.

        :math:`f_k (1 - \cos\alpha_k)^2`, reached at the mean centre.

        Returns:
            Tensor: Shape ``(K,)``, float64.
        """
        return self.centers.double() * (1 - self.cos_alpha()) ** 2

    # Scores
    @full_precision
    def coordinates(self, feature: Tensor) -> Tensor:
        """Inner products with all F + K orthonormal vectors.

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, F + K)``, float32 or wider: class directions
            first, then the centres' vectors class by class.
        """
        return self._leading_products(feature, self.rank)

    @full_precision
    def class_scores(self, feature: Tensor) -> Tensor:
        r"""Cosines with the class directions, the rule RCR.

        .. math:: s_k = \langle w_k, h \rangle / \|h\|

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``, in ``[-1, 1]``; zeros for a zero
            feature.
        """
        norm = torch.linalg.vector_norm(feature, dim=1, keepdim=True)
        scores = self._leading_products(feature, self.num_classes)
        return scores / norm.clamp(min=EPS)

    @full_precision
    def nearest_center_scores(self, feature: Tensor) -> Tensor:
        r"""Cosines with the nearest centre of each class, the rule GCR.

        .. math:: s_k = \max_j \langle w_j^{(k)}, h \rangle / \|h\|

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``, in ``[-1, 1]``.
        """
        self.require_centers()
        z = self.coordinates(feature)
        direction, parts = z[:, : self.num_classes], z[:, self.num_classes :]
        index = self.class_of_center().expand(len(parts), -1)
        lowest = parts.new_full(direction.shape, float('-inf'))
        nearest = lowest.scatter_reduce(1, index, parts, 'amax')
        score = (
            math.cos(self.theta) * nearest + math.sin(self.theta) * direction
        )
        norm = torch.linalg.vector_norm(feature, dim=1, keepdim=True)
        return score / norm.clamp(min=EPS)

    @full_precision
    def own_terms(self, feature: Tensor, label: Tensor) -> OwnTerms:
        """Inner products with the centres of each sample's class.

        Gathers the coordinates of the class, so that for ``'axis'`` and
        ``'hadamard'`` no tensor of all centres appears. Classes are padded
        to the largest :math:`f_k`, which is far below F unless a single
        class holds nearly all samples.

        Args:
            feature (Tensor): Shape ``(B, d)``.
            label (Tensor): Classes, int64, shape ``(B,)``, or ``(B, m)``
                for m labels of each sample.

        Returns:
            OwnTerms: Sums over the centres, for the normalised feature, in
            the shape of ``label``; the norm has shape ``(B,)``.
        """
        largest = self.require_centers()
        index, mask = self._own_index(label, largest)
        flat = index.flatten(1)
        if self.layout == 'random':
            norm = torch.linalg.vector_norm(feature, dim=1)
            directions = self.directions.to(feature.dtype)
            first = torch.ones_like(label[..., None], dtype=torch.bool)
            used = torch.cat([first, mask], dim=-1).flatten(1)
            chosen = chosen_products(feature, directions, flat, used)
        elif self.layout == 'axis':
            norm, chosen = norm_and_coordinates(feature, flat)
        else:
            norm, chosen = norm_and_coordinates(
                self.rotation.mix(feature), self.rotation.order[flat]
            )
        unit = chosen / norm.clamp(min=EPS)[:, None]
        unit = unit.reshape(index.shape)
        parts = unit[..., 1:] * mask
        return OwnTerms(
            unit[..., 0], parts.sum(-1), parts.square().sum(-1), norm
        )

    # Dense forms, for analysis
    def dense_basis(
        self, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """The orthonormal vectors as matrices.

        Args:
            dtype (torch.dtype): Of the result, float32 or float64; the
                random layout has that of its buffer. Defaults to float32.

        Returns:
            tuple[Tensor, Tensor]: Class directions ``(K, d)`` and the
            centres' vectors ``(F, d)``, class by class.
        """
        if self.layout == 'random':
            basis = self.directions
        else:
            eye = torch.eye(self.dim, dtype=dtype, device=self.centers.device)
            basis = self.coordinates(eye).T
        return basis[: self.num_classes], basis[self.num_classes :]

    def dense_centers(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """All centres as a matrix.

        Args:
            dtype (torch.dtype): As of :meth:`dense_basis`. Defaults to
                float32.

        Returns:
            Tensor: Shape ``(F, d)``, unit rows, class by class.
        """
        self.require_centers()
        directions, parts = self.dense_basis(dtype)
        own = directions[self.class_of_center()]
        return math.cos(self.theta) * parts + math.sin(self.theta) * own

    def mean_centers(self, dtype: torch.dtype = torch.float32) -> Tensor:
        r"""Means of the centres of each class as a matrix.

        Args:
            dtype (torch.dtype): As of :meth:`dense_basis`. Defaults to
                float32.

        Returns:
            Tensor: Shape ``(K, d)``, norms :meth:`cos_alpha`.
        """
        centers = self.dense_centers(dtype)
        sums = centers.new_zeros(self.num_classes, self.dim)
        sums.index_add_(0, self.class_of_center(), centers)
        return sums / self.centers[:, None]

    def _leading_products(self, feature: Tensor, number: int) -> Tensor:
        """Inner products with the first orthonormal vectors."""
        if self.layout == 'random':
            directions = self.directions[:number]
            return feature @ directions.to(feature.dtype).T
        if self.layout == 'hadamard':
            order = self.rotation.order[:number]
            return self.rotation.mix(feature).index_select(1, order)
        return feature[:, :number]

    def class_of_center(self) -> Tensor:
        """Class of each centre.

        Returns:
            Tensor: int64, shape ``(F,)``, ascending.
        """
        label = torch.arange(self.num_classes, device=self.centers.device)
        return label.repeat_interleave(
            self.centers, output_size=self.num_centers
        )

    def _own_index(self, label: Tensor, largest: int) -> tuple[Tensor, Tensor]:
        """Coordinates of each sample's class, padded, and their mask."""
        start = self.num_classes + self.centers.cumsum(0) - self.centers
        step = torch.arange(largest, device=label.device)
        label = label[..., None]
        mask = step < self.centers[label]
        block = (start[label] + step).clamp(max=self.rank - 1)
        return torch.cat([label, block], dim=-1), mask


def _check(
    num_classes: int, num_centers: int, dim: int, theta: float, layout: str
) -> None:
    if num_classes < 2:
        raise ValueError(
            f'a frame needs at least 2 classes, got {num_classes}.'
        )
    if num_centers < num_classes:
        raise ValueError(
            f'{num_classes} classes need at least as many centres, got '
            f'{num_centers}.'
        )
    if dim < num_classes + num_centers:
        raise ValueError(
            f'{num_centers} centres and {num_classes} class directions are '
            f'orthogonal only in dimension {num_classes + num_centers} or '
            f'more, got {dim}: expand the feature or lower f.'
        )
    if not 0 <= theta <= math.pi / 2:
        raise ValueError(
            f'theta is an angle in radians in [0, pi/2], got {theta}.'
        )
    if layout not in LAYOUTS:
        raise ValueError(
            f'layout {layout!r} is unknown: use one of {list(LAYOUTS)}.'
        )
