# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.dataset import force_full_init
from mmpretrain.datasets import BaseDataset

from .checks import require_samples


class RowDataset(BaseDataset, ABC):
    """Base of regression datasets whose inputs are rows of numbers.

    A subclass implements :meth:`load_rows`. Inputs and targets stay in the
    two arrays that it returns, read-only and outside of the data list; an
    item of the serialized data list is the row's index, 8 bytes. Sub-datasets
    and forked data loader workers share the arrays. What an overridden
    :meth:`filter_data` adds to the data list is not kept.

    A sample is made of ``img``, a float32 tensor of shape ``(d,)`` that the
    host's ``PackInputs`` takes as it is; ``gt_score``, float32 of shape
    ``(D,)``; and ``sample_idx``. Nothing is standardised here: that takes
    statistics of the training rows, which other splits do not have.

    Args:
        data_root (str): Folder of the files. Defaults to ''.
        ann_file (str): File of the rows, relative to ``data_root``. Defaults
            to ''.
        pipeline (Sequence): The transforms. Defaults to ``PackInputs`` alone.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`.

    Raises:
        ValueError: When there are no rows, the arrays differ in length or
            have the wrong number of dimensions, or a value is not finite.
    """

    def __init__(
        self,
        data_root: str = '',
        ann_file: str = '',
        pipeline: Sequence = (dict(type='PackInputs'),),
        **kwargs,
    ) -> None:
        self._inputs: np.ndarray | None = None
        self._targets: np.ndarray | None = None
        super().__init__(
            ann_file=ann_file,
            data_root=osp.expanduser(data_root),
            pipeline=pipeline,
            **kwargs,
        )

    @abstractmethod
    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Load all inputs and targets.

        Returns:
            tuple[np.ndarray, np.ndarray]: Inputs of shape ``(N, d)`` and
            targets of shape ``(N,)`` or ``(N, D)``, of any dtype of numbers.
        """

    def load_data_list(self) -> list[dict]:
        """Load the arrays, keep them and list the rows.

        Returns:
            list[dict]: A dict of ``row`` for each row.
        """
        inputs, targets = self.load_rows()
        _check_rows(type(self).__name__, inputs, targets)
        self._inputs = _frozen(inputs)
        self._targets = _frozen(targets.reshape(len(targets), -1))
        return [{'row': row} for row in range(len(inputs))]

    @property
    @force_full_init
    def inputs(self) -> np.ndarray:
        """Inputs of all samples, float32, shape ``(N, d)``, read-only."""
        return _float32(self._of_samples(self._inputs))

    @property
    @force_full_init
    def targets(self) -> np.ndarray:
        """Targets of all samples, float32, shape ``(N, D)``, read-only."""
        return _float32(self._of_samples(self._targets))

    @force_full_init
    def get_inputs(self) -> np.ndarray:
        """Inputs of all samples, as statistics want them.

        Returns:
            np.ndarray: float64, shape ``(N, d)``.
        """
        return self._of_samples(self._inputs).astype(np.float64)

    @force_full_init
    def get_gt_values(self) -> np.ndarray:
        """Targets of all samples.

        Returns:
            np.ndarray: float64, shape ``(N,)``, or ``(N, D)`` for D > 1.
        """
        targets = self._of_samples(self._targets).astype(np.float64)
        return targets[:, 0] if targets.shape[1] == 1 else targets

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Input and target of one sample.

        Args:
            idx (int): Index of the sample; negative ones count from the end.

        Returns:
            dict: ``img`` and ``gt_score``, copies, and ``sample_idx``, the
            non-negative index of the sample.
        """
        if self.serialize_data:
            row = int(self._rows()[idx])
        else:
            row = self.data_list[idx]['row']
        return {
            'img': torch.tensor(self._inputs[row], dtype=torch.float32),
            'gt_score': self._targets[row].astype(np.float32),
            'sample_idx': idx if idx >= 0 else len(self) + idx,
        }

    def extra_repr(self) -> list[str]:
        """Where the rows come from, for the printed form."""
        return [f'Annotation file: \t{self.ann_file}'] if self.ann_file else []

    def _of_samples(self, array: np.ndarray) -> np.ndarray:
        """The part of an array that belongs to the samples."""
        rows = self._rows()
        whole = np.array_equal(rows, np.arange(len(array)))
        return array if whole else array[rows]

    def _rows(self) -> np.ndarray:
        """Index into the arrays of each sample, int64, shape (N,)."""
        if self.serialize_data:
            return self.data_bytes.view(np.int64)
        return np.array([d['row'] for d in self.data_list], dtype=np.int64)

    def _serialize_data(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers in the host's two arrays.

        The host's sub-dataset methods slice them like its own pickles.
        """
        rows = np.array([d['row'] for d in self.data_list], dtype=np.int64)
        self.data_list.clear()
        address = rows.itemsize * np.arange(1, len(rows) + 1, dtype=np.int64)
        return rows.view(np.uint8), address

    def _copy_without_annotation(
        self, memo: dict | None = None
    ) -> 'RowDataset':
        """Let a sub-dataset share the arrays instead of copying them."""
        memo = {} if memo is None else memo
        for array in (self._inputs, self._targets):
            memo[id(array)] = array
        return super()._copy_without_annotation(memo)


def _frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view of an array."""
    array = array.view()
    array.flags.writeable = False
    return array


def _float32(array: np.ndarray) -> np.ndarray:
    return _frozen(array.astype(np.float32, copy=False))


def _check_rows(name: str, inputs: np.ndarray, targets: np.ndarray) -> None:
    if inputs.ndim != 2 or targets.ndim not in (1, 2):
        raise ValueError(
            f'{name} has inputs of shape {inputs.shape} and targets of shape '
            f'{targets.shape}: give (N, d) and (N,) or (N, D).'
        )
    if len(inputs) != len(targets):
        raise ValueError(
            f'{name} has {len(inputs)} rows of inputs but {len(targets)} '
            'targets: give one for each.'
        )
    require_samples(len(inputs), name)
    require_finite(name, inputs=inputs, targets=targets)


def require_finite(name: str, **arrays: np.ndarray) -> None:
    """Check that arrays hold neither NaN nor infinity.

    Args:
        name (str): Name of the file or dataset, for the message.
        **arrays (np.ndarray): Arrays whose first axis is the row, by the
            name that the message gives them.

    Raises:
        ValueError: When one holds such a value; names the first row.
    """
    for what, array in arrays.items():
        finite = np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        if not finite.all():
            raise ValueError(
                f'{name} row {int(np.argmin(finite))} has a value in its '
                f'{what} that is not finite ({int((~finite).sum())} such '
                'rows): correct or remove them.'
            )
