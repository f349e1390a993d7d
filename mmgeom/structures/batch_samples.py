# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The data samples of a batch, held as one tensor for each field."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmpretrain.structures import DataSample
from torch import Tensor


class BatchSamples(Sequence):
    """A sequence of data samples that are made when somebody asks for one.

    Labels of a batch travel as one tensor, which our heads read by
    :meth:`stacked`. Code that indexes or iterates gets the host's
    ``DataSample`` objects. Each is made once, so that what the host writes
    into it stays; from the first one on the samples, and no longer the
    tensors, are what counts.

    Args:
        fields (Mapping[str, Tensor | Sequence] | Iterable[DataSample]): Data
            fields by name, each with one entry a sample: ``gt_label``,
            int64 of shape ``(B,)``; all others as a sample has them, stacked,
            such as ``gt_score`` of shape ``(B, D)``; or lists. Data samples
            are taken too, since the host copies sequences in this way.
        metainfo (Mapping, optional): What all samples share. Defaults to
            None.
        sample_metainfo (Mapping[str, Sequence | np.ndarray], optional): What
            each sample has of its own, such as ``sample_idx``. Arrays give
            numbers of Python. Defaults to None.

    Raises:
        ValueError: When there is no field, or they differ in length.

    Examples:
        >>> samples = BatchSamples(dict(gt_label=torch.tensor([3, 5])))
        >>> samples.stacked('gt_label')
        tensor([3, 5])
        >>> samples[1].gt_label
        tensor([5])
    """

    def __init__(
        self,
        fields: Mapping[str, Tensor | Sequence] | Iterable[DataSample],
        metainfo: Mapping[str, Any] | None = None,
        sample_metainfo: Mapping[str, Sequence | np.ndarray] | None = None,
    ) -> None:
        self._fields: dict[str, Any] = {}
        self._metainfo = dict(metainfo or {})
        self._sample_metainfo = dict(sample_metainfo or {})
        if isinstance(fields, Mapping):
            self._fields = dict(fields)
            columns = {**self._fields, **self._sample_metainfo}
            sizes = {len(column) for column in columns.values()}
            if len(sizes) != 1:
                lengths = {
                    name: len(column) for name, column in columns.items()
                }
                raise ValueError(
                    'all fields of a batch need one entry a sample, got '
                    f'lengths {lengths}.'
                )
            self._items: list[DataSample | None] = [None] * sizes.pop()
            self._handed_out = False
        else:
            self._items = list(fields)
            self._handed_out = True

    @property
    def metainfo(self) -> dict:
        """What all samples shared when the batch was made, a copy."""
        return dict(self._metainfo)

    def keys(self) -> list[str]:
        """Names of the data fields.

        Returns:
            list[str]: Once samples were handed out, those of the first.
        """
        if self._handed_out:
            return list(self[0].keys()) if self._items else []
        return list(self._fields)

    def stacked(self, name: str) -> Tensor:
        """A field of all samples.

        Args:
            name (str): Of a field of tensors.

        Returns:
            Tensor: Labels have shape ``(B,)``, other fields that of a sample
            behind a first dimension B.

        Raises:
            AttributeError: When a sample has no such field.
        """
        if not self._handed_out:
            if name not in self._fields:
                raise AttributeError(
                    f'the samples have no {name!r}, only {self.keys()}.'
                )
            return self._fields[name]
        values = [getattr(sample, name) for sample in self]
        return torch.cat(values) if _is_label(name) else torch.stack(values)

    def replaced(self, **fields: Tensor) -> 'BatchSamples':
        """These samples with other values of some fields.

        Args:
            **fields (Tensor): As the constructor takes them.

        Returns:
            BatchSamples: A new one; or this one, once samples were handed
            out, since others may hold them.
        """
        score = fields.get('gt_score')
        metainfo = self._metainfo
        if score is not None:  # as the host's `set_gt_score`
            metainfo = {'num_classes': score.shape[1], **metainfo}
        if not self._handed_out:
            return BatchSamples(
                {**self._fields, **fields}, metainfo, self._sample_metainfo
            )
        for index, sample in enumerate(self):
            _fill(sample, fields, index)
            missing = metainfo.keys() - set(sample.all_keys())
            sample.set_metainfo({key: metainfo[key] for key in missing})
        return self

    def to(
        self, device: torch.device | str, non_blocking: bool = False
    ) -> 'BatchSamples':
        """These samples on a device.

        Args:
            device (torch.device | str): The device.
            non_blocking (bool): Do not wait for copies out of pinned memory.
                Defaults to False.

        Returns:
            BatchSamples: A new one, or this one if all is there already.
        """
        if not self._handed_out and not self._elsewhere(device):
            return self
        moved = self._mapped(lambda x: x.to(device, non_blocking=non_blocking))
        moved._items = [
            item and item.to(device, non_blocking=non_blocking)
            for item in self._items
        ]
        return moved

    def pin_memory(self) -> 'BatchSamples':
        """These samples in pinned memory, as torch's data loader asks.

        Returns:
            BatchSamples: A new one; what is on another device, or was handed
            out, stays where it is.
        """
        return self._mapped(
            lambda x: x.pin_memory() if x.device.type == 'cpu' else x
        )

    def _elsewhere(self, device: torch.device | str) -> bool:
        """Whether a tensor lies on another device."""
        device = torch.device(device)
        return any(
            isinstance(column, Tensor) and column.device != device
            for column in self._fields.values()
        )

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> 'BatchSamples':
        """A copy whose tensors went through a function."""
        new = BatchSamples(self._items)
        new._metainfo = self._metainfo
        new._sample_metainfo = self._sample_metainfo
        new._handed_out = self._handed_out
        new._fields = {
            name: function(column) if isinstance(column, Tensor) else column
            for name, column in self._fields.items()
        }
        return new

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._part(index)
        return self._sample(range(len(self))[index])

    def __iter__(self) -> Iterator[DataSample]:
        return (self._sample(index) for index in range(len(self)))

    def __repr__(self) -> str:
        return f'{type(self).__name__}({len(self)} samples of {self.keys()})'

    def _part(self, index: slice) -> 'BatchSamples':
        part = BatchSamples(self._items[index])
        part._metainfo = self._metainfo
        part._handed_out = self._handed_out
        part._fields = {k: v[index] for k, v in self._fields.items()}
        part._sample_metainfo = {
            k: v[index] for k, v in self._sample_metainfo.items()
        }
        return part

    def _sample(self, index: int) -> DataSample:
        if self._items[index] is None:
            sample = DataSample()
            _fill(sample, self._fields, index)
            own = {
                key: column[index].item()
                if isinstance(column, np.ndarray)
                else column[index]
                for key, column in self._sample_metainfo.items()
            }
            sample.set_metainfo({**self._metainfo, **own})
            self._items[index] = sample
            self._handed_out = True
        return self._items[index]


def _fill(
    sample: DataSample, fields: Mapping[str, Tensor | Sequence], index: int
) -> None:
    """Write one entry of each field into a sample."""
    for name, column in fields.items():
        value = column[index]
        if _is_label(name):  # the host keeps a label as a vector of one
            value = value.reshape(1)
        sample.set_field(value, name)


def _is_label(name: str) -> bool:
    return name == 'gt_label'
