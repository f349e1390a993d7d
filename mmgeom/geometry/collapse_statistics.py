# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Neural collapse of features that come in batches."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .class_means import (
    ClassMeans,
    check_finite,
    checked_directions,
    checked_features,
    means_differ,
    separating_axes,
)
from .collapse import nc2, nc3
from .collapse_centers import (
    cosine_statistics,
    distance_from_sums,
    unit_rows,
)


class CollapseStatistics:
    r"""Sums over batches from which the metrics of neural collapse follow.

    All state is additive, in float64: any split into batches, any order, and
    any distribution over processes give the same result up to rounding. To
    combine processes, add up the tensors of :meth:`state` in place, or
    :meth:`merge` them.

    NC1 needs second moments, a matrix of shape ``(d, d)`` and
    :math:`O(Bd^2)` work for a batch. They are kept up to the width
    ``max_scatter_dim``; above it NC1 is left out, unless a second pass over
    the features gives it (:func:`~mmgeom.geometry.collapse.second_pass`).
    Sums of squares lose about 1e-16 of the mean squared norm of the features
    to rounding, the second pass does not. NC4 always needs a second pass.

    Args:
        num_classes (int): K.
        dim (int): Width d of the features.
        mean_centers (Tensor, optional): Centres that the normalised features
            of each class should reach, shape ``(K, d)``, fixed while
            features come in. Defaults to None: no distances from them.
        max_scatter_dim (int): Largest width for which second moments are
            kept, 0 for never. Defaults to 4096, 128 MiB.
        device (torch.device | str): Of the sums. Defaults to ``'cpu'``.

    Raises:
        ValueError: When sizes are not positive or shapes do not fit.
    """

    def __init__(
        self,
        num_classes: int,
        dim: int,
        mean_centers: Tensor | None = None,
        max_scatter_dim: int = 4096,
        device: torch.device | str = 'cpu',
    ) -> None:
        if num_classes < 1 or dim < 1:
            raise ValueError(
                'num_classes and dim must be positive, got '
                f'{num_classes} and {dim}.'
            )
        self.num_classes = num_classes
        self.dim = dim
        zeros = torch.zeros(1, dtype=torch.float64, device=device)
        self._state = {
            'count': zeros.new_zeros(num_classes),
            'feature_sum': zeros.new_zeros(num_classes, dim),
            'unit_sum': zeros.new_zeros(num_classes, dim),
        }
        if dim <= max_scatter_dim:
            self._state['square_sum'] = zeros.new_zeros(dim, dim)
        self._centers: Tensor | None = None
        if mean_centers is not None:
            like = self._state['feature_sum']
            centers = checked_directions(mean_centers, like)
            self._centers = unit_rows(centers).to(device)
            self._state['distance_sum'] = zeros.new_zeros(3)

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch; does not wait for the device of the features.

        Args:
            features (Tensor): Shape ``(B, d)``; may be empty.
            labels (Tensor): Classes in ``[0, K)``, int64, shape ``(B,)``.
                Values are checked only when they are in main memory.

        Raises:
            ValueError: When shapes do not fit or a label is out of range.
        """
        if len(features) == 0:
            return
        features = checked_features(features, labels)
        self._check(features, labels)
        count, feature_sum = self._state['count'], self._state['feature_sum']
        features = features.to(count.device)
        labels = labels.to(count.device)
        unit = unit_rows(features)
        count.index_add_(0, labels, torch.ones_like(features[:, 0]))
        feature_sum.index_add_(0, labels, features)
        self._state['unit_sum'].index_add_(0, labels, unit)
        if 'square_sum' in self._state:
            self._state['square_sum'].addmm_(features.T, features)
        if self._centers is not None:
            difference = unit - self._centers[labels]
            square = difference.square().sum(1)
            self._state['distance_sum'] += torch.stack(
                [square.sum(), square.square().sum(), difference.sum()]
            )

    def state(self) -> dict[str, Tensor]:
        """The sums.

        Returns:
            dict[str, Tensor]: The tensors themselves, no copies, always the
            same names in the same order for the same arguments.
        """
        return dict(self._state)

    def merge(self, state: Mapping[str, Tensor]) -> None:
        """Add the sums of other features.

        Args:
            state (Mapping[str, Tensor]): Of :meth:`state`.

        Raises:
            ValueError: When it is of statistics with other arguments.
        """
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        own = {name: tuple(v.shape) for name, v in self._state.items()}
        if shapes != own:
            raise ValueError(
                f'sums of shapes {shapes} do not fit those of shapes {own}: '
                'merge statistics of equal arguments.'
            )
        for name, value in state.items():
            self._state[name] += value.to(self._state[name])

    @property
    def samples(self) -> int:
        """Number of samples so far; waits for the device."""
        return int(self._state['count'].sum())

    @property
    def is_finite(self) -> bool:
        """Whether no feature was NaN or infinite; waits for the device."""
        return bool(torch.isfinite(self._state['feature_sum']).all())

    def class_means(self) -> ClassMeans:
        """Means of the classes that have samples.

        Returns:
            ClassMeans: In float64.

        Raises:
            ValueError: When there is no sample or a feature was not finite.
        """
        if self.samples == 0:
            raise ValueError('neural collapse needs samples, got none.')
        check_finite(self._state['feature_sum'])
        label = self._state['count'].nonzero().flatten()
        count = self._state['count'][label]
        mean = self._state['feature_sum'][label] / count[:, None]
        return ClassMeans(mean, label, count)

    def metrics(
        self,
        directions: Tensor | None = None,
        target: str | None = None,
        cosines: bool = False,
    ) -> dict[str, float]:
        """The metrics of all features so far.

        ``nc1``, ``nc2``, ``nc3``, ``center_distance_mean``, ``..._std``,
        ``center_element_mean``, ``..._std``, ``variability``, and the names
        of :func:`~mmgeom.geometry.collapse_centers.cosine_statistics`. What
        is not defined, or lacks its arguments, is left out: NC1 and NC2 of a
        single class, or of classes with the same mean.

        Args:
            directions (Tensor, optional): Class vectors, shape ``(K, d)``.
                Defaults to None: no NC3 and no variability.
            target (str, optional): ``'simplex'`` or ``'orthogonal'``, see
                :func:`~mmgeom.geometry.collapse.nc2`. Defaults to None:
                orthogonal with mean centres, else a simplex.
            cosines (bool): Add statistics of cosines. Defaults to False.

        Returns:
            dict[str, float]: Finite values.

        Raises:
            ValueError: When there is no sample, a feature was not finite,
                or shapes do not fit.
        """
        if target is None:
            target = 'simplex' if self._centers is None else 'orthogonal'
        means = self.class_means()
        result = {}
        if 'square_sum' in self._state and means_differ(means.mean):
            result['nc1'] = self._nc1(means)
        weight = None
        if directions is not None:
            directions = checked_directions(
                directions, self._state['feature_sum']
            ).to(means.mean)
            weight = directions[means.label]
        if means_differ(means.mean, target):
            result['nc2'] = nc2(means.mean, target)
            if weight is not None and weight.any():
                result['nc3'] = nc3(means.mean, weight, target)
            if cosines:
                result |= cosine_statistics(means.mean, weight, target)
        if self._centers is not None:
            result |= self._distances()
        if directions is not None:
            own = (self._state['unit_sum'] * unit_rows(directions)).sum()
            result['variability'] = 1 - (own / self.samples).item()
        return result

    def _nc1(self, means: ClassMeans) -> float:
        axes = separating_axes(means.mean)
        total = ((self._state['square_sum'] @ axes) * axes).sum()
        between = (means.mean @ axes).square().sum(1) @ means.count
        # A sum of squares; its difference may round below zero.
        return max((total - between).item() / self.samples, 0.0)

    def _distances(self) -> dict[str, float]:
        distance = distance_from_sums(
            self.samples, self.dim, self._state['distance_sum']
        )
        return {
            'center_distance_mean': distance.mean,
            'center_distance_std': distance.std,
            'center_element_mean': distance.element_mean,
            'center_element_std': distance.element_std,
        }

    def _check(self, features: Tensor, labels: Tensor) -> None:
        if features.shape[1] != self.dim:
            raise ValueError(
                f'features of width {features.shape[1]} do not fit '
                f'statistics of width {self.dim}.'
            )
        if labels.device.type != 'cpu':
            return
        if labels.min() < 0 or labels.max() >= self.num_classes:
            raise ValueError(
                f'labels must lie in [0, {self.num_classes}), got '
                f'{int(labels.min())} to {int(labels.max())}.'
            )
