# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from mmgeom.registry import DATASETS


class SelectionWrapper(ABC):
    """Base of wrappers that keep some samples of another dataset.

    A subclass implements :meth:`select`. All that the host expects of a
    wrapper is here.

    Args:
        dataset (dict | BaseDataset): The dataset, or its config; a wrapper
            of datasets is fine too.
        lazy_init (bool): Do not read the data yet. Defaults to False.

    Raises:
        TypeError: When ``dataset`` is neither a config nor a dataset.
    """

    def __init__(
        self, dataset: dict | BaseDataset, lazy_init: bool = False
    ) -> None:
        self.dataset = _built(type(self).__name__, dataset)
        self._fully_initialized = False
        if not lazy_init:
            self.full_init()

    @abstractmethod
    def select(self) -> np.ndarray:
        """Choose the samples; the wrapped dataset has been read.

        Returns:
            np.ndarray: int64 indices into the wrapped dataset.
        """

    @property
    def metainfo(self) -> dict:
        """Meta information of the wrapped dataset, a copy."""
        return copy.deepcopy(self.dataset.metainfo)

    @property
    def pipeline(self) -> Any:
        """The transforms, which belong to the wrapped dataset."""
        return self.dataset.pipeline

    @pipeline.setter
    def pipeline(self, pipeline: Any) -> None:
        self.dataset.pipeline = pipeline

    def full_init(self) -> None:
        """Read the wrapped dataset and select."""
        if self._fully_initialized:
            return
        self.dataset.full_init()
        indices = self.select()
        if len(indices) == 0:
            raise ValueError(
                f'{type(self).__name__} keeps no sample of '
                f'{type(self.dataset).__name__}: change its arguments.'
            )
        self._indices = indices
        self._fully_initialized = True

    @force_full_init
    def __len__(self) -> int:
        return len(self._indices)

    @force_full_init
    def __getitem__(self, idx: int) -> Any:
        data = self.dataset[self._get_ori_dataset_idx(idx)]
        if isinstance(data, dict):
            position = range(len(self))[idx]
            if 'sample_idx' in data:
                data['sample_idx'] = position
            sample = data.get('data_samples')  # of the host's PackInputs
            if sample is not None and 'sample_idx' in sample:
                sample.set_metainfo(dict(sample_idx=position))
        return data

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Annotation of a sample, a copy.

        Args:
            idx (int): Index into this dataset.

        Returns:
            dict: As of the wrapped dataset, with ``sample_idx`` of this one.
        """
        inner = self._get_ori_dataset_idx(idx)
        info = copy.copy(self.dataset.get_data_info(inner))
        info['sample_idx'] = range(len(self))[idx]
        return info

    @property
    @force_full_init
    def indices(self) -> list[int]:
        """Index into the wrapped dataset of each sample."""
        return self._indices.tolist()

    @force_full_init
    def _get_ori_dataset_idx(self, idx: int) -> int:
        """Index into the wrapped dataset, under the host's name."""
        return int(self._indices[idx])

    def extra_repr(self) -> list[str]:
        """What was selected, for the printed form.

        Returns:
            list[str]: A line each.
        """
        return []

    def __repr__(self) -> str:
        size = len(self._indices) if self._fully_initialized else 'unread'
        head = (
            f'{type(self).__name__}({size} samples of '
            f'{type(self.dataset).__name__})'
        )
        return '\n'.join(
            [head, *(f'    {line}' for line in self.extra_repr())]
        )


def _built(wrapper: str, dataset: Any) -> Any:
    """A dataset from a config or an instance, its own or a wrapper's."""
    if isinstance(dataset, dict):
        return DATASETS.build(dataset)
    if not (hasattr(dataset, 'full_init') and hasattr(dataset, 'metainfo')):
        raise TypeError(
            f'{wrapper} wraps a dataset config or a dataset of mmengine, got '
            f'{type(dataset).__name__}.'
        )
    return dataset
