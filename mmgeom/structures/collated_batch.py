# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A batch that is complete when it leaves the dataset."""

from typing import Any

from mmpretrain.structures import DataSample
from torch import Tensor


class CollatedBatch(dict):
    """The ``inputs`` and ``data_samples`` of a batch, collated already.

    A data loader hands what a dataset gives to a collate function also when
    the dataset gives whole batches. ``default_collate`` and
    ``pseudo_collate`` of mmengine look at entry 0 of what they get and return
    it unchanged when that is a data element. So entry 0 of this dict is one,
    an empty one, and no collate function needs to be named in a config.

    Examples:
        >>> from mmengine.dataset import default_collate
        >>> batch = CollatedBatch(inputs=torch.zeros(2, 3))
        >>> default_collate(batch) is batch
        True
    """

    def __missing__(self, key: Any) -> DataSample:
        if key == 0:
            return DataSample()
        raise KeyError(key)

    def pin_memory(self) -> 'CollatedBatch':
        """The batch in pinned memory, as torch's data loader asks.

        Returns:
            CollatedBatch: A new one. Tensors on another device stay.
        """
        return CollatedBatch(
            (name, _pinned(value)) for name, value in self.items()
        )


def _pinned(value: Any) -> Any:
    if isinstance(value, Tensor) and value.device.type != 'cpu':
        return value
    return value.pin_memory() if hasattr(value, 'pin_memory') else value
