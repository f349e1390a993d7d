# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from mmgeom.registry import DATASETS

from .checks import require_split
from .operator_learning import linear_rows, nonlinear_rows, select_locations
from .row_dataset import RowDataset

_ROWS = MappingProxyType(dict(linear=linear_rows, nonlinear=nonlinear_rows))
_SIZES = MappingProxyType(dict(train=10_000, val=10_000, test=100_000))
_EDGES = (0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1)
_WEIGHTS = (0.1, 0.3, 0.6, 1, 0.6, 0.3, 0.1)


@DATASETS.register_module()
class OperatorLearningDataset(RowDataset):
    r"""OL-DIR: learn an operator from samples of imbalanced location.

    A row is a function of its own and a location y in [0, 1], the target the
    value :math:`G(u)(y)` of the operator there:

    - ``'linear'``: the antiderivative of a Gaussian random function given at
      100 sensors, :func:`~mmgeom.datasets.operator_learning.linear_rows`;
    - ``'nonlinear'``: the mean solution of a random diffusion equation given
      by 240 numbers, the modes of its coefficient,
      :func:`~mmgeom.datasets.operator_learning.nonlinear_rows`.

    Of validation and test rows the location is uniform. For training,
    ``num_samples / keep_share`` uniform locations are drawn, of which
    ``num_samples`` are kept without replacement, by the weights of their
    intervals. By default these are

    ========  ==========  ===================  ===================  ==========
    location  [0.4, 0.6)  [0.2, 0.4)           [0.1, 0.2)           [0, 0.1)
    \                     [0.6, 0.8)           [0.8, 0.9)           [0.9, 1]
    weight    1           0.6                  0.3                  0.1
    ========  ==========  ===================  ===================  ==========

    with which Dong et al., "Improve Representation for Imbalanced Regression
    through Geometric Constraints", CVPR 2025, weight their pool. Few-shot is
    what lies at either end, so groups are by location and not by target:
    samples have ``group_value``, y, for
    ``dict(type='mmgeom.ShotError', group_by='group_value', intervals=...)``.

    The rows are generated when the data are read, from the seed alone, in
    about a second for 100,000 rows. Splits never share functions.

    Args:
        kind (str): ``'linear'`` or ``'nonlinear'``.
        split (str): ``'train'``, ``'val'`` or ``'test'``. Defaults to
            ``'train'``.
        num_samples (int, optional): Number of rows. Defaults to None: 10,000
            for training and validation, 100,000 for test.
        keep_share (float): Share of the training locations that is kept, in
            ``(0, 1]``; 1 leaves the training set balanced. Defaults to 0.6.
        location_edges (Sequence[float]): Intervals of the weights,
            increasing from 0 to 1. Defaults to those above.
        location_weights (Sequence[float]): Positive weight of each interval.
            Defaults to those above.
        seed (int): Of the rows, not negative. Defaults to 0.
        pipeline (Sequence): The transforms. Defaults to ``PackInputs`` with
            ``sample_idx`` and ``group_value``.
        **kwargs: Other arguments of :class:`RowDataset` except those of
            files.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        kind: str,
        split: str = 'train',
        num_samples: int | None = None,
        keep_share: float = 0.6,
        location_edges: Sequence[float] = _EDGES,
        location_weights: Sequence[float] = _WEIGHTS,
        seed: int = 0,
        pipeline: Sequence = (
            dict(type='PackInputs', meta_keys=('sample_idx', 'group_value')),
        ),
        **kwargs,
    ) -> None:
        if kind not in _ROWS:
            raise ValueError(
                f"kind must be 'linear' or 'nonlinear', got {kind!r}."
            )
        require_split('OperatorLearningDataset', split, tuple(_SIZES))
        self.kind = kind
        self.split = split
        self.num_samples = (
            _SIZES[split] if num_samples is None else num_samples
        )
        self.keep_share = keep_share
        self.location_edges = location_edges
        self.location_weights = location_weights
        self.seed = seed
        self._check_numbers()
        _check_intervals(location_edges, location_weights)
        super().__init__(pipeline=pipeline, **kwargs)

    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Generate the rows of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Inputs, whose last column is the
            location, and targets ``(N,)``.
        """
        stream = np.random.SeedSequence(
            self.seed, spawn_key=(tuple(_SIZES).index(self.split),)
        )
        locations, functions = map(np.random.default_rng, stream.spawn(2))
        # Functions do not depend on the location, so that only those of the
        # locations that are kept need to be drawn.
        return _ROWS[self.kind](self._locations(locations), functions)

    def get_data_info(self, idx: int) -> dict:
        """Input, target and location of one sample.

        Args:
            idx (int): Index of the sample; negative ones count from the end.

        Returns:
            dict: As of :class:`RowDataset`, and ``group_value``, the
            location, a float.
        """
        info = super().get_data_info(idx)
        return {**info, 'group_value': info['img'][-1].item()}

    def extra_repr(self) -> list[str]:
        """What is generated, for the printed form."""
        return [
            f'Operator: \t{self.kind}',
            f'Split: \t{self.split} (seed {self.seed})',
        ]

    def _locations(self, generator: np.random.Generator) -> np.ndarray:
        if self.split != 'train' or self.keep_share == 1:
            return generator.random(self.num_samples)
        pool = generator.random(round(self.num_samples / self.keep_share))
        return select_locations(
            pool,
            self.num_samples,
            self.location_edges,
            self.location_weights,
            generator,
        )

    def _check_numbers(self) -> None:
        for name, smallest in (('num_samples', 1), ('seed', 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < smallest:
                raise ValueError(
                    f'{name} of OperatorLearningDataset must be a whole '
                    f'number of at least {smallest}, got {value!r}.'
                )
        if not 0 < self.keep_share <= 1:
            raise ValueError(
                f'keep_share must lie in (0, 1], got {self.keep_share!r}.'
            )


def _check_intervals(edges: Sequence[float], weights: Sequence[float]) -> None:
    points = np.asarray(edges, dtype=np.float64)
    ends = points[[0, -1]].tolist() if points.ndim == 1 and len(points) else []
    if ends != [0, 1] or not (np.diff(points) > 0).all():
        raise ValueError(
            f'location_edges must increase from 0 to 1, got {list(edges)}.'
        )
    values = np.asarray(weights, dtype=np.float64)
    if (
        values.shape != (len(points) - 1,)
        or not ((values > 0) & np.isfinite(values)).all()
    ):
        raise ValueError(
            f'{len(points) - 1} intervals of locations need as many positive '
            f'location_weights, got {list(weights)}.'
        )
