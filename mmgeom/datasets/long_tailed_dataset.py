# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Make any classification dataset long-tailed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from mmgeom.labels import dataset_labels, dataset_num_classes
from mmgeom.registry import DATASETS

from .long_tailed_profile import long_tailed_counts
from .selection_wrapper import SelectionWrapper
from .subset_selection import load_indices, select_ldam, select_nested


@DATASETS.register_module()
class LongTailedDataset(SelectionWrapper):
    r"""Keep a long-tailed part of another dataset.

    Give ``imbalance_factor`` with a ``profile``, or ``counts``, or an
    ``index_file``. A class that has fewer samples than it should get keeps
    all of them.

    With ``protocol='ldam'`` the split is the one that the long-tail
    literature reports on: :math:`n_{\max} = N/K` and the selection of
    :func:`~mmgeom.datasets.subset_selection.select_ldam`; with ``seed=0``
    and CIFAR this is exactly CIFAR-10/100-LT. The default protocol takes the
    same :math:`n_{\max}` but selects so that a larger imbalance factor keeps
    a subset of what a smaller one keeps.

    The global random state is not touched. Class 0 gets the most samples
    unless ``class_order`` says otherwise.

    Args:
        dataset (dict | BaseDataset): The dataset, or its config.
        imbalance_factor (float, optional): :math:`n_{\max}/n_{\min}`, at
            least 1. Defaults to None.
        profile (str): ``'exp'``, ``'step'`` or ``'pareto'``; see
            :func:`~mmgeom.datasets.long_tailed_profile.long_tailed_counts`.
            Defaults to ``'exp'``.
        counts (Sequence[int], optional): Samples of each class, in label
            order. Defaults to None.
        index_file (str, optional): ``.npy``, ``.json`` or text file with the
            indices to keep. Defaults to None.
        protocol (str): ``'nested'`` or ``'ldam'``. Defaults to ``'nested'``.
        max_count (int, optional): :math:`n_{\max}`. Defaults to None, which
            means N/K.
        class_order (str | Sequence[int]): Which class is the largest,
            second largest and so on: ``'index'``, ``'frequency'`` (as in the
            data), ``'random'`` (by the seed), or a list of all labels.
            Defaults to ``'index'``.
        profile_args (dict, optional): ``step_fraction`` or
            ``pareto_alpha``. Defaults to None.
        seed (int): Of the selection. Defaults to 0.
        lazy_init (bool): Do not read the data yet. Defaults to False.

    Raises:
        ValueError: When the arguments contradict each other or are out of
            their range, or nothing is left.
        TypeError: When ``dataset`` is neither a config nor a dataset, or
            has several labels a sample.
    """

    def __init__(
        self,
        dataset: dict | BaseDataset,
        imbalance_factor: float | None = None,
        profile: str = 'exp',
        counts: Sequence[int] | None = None,
        index_file: str | None = None,
        protocol: str = 'nested',
        max_count: int | None = None,
        class_order: str | Sequence[int] = 'index',
        profile_args: dict | None = None,
        seed: int = 0,
        lazy_init: bool = False,
    ) -> None:
        rules = dict(
            imbalance_factor=imbalance_factor,
            counts=counts,
            index_file=index_file,
        )
        given = [name for name, value in rules.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                f'give exactly one of {list(rules)} to LongTailedDataset, got '
                f'{given or "none"}.'
            )
        if protocol not in ('nested', 'ldam'):
            raise ValueError(
                f"protocol must be 'nested' or 'ldam', got {protocol!r}."
            )
        self.imbalance_factor = imbalance_factor
        self.profile = profile
        self.counts = counts
        self.index_file = index_file
        self.protocol = protocol
        self.max_count = max_count
        self.class_order = class_order
        self.profile_args = profile_args or {}
        self.seed = seed
        if imbalance_factor is not None:  # fail before any data are read
            long_tailed_counts(
                2,
                1 if max_count is None else max_count,
                imbalance_factor,
                profile,
                **self.profile_args,
            )
        elif max_count is not None or profile_args:
            raise ValueError(
                'max_count and profile_args shape a profile: they need '
                f'imbalance_factor, but {given[0]} was given.'
            )
        super().__init__(dataset, lazy_init)

    @property
    def CLASSES(self) -> Any:
        """Class names, as the host's datasets offer them."""
        return self.metainfo.get('classes')

    @property
    def class_to_idx(self) -> dict[str, int]:
        """From class name to label."""
        return {name: i for i, name in enumerate(self.CLASSES)}

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Label of a sample, in a list as the host wants it.

        Args:
            idx (int): Index into this dataset.

        Returns:
            list[int]: One label.
        """
        return [int(self._labels[idx])]

    @force_full_init
    def get_gt_labels(self) -> np.ndarray:
        """Labels of all samples, a copy.

        Returns:
            np.ndarray: int64, shape ``(N,)``.
        """
        return self._labels.copy()

    # Selection --------------------------------------------------------------
    def select(self) -> np.ndarray:
        """Choose the samples.

        Returns:
            np.ndarray: int64 indices into the wrapped dataset.
        """
        labels = dataset_labels(self.dataset)
        if not isinstance(labels, np.ndarray):
            raise TypeError(
                'LongTailedDataset needs one label a sample, but '
                f'{type(self.dataset).__name__} has several.'
            )
        if labels.size == 0:
            raise ValueError(
                f'{type(self.dataset).__name__} holds no samples: check its '
                'paths and filters.'
            )
        indices = self._select(labels)
        if len(indices) == 0:
            raise ValueError(
                'LongTailedDataset keeps no sample at all: raise its counts.'
            )
        self._labels = labels[indices]
        return indices

    def _select(self, labels: np.ndarray) -> np.ndarray:
        if self.index_file is not None:
            return load_indices(self.index_file, len(labels))
        num_classes = dataset_num_classes(self.dataset)
        if num_classes is None:
            num_classes = int(labels.max()) + 1
        if labels.max() >= num_classes or labels.min() < 0:
            bad = int(
                np.flatnonzero((labels >= num_classes) | (labels < 0))[0]
            )
            raise ValueError(
                f'label {labels[bad]} of sample {bad} lies outside [0, '
                f'{num_classes}): correct the labels or the class names.'
            )
        counts = self._class_counts(labels, num_classes)
        rule = select_ldam if self.protocol == 'ldam' else select_nested
        return rule(labels, counts, self.seed)

    def _class_counts(
        self, labels: np.ndarray, num_classes: int
    ) -> np.ndarray:
        """Samples wanted of each class, in label order."""
        if self.counts is not None:
            counts = np.asarray(self.counts)
            whole = counts.astype(np.int64)
            if (
                counts.shape != (num_classes,)
                or (counts != whole).any()
                or (counts < 0).any()
            ):
                raise ValueError(
                    f'counts must hold {num_classes} whole numbers, none '
                    f'negative, one for each class, got {len(counts)} with '
                    f'minimum {counts.min() if counts.size else None}.'
                )
            return whole
        max_count = self.max_count
        if max_count is None:
            max_count = len(labels) / num_classes
        sizes = long_tailed_counts(
            num_classes,
            max_count,
            self.imbalance_factor,
            self.profile,
            **self.profile_args,
        )
        counts = np.empty_like(sizes)
        counts[self._ranked_classes(labels, num_classes)] = sizes
        return counts

    def _ranked_classes(
        self, labels: np.ndarray, num_classes: int
    ) -> np.ndarray:
        """Class labels from the one that becomes largest to the smallest."""
        order = self.class_order
        if isinstance(order, str):
            if order == 'index':
                return np.arange(num_classes)
            if order == 'frequency':
                have = np.bincount(labels, minlength=num_classes)
                return np.argsort(-have, kind='stable')
            if order == 'random':
                generator = np.random.default_rng(self.seed)
                return generator.permutation(num_classes)
        if isinstance(order, str) or sorted(order) != list(range(num_classes)):
            raise ValueError(
                "class_order must be 'index', 'frequency', 'random' or a "
                f'list of all {num_classes} labels, got {order!r}.'
            )
        return np.asarray(order, dtype=np.int64)
