# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hand out whole batches of a dataset that fits in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.dataset import BaseDataset, force_full_init
from torch.utils.data import get_worker_info

from mmgeom import labels
from mmgeom.registry import DATASETS
from mmgeom.structures import CollatedBatch

from .pipeline_checks import deterministic, require_deterministic
from .sample_table import SampleTable
from .selection_wrapper import SelectionWrapper


@DATASETS.register_module()
class BatchedDataset(SelectionWrapper):
    """Keep all samples of a dataset in a few tensors and give batches.

    The samples are taken once, when the dataset is built: decoded images or
    rows as one tensor, labels or targets as another. A data loader then gets
    each batch as a whole, with its labels in
    :class:`~mmgeom.structures.BatchSamples`, instead of making and collating
    B samples. Indexing gives single samples as ever, so that samplers, other
    wrappers and tools work unchanged. Forked data loader workers share the
    tensors, but 0 workers are as fast, since little is left to do.

    The pipeline of the dataset may hold only what always gives the same,
    such as resizing and ``PackInputs``. Random transforms belong into
    :class:`~mmgeom.models.BatchedDataPreprocessor`, where they work on a
    batch; :func:`mmgeom.apis.batched_data.batched` moves them in a config.

    This wrapper goes outside of those that select samples, such as
    ``LongTailedDataset``, so that only what they keep is held. Validation
    and test data are better left unwrapped: the host's inferencer looks for
    the pipeline in the config of the dataset.

    Args:
        dataset (dict | BaseDataset): The dataset, or its config; a wrapper
            of datasets is fine too. Inputs of all samples have one shape and
            type, and each has one label, or targets.
        device (str, optional): Where the tensors are held, such as
            ``'cuda'``, which needs ``num_workers=0``. Defaults to None, the
            CPU.
        lazy_init (bool): Do not read the data yet. Defaults to False.
        **misplaced: Refused, with a word on where it belongs.

    Raises:
        ValueError: When the pipeline is random, the samples differ in what
            they hold, or torch does not have the device.
        TypeError: When ``dataset`` is neither a config nor a dataset, its
            samples are not those of the host's ``PackInputs``, or there are
            other arguments.
    """

    def __init__(
        self,
        dataset: dict | BaseDataset,
        device: str | None = None,
        lazy_init: bool = False,
        **misplaced: Any,
    ) -> None:
        if misplaced:
            name = next(iter(misplaced))
            raise TypeError(
                f'BatchedDataset has no {name}, which is a setting of the '
                'dataset inside: write '
                f'train_dataloader.dataset.dataset.{name}.'
            )
        _check_device(device)
        self.device = device
        super().__init__(dataset, lazy_init)

    def select(self) -> np.ndarray:
        """Keep all samples.

        Returns:
            np.ndarray: From 0 to N - 1.
        """
        size = len(self.dataset)
        if size:
            require_deterministic(self.dataset)
            name = f'the pipeline of {type(self.dataset).__name__}'
            with deterministic(name):
                table = SampleTable.read(self.dataset)
            if self.device is not None:
                table = table.to(self.device)
            self._table = table
        return np.arange(size)

    @property
    def CLASSES(self) -> Any:
        """Class names, as the host's datasets offer them."""
        return self.metainfo.get('classes')

    @SelectionWrapper.pipeline.setter
    def pipeline(self, pipeline: Any) -> None:
        self.dataset.pipeline = pipeline
        self._fully_initialized = False  # what is kept is out of date

    @force_full_init
    def __getitem__(self, idx: int) -> dict:
        position = range(len(self))[idx]
        batch = self._batch([position])
        return dict(
            inputs=batch['inputs'][0], data_samples=batch['data_samples'][0]
        )

    @force_full_init
    def __getitems__(self, indices: Sequence[int]) -> CollatedBatch:
        """A batch, as torch's data loader asks for it.

        Args:
            indices (Sequence[int]): Of its samples, from 0 to N - 1.

        Returns:
            CollatedBatch: ``inputs`` of shape ``(B, ...)`` and
            ``data_samples``.
        """
        return self._batch(indices)

    @force_full_init
    def get_gt_labels(self) -> np.ndarray:
        """Labels of all samples, a copy.

        Returns:
            np.ndarray: int64, shape ``(N,)``.
        """
        return labels.dataset_labels(self.dataset)

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Label of a sample, in a list as the host wants it.

        Args:
            idx (int): Index of the sample.

        Returns:
            list[int]: One label.
        """
        return [int(self._table.fields['gt_label'][idx])]

    @force_full_init
    def get_gt_values(self) -> np.ndarray:
        """Regression targets of all samples, a copy.

        Returns:
            np.ndarray: float64, shape ``(N,)`` or ``(N, D)``.
        """
        return labels.dataset_values(self.dataset)

    @force_full_init
    def get_inputs(self) -> np.ndarray:
        """Input rows of all samples of a tabular dataset, a copy.

        Returns:
            np.ndarray: float64, shape ``(N, d)``.
        """
        return labels.dataset_inputs(self.dataset)

    def extra_repr(self) -> list[str]:
        """What is held, for the printed form."""
        if not self._fully_initialized:
            return []
        inputs = self._table.inputs
        return [
            f'Inputs: \t{tuple(inputs.shape)} {inputs.dtype} on '
            f'{inputs.device}'
        ]

    def _batch(self, indices: Sequence[int]) -> CollatedBatch:
        on_device = self._table.inputs.device.type != 'cpu'
        if on_device and get_worker_info() is not None:
            raise RuntimeError(
                f'BatchedDataset holds its samples on {self.device!r}, which '
                'data loader workers cannot use: set num_workers=0 and '
                'persistent_workers=False, or leave out device.'
            )
        return self._table.batch(indices)


def _check_device(device: str | None) -> None:
    if device is None:
        return
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip('.')
        raise ValueError(
            f'BatchedDataset cannot keep its samples on {device!r}, since '
            f'torch says "{reason}": leave device out.'
        ) from error
