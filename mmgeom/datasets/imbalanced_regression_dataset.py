# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hold out balanced test data and make the rest imbalanced."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from mmgeom import labels
from mmgeom.binning import LabelBins
from mmgeom.registry import DATASETS

from .checks import require_split
from .label_density import label_density
from .regression_selection import (
    draw_weighted,
    held_out_counts,
    proportional_counts,
    rank_in_bin,
)
from .selection_wrapper import SelectionWrapper

SPLITS = ('train', 'val', 'test')
SAMPLINGS = ('counts', 'weights')


@DATASETS.register_module()
class ImbalancedRegressionDataset(SelectionWrapper):
    r"""One split of a regression dataset, for imbalanced regression.

    First, test and validation sets that are balanced over the label are held
    out: from each label bin ``test_per_bin`` and ``val_per_bin`` samples, or
    as many as ``max_held_out_share`` of the bin allows, by
    :func:`~mmgeom.datasets.regression_selection.held_out_counts`. What
    remains is the training pool; each bin that has a sample keeps one there,
    so the bins of the training labels are those of all labels. Training data
    that are imbalanced as collected, with balanced test data, are the setting
    of the UCI-DIR sets; how the literature drew those is not published.

    Second, a ``density`` over labels thins out the training pool, in one of
    two ways:

    - ``sampling='counts'``: the label counts of the training set follow the
      density, whatever those of the pool are, by
      :func:`~mmgeom.datasets.regression_selection.proportional_counts`. The
      mass of a bin is the density at its center times its width.
    - ``sampling='weights'``: ``num_samples`` or ``keep_share`` of the pool
      are drawn without replacement, and the density at its label is the
      weight of a sample. Counts then depend on the pool too.

    The three splits do not overlap, and do not depend on which of them is
    asked for. Fewer samples in ``sampling='counts'`` are a subset of more.
    The global random state is not touched. The order is that of the wrapped
    dataset.

    Args:
        dataset (dict | BaseDataset): A dataset with regression targets, or
            its config.
        bins (dict | LabelBins, optional): The label bins, the arguments of
            :meth:`mmgeom.binning.LabelBins.from_spec`, made from all labels
            of the wrapped dataset. Defaults to None, enough for
            ``sampling='weights'`` with nothing held out.
        split (str): ``'train'``, ``'val'`` or ``'test'``. Defaults to
            ``'train'``.
        test_per_bin (int): Test samples of each bin. Defaults to 0.
        val_per_bin (int): Validation samples of each bin. Defaults to 0.
        max_held_out_share (float): Largest share of a bin that is held out,
            in ``[0, 1)``. Defaults to 0.5.
        density (dict | Callable, optional): See
            :func:`~mmgeom.datasets.label_density.label_density`; of the
            training set only. Defaults to None, which keeps the pool.
        sampling (str): ``'counts'`` or ``'weights'``. Defaults to
            ``'counts'``.
        num_samples (int, optional): Size of the training set, with
            ``density``. Defaults to None: in ``sampling='counts'`` as many
            as follow the density exactly.
        keep_share (float, optional): The same as a share of the pool, in
            ``(0, 1]``. Defaults to None.
        target (int, optional): Which target is binned, when a sample has
            several. Defaults to None.
        seed (int): Of all draws, not negative; the splits need the same.
            Defaults to 0.
        lazy_init (bool): Do not read the data yet. Defaults to False.

    Raises:
        ValueError: When the arguments contradict each other or are out of
            their range, a target is not finite, no bin holds the wanted
            number of samples, or nothing is left.
        TypeError: When ``dataset`` is neither a config nor a dataset, or has
            no regression targets.
    """

    def __init__(
        self,
        dataset: dict | BaseDataset,
        bins: Mapping[str, Any] | LabelBins | None = None,
        split: str = 'train',
        test_per_bin: int = 0,
        val_per_bin: int = 0,
        max_held_out_share: float = 0.5,
        density: Mapping[str, Any] | Callable | None = None,
        sampling: str = 'counts',
        num_samples: int | None = None,
        keep_share: float | None = None,
        target: int | None = None,
        seed: int = 0,
        lazy_init: bool = False,
    ) -> None:
        self.bins = bins
        self.split = split
        self.test_per_bin = test_per_bin
        self.val_per_bin = val_per_bin
        self.max_held_out_share = max_held_out_share
        self.density = density
        self.sampling = sampling
        self.num_samples = num_samples
        self.keep_share = keep_share
        self.target = target
        self.seed = seed
        self._check_held_out()
        self._check_density()
        super().__init__(dataset, lazy_init)

    @force_full_init
    def get_gt_values(self) -> np.ndarray:
        """Targets of all samples, a copy.

        Returns:
            np.ndarray: float64, shape ``(N,)`` or ``(N, D)``.
        """
        return self._values[self._indices]

    @force_full_init
    def get_inputs(self) -> np.ndarray:
        """Inputs of all samples, a copy.

        Returns:
            np.ndarray: float64, shape ``(N, d)``.

        Raises:
            TypeError: When the wrapped dataset does not offer them.
        """
        return labels.dataset_inputs(self.dataset)[self._indices]

    @property
    @force_full_init
    def inputs(self) -> np.ndarray:
        """As of a wrapped in-memory dataset: float32, ``(N, d)``."""
        return self.dataset.inputs[self._indices]

    @property
    @force_full_init
    def targets(self) -> np.ndarray:
        """As of a wrapped in-memory dataset: float32, ``(N, D)``."""
        return self.dataset.targets[self._indices]

    def extra_repr(self) -> list[str]:
        """The split and how it was made, for the printed form.

        Returns:
            list[str]: A line each.
        """
        body = [f'Split: \t{self.split} (seed {self.seed})']
        if self.test_per_bin or self.val_per_bin:
            body.append(
                f'Held out: \t{self.test_per_bin} test and '
                f'{self.val_per_bin} validation samples per bin, at most '
                f'{self.max_held_out_share:g} of it'
            )
        if self.density is not None:
            body.append(f'Density: \t{self.density} ({self.sampling})')
        return body

    # Selection --------------------------------------------------------------
    def select(self) -> np.ndarray:
        """Choose the samples of the split.

        Returns:
            np.ndarray: Ascending int64 indices into the wrapped dataset.
        """
        self._values = labels.dataset_values(self.dataset)
        values = self._binned_values()
        bins = self._label_bins(values)
        if bins is None:
            return self._draw(values, np.arange(len(values)))
        index = bins.index(values, clamp=False).numpy()
        counts = np.bincount(index, minlength=len(bins))
        self._check_bins(counts)
        test, val = held_out_counts(
            counts,
            self.test_per_bin,
            self.val_per_bin,
            self.max_held_out_share,
        )
        ranks = rank_in_bin(index, self.seed)
        if self.split == 'test':
            return np.flatnonzero(ranks < test[index])
        # From here on, the place behind the test samples.
        ranks -= test[index]
        if self.split == 'val':
            return np.flatnonzero((ranks >= 0) & (ranks < val[index]))
        ranks -= val[index]
        pool = np.flatnonzero(ranks >= 0)
        if self.density is None:
            return pool
        if self.sampling == 'weights':
            return self._draw(values, pool)
        wanted = self._wanted_counts(bins, counts - test - val, len(pool))
        return pool[ranks[pool] < wanted[index[pool]]]

    def _binned_values(self) -> np.ndarray:
        """One finite target a sample."""
        values, name = self._values, type(self.dataset).__name__
        if len(values) == 0:
            raise ValueError(
                f'{name} holds no samples: check its paths and filters.'
            )
        if values.ndim == 1:
            values = values[:, None]
        target = 0 if values.shape[1] == 1 else self.target
        if target is None or not 0 <= target < values.shape[1]:
            raise ValueError(
                f'{name} has {values.shape[1]} targets a sample: name the '
                f'one to bin by target=0..{values.shape[1] - 1}, got '
                f'{self.target}.'
            )
        chosen = values[:, target]
        bad = np.flatnonzero(~np.isfinite(chosen))
        if len(bad):
            raise ValueError(
                f'target {chosen[bad[0]]} of sample {bad[0]} of {name} is '
                'not finite: remove or fill such samples.'
            )
        return np.ascontiguousarray(chosen)

    def _label_bins(self, values: np.ndarray) -> LabelBins | None:
        if self.bins is None or isinstance(self.bins, LabelBins):
            return self.bins
        return LabelBins.from_spec(values, **self.bins)

    def _check_bins(self, counts: np.ndarray) -> None:
        """Refuse bins that are too fine for a balanced split."""
        wanted = self.test_per_bin + self.val_per_bin
        spare = int(counts.max() * self.max_held_out_share + 1e-9)
        if spare < wanted:
            raise ValueError(
                f'the largest of {len(counts)} label bins holds '
                f'{counts.max()} samples, of which max_held_out_share='
                f'{self.max_held_out_share} allows to hold out {spare}, but '
                f'{wanted} are asked for: widen the bins, or lower '
                'test_per_bin and val_per_bin.'
            )

    def _wanted_counts(
        self, bins: LabelBins, counts: np.ndarray, pool_size: int
    ) -> np.ndarray:
        density = self._density(bins.centers.numpy())
        masses = density * bins.edges.diff().numpy()
        return proportional_counts(counts, masses, self._size(pool_size))

    def _draw(self, values: np.ndarray, pool: np.ndarray) -> np.ndarray:
        weights = np.zeros(len(values))
        weights[pool] = self._density(values[pool])
        return draw_weighted(weights, self._size(len(pool)), self.seed)

    def _size(self, pool_size: int) -> int | None:
        """Size of the training set, if it is given."""
        if self.keep_share is None:
            return self.num_samples
        return round(self.keep_share * pool_size)

    def _density(self, values: np.ndarray) -> np.ndarray:
        return label_density(self.density)(values)

    # Arguments --------------------------------------------------------------
    def _check_held_out(self) -> None:
        require_split('ImbalancedRegressionDataset', self.split, SPLITS)
        for name in ('test_per_bin', 'val_per_bin', 'seed'):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise ValueError(
                    f'{name} must be a whole number and not negative, got '
                    f'{value!r}.'
                )
        if not 0 <= self.max_held_out_share < 1:
            raise ValueError(
                'max_held_out_share must lie in [0, 1), got '
                f'{self.max_held_out_share}.'
            )
        if self.split != 'train' and not getattr(
            self, f'{self.split}_per_bin'
        ):
            raise ValueError(
                f'the {self.split} split needs {self.split}_per_bin > 0, so '
                'that something is held out.'
            )
        held_out = self.test_per_bin or self.val_per_bin
        if not held_out and self.density is None:
            raise ValueError(
                'ImbalancedRegressionDataset has nothing to do: give '
                'test_per_bin or val_per_bin to hold out balanced data, or a '
                'density over labels.'
            )
        by_counts = self.density is not None and self.sampling == 'counts'
        if self.bins is None and (held_out or by_counts):
            raise ValueError(
                'held-out data and sampling by counts need label bins: give '
                'bins, e.g. bins=dict(width=1.0).'
            )

    def _check_density(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise ValueError(
                f"sampling must be 'counts' or 'weights', got "
                f'{self.sampling!r}.'
            )
        sizes = (self.num_samples, self.keep_share)
        if None not in sizes:
            raise ValueError(
                f'give one of num_samples={self.num_samples} and '
                f'keep_share={self.keep_share}, not both.'
            )
        if self.density is None:
            if sizes != (None, None):
                raise ValueError(
                    'num_samples and keep_share need a density: give one, '
                    "e.g. density=dict(type='uniform')."
                )
            return
        if self.sampling == 'weights' and sizes == (None, None):
            raise ValueError(
                "sampling='weights' needs num_samples or keep_share."
            )
        if self.num_samples is not None and self.num_samples < 1:
            raise ValueError(
                f'num_samples must be positive, got {self.num_samples}.'
            )
        if self.keep_share is not None and not 0 < self.keep_share <= 1:
            raise ValueError(
                f'keep_share must lie in (0, 1], got {self.keep_share}.'
            )
        label_density(self.density)  # fail before any data are read
