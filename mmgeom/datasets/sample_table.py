# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""All samples of a dataset as a few arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmpretrain.structures import DataSample
from torch import Tensor

from mmgeom.structures import BatchSamples, CollatedBatch


class SampleTable:
    """Inputs, labels and meta information of all samples.

    Args:
        inputs (Tensor): Of all samples, shape ``(N, ...)``.
        fields (dict[str, Tensor | list]): Data fields, as those of
            :class:`~mmgeom.structures.BatchSamples`.
        metainfo (dict): What all samples share.
        sample_metainfo (dict[str, list | np.ndarray]): What each sample has
            of its own.
    """

    def __init__(
        self,
        inputs: Tensor,
        fields: dict[str, Tensor | list],
        metainfo: dict[str, Any],
        sample_metainfo: dict[str, list | np.ndarray],
    ) -> None:
        self.inputs = inputs
        self.fields = fields
        self.metainfo = metainfo
        self.sample_metainfo = sample_metainfo

    @classmethod
    def read(cls, dataset: Any) -> 'SampleTable':
        """Take every sample of a dataset once.

        Args:
            dataset (Any): Its samples are those of the host's
                ``PackInputs``, with inputs of one shape.

        Returns:
            SampleTable: On the CPU.

        Raises:
            TypeError: When samples are made in another way.
            ValueError: When inputs differ in shape or type, or samples have
                different fields, or several labels.
        """
        name = type(dataset).__name__
        inputs, samples = None, []
        for index in range(len(dataset)):
            item = dataset[index]
            _check_item(item, name)
            if inputs is None:
                first = item['inputs']
                inputs = first.new_empty((len(dataset), *first.shape))
            _check_like(item['inputs'], inputs, index, name)
            inputs[index] = item['inputs']
            samples.append(item['data_samples'])
        fields = _columns([dict(s.items()) for s in samples], name)
        metainfo = _columns([dict(s.metainfo_items()) for s in samples], name)
        shared, own = _divided(metainfo)
        stacked = {
            k: _stacked(k, column, name) for k, column in fields.items()
        }
        return cls(inputs, stacked, shared, own)

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: str) -> 'SampleTable':
        """The table with its tensors on a device.

        Args:
            device (str): Such as ``'cuda'``.

        Returns:
            SampleTable: A new one.
        """
        fields = {
            name: column.to(device) if isinstance(column, Tensor) else column
            for name, column in self.fields.items()
        }
        return SampleTable(
            self.inputs.to(device), fields, self.metainfo, self.sample_metainfo
        )

    def batch(self, indices: Sequence[int]) -> CollatedBatch:
        """Some samples, collated.

        Args:
            indices (Sequence[int]): From 0 to N - 1.

        Returns:
            CollatedBatch: ``inputs`` of shape ``(B, ...)``, a copy, and
            ``data_samples``, :class:`~mmgeom.structures.BatchSamples`.
        """
        positions = np.asarray(indices, dtype=np.int64)
        rows = torch.from_numpy(positions).to(self.inputs.device)
        fields, own = (
            {k: _taken(v, rows, positions) for k, v in columns.items()}
            for columns in (self.fields, self.sample_metainfo)
        )
        samples = BatchSamples(fields, self.metainfo, own)
        return CollatedBatch(
            inputs=self.inputs.index_select(0, rows), data_samples=samples
        )


def _taken(
    column: Tensor | np.ndarray | list, rows: Tensor, positions: np.ndarray
) -> Tensor | np.ndarray | list:
    if isinstance(column, Tensor):
        return column.index_select(0, rows)
    if isinstance(column, np.ndarray):
        return column[positions]
    return [column[index] for index in positions]


def _check_item(item: Any, name: str) -> None:
    packed = isinstance(item, dict) and isinstance(
        item.get('data_samples'), DataSample
    )
    if not packed:
        raise TypeError(
            f'BatchedDataset takes samples that PackInputs packed, but those '
            f'of {name} are of type {type(item).__name__}: end its pipeline '
            "with dict(type='PackInputs')."
        )
    if not isinstance(item.get('inputs'), Tensor):
        raise TypeError(
            'BatchedDataset takes one view of a sample, but those of '
            f'{name} have inputs of type '
            f'{type(item.get("inputs")).__name__}: leave MultiView out of '
            'the pipeline and give `views` to '
            'mmgeom.BatchedDataPreprocessor.'
        )


def _check_like(value: Tensor, inputs: Tensor, index: int, name: str) -> None:
    if value.shape != inputs.shape[1:] or value.dtype != inputs.dtype:
        raise ValueError(
            'BatchedDataset needs inputs of one shape and type, but sample '
            f'{index} of {name} has {tuple(value.shape)} {value.dtype} and '
            f'the first has {tuple(inputs.shape[1:])} {inputs.dtype}: put a '
            'Resize to one size into the pipeline.'
        )


def _columns(rows: list[dict], name: str) -> dict[str, list]:
    """From a dict for each sample to a list for each key."""
    keys = rows[0].keys()
    for index, row in enumerate(rows):
        if row.keys() != keys:
            raise ValueError(
                f'sample {index} of {name} has the fields {sorted(row)} but '
                f'the first one {sorted(keys)}: BatchedDataset needs the '
                'same in all.'
            )
    return {key: [row[key] for row in rows] for key in keys}


def _divided(columns: dict[str, list]) -> tuple[dict[str, Any], dict]:
    """What is the same for all samples, and the rest."""
    shared, own = {}, {}
    for key, values in columns.items():
        if all(_same(value, values[0]) for value in values):
            shared[key] = values[0]
        else:
            own[key] = _as_numbers(values)
    return shared, own


def _as_numbers(values: list) -> np.ndarray | list:
    """Whole or real numbers as an array, which is quicker to select from."""
    kinds = {type(value) for value in values}
    return np.array(values) if kinds in ({int}, {float}) else values


def _same(value: Any, other: Any) -> bool:
    if type(value) is not type(other):
        return False
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other)
    if isinstance(value, Tensor):
        return torch.equal(value, other)
    return bool(value == other)


def _stacked(key: str, values: list, name: str) -> Tensor | list:
    """A column as a tensor, if its values are tensors of one shape."""
    if key == 'gt_label':
        sizes = {len(value) for value in values}
        if sizes != {1}:
            raise ValueError(
                'BatchedDataset needs one label a sample, but samples of '
                f'{name} have {sorted(sizes)}: use the dataset without it.'
            )
        return torch.cat(values)
    tensors = all(isinstance(value, Tensor) for value in values)
    if tensors and len({value.shape for value in values}) == 1:
        return torch.stack(values)
    return values
