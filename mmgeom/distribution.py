# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The training-label distribution: the only object that knows the counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .binning import LabelBins
from .grouping import group_classes
from .labels import (
    dataset_class_names,
    dataset_labels,
    dataset_num_classes,
    dataset_values,
    flat_labels,
)


class LabelDistribution:
    r"""How the labels of a training set are distributed.

    Holds one count per class, or per label bin for regression. Everything
    else (priors, imbalance factor, effective numbers, many/medium/few-shot
    groups, head and tail, smoothed densities) is derived on request and
    never stored elsewhere.

    Args:
        counts (Sequence[int] | Tensor): Samples of each class or bin, shape
            ``(K,)``, non-negative integers.
        bins (LabelBins, optional): The bins of a regression label. Defaults
            to None, which means classes.
        class_names (Sequence[str], optional): Names in label order. Defaults
            to None.

    Raises:
        ValueError: When a count is negative or not whole, there is no class
            at all, or the lengths of the arguments differ.

    Examples:
        >>> distribution = LabelDistribution([500, 50, 5])
        >>> distribution.imbalance_factor
        100.0
        >>> {k: v.tolist() for k, v in distribution.groups().items()}
        {'many': [0], 'medium': [1], 'few': [2]}
    """

    def __init__(
        self,
        counts: Sequence[int] | Tensor,
        bins: LabelBins | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.counts = _checked_counts(counts)
        self.bins = bins
        self.class_names = None if class_names is None else tuple(class_names)
        for name, value in (('bins', bins), ('class_names', class_names)):
            if value is not None and len(value) != len(self.counts):
                raise ValueError(
                    f'{len(self.counts)} counts do not fit {len(value)} '
                    f'{name}: give one count for each.'
                )

    # Construction ---------------------------------------------------------
    @classmethod
    def from_labels(
        cls,
        labels: Any,
        num_classes: int | None = None,
        class_names: Sequence[str] | None = None,
    ) -> 'LabelDistribution':
        """Count integer labels.

        Args:
            labels (Any): Integer labels, shape ``(N,)``; for multi-label
                data a list of label lists, all of which count.
            num_classes (int, optional): K. Defaults to None, which means the
                number of class names, else the largest label plus one.
            class_names (Sequence[str], optional): Names in label order.
                Defaults to None.

        Returns:
            LabelDistribution: Over ``num_classes`` classes.

        Raises:
            ValueError: When there is no label, or one outside ``[0, K)``.
            TypeError: When the labels are not integers.
        """
        if isinstance(labels, Tensor):
            labels = labels.cpu().numpy()
        flat = flat_labels(dataset_labels(labels))
        if flat.size == 0:
            raise ValueError(
                'the dataset holds no samples, so there is no label '
                'distribution: check its paths and filters.'
            )
        if num_classes is None:
            num_classes = (
                int(flat.max()) + 1
                if class_names is None
                else len(class_names)
            )
        _check_range(flat, num_classes)
        counts = np.bincount(flat, minlength=num_classes)
        return cls(torch.from_numpy(counts), class_names=class_names)

    @classmethod
    def from_values(
        cls, values: Any, bins: 'Mapping | LabelBins'
    ) -> 'LabelDistribution':
        """Count regression targets in bins.

        Args:
            values (Any): Float targets, shape ``(N,)``.
            bins (Mapping | LabelBins): The bins, or the arguments of
                :meth:`LabelBins.from_spec`, e.g. ``dict(width=1.0)``.

        Returns:
            LabelDistribution: Over the bins.

        Raises:
            ValueError: When there are no targets, they are not
                one-dimensional, one is not finite (the message names the
                row) or lies outside the bins.
        """
        values = _checked_values(values)
        if not isinstance(bins, LabelBins):
            bins = LabelBins.from_spec(values, **bins)
        index = bins.index(values, clamp=False)
        return cls(torch.bincount(index, minlength=len(bins)), bins=bins)

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        num_classes: int | None = None,
        bins: 'Mapping | LabelBins | None' = None,
    ) -> 'LabelDistribution':
        """Read a dataset, wrapped or not.

        Args:
            dataset (Any): The training dataset.
            num_classes (int, optional): K. Defaults to None, which means
                what the dataset declares, else the largest label plus one.
            bins (Mapping | LabelBins, optional): Bins of a regression
                label. Defaults to None, which means classes.

        Returns:
            LabelDistribution: Of the whole dataset.

        Raises:
            ValueError: As :meth:`from_labels` and :meth:`from_values`.
            TypeError: When the dataset offers no labels.
        """
        if bins is not None:
            return cls.from_values(dataset_values(dataset), bins)
        names = dataset_class_names(dataset)
        if num_classes is None:
            num_classes = dataset_num_classes(dataset)
        if names is not None and len(names) != num_classes:
            names = None
        return cls.from_labels(dataset_labels(dataset), num_classes, names)

    # Derived quantities ---------------------------------------------------
    def __len__(self) -> int:
        return len(self.counts)

    @property
    def num_classes(self) -> int:
        """Number K of classes or bins."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """Number N of labels counted."""
        return int(self.counts.sum())

    @property
    def prior(self) -> Tensor:
        r"""Shares :math:`\pi_k = n_k / N`, shape ``(K,)``, float64."""
        return self.counts.double() / max(self.num_samples, 1)

    @property
    def log_prior(self) -> Tensor:
        r"""Finite log priors :math:`\log(\max(n_k, 1) / N)`, float64.

        A class without a sample is treated as having one, so that nothing
        that is computed from the priors becomes infinite or NaN.
        """
        counts = self.counts.clamp(min=1).double()
        return (counts / max(self.num_samples, 1)).log()

    @property
    def imbalance_factor(self) -> float:
        r""":math:`\max_k n_k / \min_{k: n_k > 0} n_k`, at least 1."""
        present = self.counts[self.counts > 0]
        if len(present) == 0:
            return 1.0
        return float(present.max()) / float(present.min())

    @property
    def empty(self) -> Tensor:
        """Indices of classes without a single sample."""
        return torch.nonzero(self.counts == 0).flatten()

    def effective_numbers(self, beta: float = 0.9999) -> Tensor:
        r"""Effective numbers :math:`(1 - \beta^{n_k}) / (1 - \beta)`.

        From *Class-Balanced Loss Based on Effective Number of Samples*
        (CVPR 2019).

        Args:
            beta (float): In ``[0, 1)``. Defaults to 0.9999.

        Returns:
            Tensor: Shape ``(K,)``, float64; 0 for an empty class.

        Raises:
            ValueError: When ``beta`` is outside ``[0, 1)``.
        """
        if not 0 <= beta < 1:
            raise ValueError(f'beta must lie in [0, 1), got {beta}.')
        if beta == 0:
            return (self.counts > 0).double()
        power = self.counts.double() * np.log(beta)
        return -torch.expm1(power) / (1 - beta)

    def class_weights(self, beta: float = 0.9999) -> Tensor:
        r"""Weights :math:`\propto 1 / E_k` that sum to K.

        :math:`E_k` are the :meth:`effective_numbers`; ``beta`` close to 1
        gives inverse frequency, 0 equal weights. An empty class has weight
        0 and the others sum to the number of classes that have samples.

        Args:
            beta (float): In ``[0, 1)``. Defaults to 0.9999.

        Returns:
            Tensor: Shape ``(K,)``, float64.
        """
        effective = self.effective_numbers(beta)
        present = effective > 0
        weights = torch.where(present, 1 / effective.clamp(min=1e-12), 0)
        return weights / weights.sum().clamp(min=1e-12) * present.sum()

    def groups(self, by: str = 'count', **kwargs: Any) -> dict[str, Tensor]:
        """Many-, medium- and few-shot classes.

        Args:
            by (str): The rule, ``'count'``, ``'range'``, ``'thirds'`` or
                ``'given'``; see :func:`mmgeom.grouping.group_classes` for
                the rules and their arguments. Defaults to ``'count'``: more
                than 100, 20 to 100, and fewer than 20 samples.
            **kwargs: Arguments of the rule.

        Returns:
            dict[str, Tensor]: Class indices of each group, in ascending
            order; a group may be empty.
        """
        return group_classes(self.counts, by, **kwargs)

    def head_mask(self, rule: str | tuple[str, float] = 'mean') -> Tensor:
        r"""Which classes are head classes.

        Args:
            rule (str | tuple[str, float]): ``'mean'`` for
                :math:`n_k \ge N/K`, ``'many_shot'`` for :math:`n_k > 100`,
                or ``('top', p)`` for the most frequent share ``p`` in
                ``(0, 1]`` of the classes (rounded up). Defaults to
                ``'mean'``.

        Returns:
            Tensor: Bool, shape ``(K,)``; the tail is its negation.

        Raises:
            ValueError: When the rule is unknown.
        """
        if rule == 'mean':
            return self.counts * self.num_classes >= self.num_samples
        if rule == 'many_shot':
            return self.counts > 100
        if isinstance(rule, (tuple, list)) and len(rule) == 2:
            name, share = rule
            if name == 'top' and 0 < share <= 1:
                # 0.07 * 100 is a little more than 7 in floating point.
                top = int(np.ceil(round(share * self.num_classes, 9)))
                order = torch.argsort(
                    self.counts, descending=True, stable=True
                )
                mask = torch.zeros(self.num_classes, dtype=torch.bool)
                mask[order[:top]] = True
                return mask
        raise ValueError(
            f"head rule {rule!r} is unknown: use 'mean', 'many_shot' or "
            "('top', p) with p in (0, 1]."
        )

    def smoothed(
        self, kernel: str = 'gaussian', size: int = 5, sigma: float = 2.0
    ) -> Tensor:
        r"""Kernel-smoothed counts, the label density of LDS.

        :math:`\tilde n_k = \sum_j \kappa(j - k)\, n_j` with a kernel whose
        maximum is 1, zero outside the label range. From *Delving into Deep
        Imbalanced Regression* (ICML 2021).

        Args:
            kernel (str): ``'gaussian'``, ``'laplace'`` or ``'triangular'``.
                Defaults to ``'gaussian'``.
            size (int): Odd number of bins the kernel spans. Defaults to 5.
            sigma (float): Width in bins (standard deviation, or scale of
                the Laplace kernel); not used by ``'triangular'``. Defaults
                to 2.0.

        Returns:
            Tensor: Shape ``(K,)``, float64.

        Raises:
            ValueError: When an argument is out of its range.
        """
        taps = _kernel(kernel, size, sigma)
        counts = self.counts.double()[None, None]
        return torch.nn.functional.conv1d(
            counts, taps[None, None], padding=size // 2
        )[0, 0]

    # Plain Python and comparison -------------------------------------------
    def to_dict(self) -> dict:
        """Plain Python, for meta information and checkpoints.

        Returns:
            dict: Lists, numbers and strings only.
        """
        return dict(
            counts=self.counts.tolist(),
            bins=None if self.bins is None else self.bins.to_dict(),
            class_names=None
            if self.class_names is None
            else list(self.class_names),
        )

    @classmethod
    def from_dict(cls, state: Mapping) -> 'LabelDistribution':
        """Inverse of :meth:`to_dict`.

        Args:
            state (Mapping): What :meth:`to_dict` returned.

        Returns:
            LabelDistribution: Equal to the original.
        """
        bins = state.get('bins')
        return cls(
            state['counts'],
            bins=None if bins is None else LabelBins(**bins),
            class_names=state.get('class_names'),
        )

    def __eq__(self, other: object) -> bool:
        """Same counts and same bins; names do not matter."""
        if not isinstance(other, LabelDistribution):
            return NotImplemented
        return torch.equal(self.counts, other.counts) and (
            self.bins == other.bins
        )

    __hash__ = None

    def __repr__(self) -> str:
        kind = 'classes' if self.bins is None else 'bins'
        present = self.counts[self.counts > 0]
        span = (
            f'{int(present.max())}..{int(present.min())}'
            if len(present)
            else 'none'
        )
        return (
            f'{self.num_samples} samples in {self.num_classes} {kind} '
            f'(counts {span}, imbalance factor {self.imbalance_factor:.4g})'
        )


def _checked_counts(counts: Any) -> Tensor:
    array = np.asarray(counts)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            'counts must be a non-empty one-dimensional list, got shape '
            f'{array.shape}.'
        )
    whole = array.astype(np.int64)
    if (array < 0).any() or (whole != array).any():
        bad = array[(array < 0) | (whole != array)][0]
        raise ValueError(
            f'counts must be whole numbers of samples, got {bad}.'
        )
    return torch.from_numpy(whole.copy())


def _check_range(labels: np.ndarray, num_classes: int) -> None:
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f'label {int(labels[at])} at position {at} lies outside [0, '
            f'{num_classes}) ({int(outside.sum())} such labels): correct '
            'the labels or num_classes.'
        )


def _checked_values(values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(
            'a label distribution over bins needs one target a sample, got '
            f'targets of shape {array.shape}: leave out the bins, without '
            'which several targets are trained on.'
        )
    if array.size == 0:
        raise ValueError(
            'the dataset holds no samples, so there is no label '
            'distribution: check its paths and filters.'
        )
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f'target {array[row]} in row {row} is not finite: remove or '
            'fill such rows.'
        )
    return array


def _kernel(kernel: str, size: int, sigma: float) -> Tensor:
    if size < 1 or size % 2 == 0:
        raise ValueError(f'kernel size must be odd and positive, got {size}.')
    if sigma <= 0:
        raise ValueError(f'kernel sigma must be positive, got {sigma}.')
    offset = torch.arange(size, dtype=torch.float64) - size // 2
    if kernel == 'gaussian':
        return torch.exp(-0.5 * (offset / sigma) ** 2)
    if kernel == 'laplace':
        return torch.exp(-offset.abs() / sigma)
    if kernel == 'triangular':
        return 1 - offset.abs() / (size // 2 + 1)
    raise ValueError(
        f"kernel {kernel!r} is unknown: use 'gaussian', 'laplace' or "
        "'triangular'."
    )
