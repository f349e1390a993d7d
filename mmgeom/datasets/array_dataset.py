# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp
from abc import ABC, abstractmethod

import numpy as np
from mmengine.dataset import force_full_init
from mmpretrain.datasets import BaseDataset

from .checks import declared_num_classes, require_samples


class ArrayDataset(BaseDataset, ABC):
    """Base of datasets whose images are held as one array.

    A subclass implements :meth:`load_arrays`. The images stay in that array,
    read-only and outside of the data list; an item of the serialized data
    list is 16 bytes, the image's index and its label. Sub-datasets and
    forked data loader workers share the array. An item is made of the keys
    ``img``, ``gt_label``, ``img_index`` and ``sample_idx``; what else an
    overridden :meth:`filter_data` adds to the data list is not kept.

    ``img`` is a copy, which transforms may change in place. As in
    mmpretrain's readers of CIFAR and MNIST it is uint8, of shape
    ``(H, W, 3)`` in RGB order or ``(H, W)`` for grey images, so the data
    preprocessor needs ``to_rgb=False``.

    Args:
        data_root (str): Folder of the files. Defaults to ''.
        metainfo (dict, optional): Meta information such as ``classes``.
            Defaults to None.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`
            except ``ann_file``.

    Raises:
        TypeError: When an array has the wrong dtype.
        ValueError: When an array has the wrong shape, the arrays differ in
            length or are empty, or a label lies outside ``[0, K)``, with K
            the number of classes in the meta information.
    """

    def __init__(
        self, data_root: str = '', metainfo: dict | None = None, **kwargs
    ) -> None:
        self._images: np.ndarray | None = None
        super().__init__(
            ann_file='',
            data_root=osp.expanduser(data_root),
            metainfo=metainfo,
            **kwargs,
        )

    @abstractmethod
    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Load all images and labels.

        Returns:
            tuple[np.ndarray, np.ndarray]: Images, uint8 of shape
            ``(N, H, W)`` or ``(N, H, W, 3)`` in RGB order, and labels,
            integers of shape ``(N,)``.
        """

    def load_data_list(self) -> list[dict]:
        """Load the arrays, keep the images and list the labels.

        Returns:
            list[dict]: A dict of ``img_index`` and ``gt_label`` per image.
        """
        images, labels = self.load_arrays()
        name = type(self).__name__
        _check_images(name, images)
        num_classes = declared_num_classes(name, self._metainfo)
        _check_labels(name, labels, len(images), num_classes)
        self._images = images.view()
        self._images.flags.writeable = False
        return [
            {'img_index': index, 'gt_label': label}
            for index, label in enumerate(labels.tolist())
        ]

    @property
    @force_full_init
    def images(self) -> np.ndarray:
        """All images as loaded, read-only; see :attr:`img_indices`."""
        return self._images

    @property
    @force_full_init
    def img_indices(self) -> np.ndarray:
        """Index into :attr:`images` of each sample, int64, shape (N,)."""
        return self._records()[:, 0].copy()

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Image and label of one sample.

        Args:
            idx (int): Index of the sample; negative ones count from the end.

        Returns:
            dict: ``img``, a copy; ``gt_label`` and ``img_index``, int; and
            ``sample_idx``, the non-negative index of the sample.
        """
        img_index, gt_label = self._record(idx)
        return {
            'img': self._images[img_index].copy(),
            'gt_label': gt_label,
            'img_index': img_index,
            'sample_idx': idx if idx >= 0 else len(self) + idx,
        }

    @force_full_init
    def get_gt_labels(self) -> np.ndarray:
        """Labels of all samples.

        Returns:
            np.ndarray: int64, shape ``(N,)``.
        """
        return self._records()[:, 1].copy()

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Label of one sample, as a list.

        Args:
            idx (int): Index of the sample.

        Returns:
            list[int]: The label.
        """
        return [self._record(idx)[1]]

    def extra_repr(self) -> list[str]:
        """Where the data lies, for the printed form."""
        return [f'Root of dataset: \t{self.data_root}']

    def _serialize_data(self) -> tuple[np.ndarray, np.ndarray]:
        """Records of one length in the host's two arrays.

        The host's sub-dataset methods slice them like its own pickles.
        """
        records = self._records_of_list()
        self.data_list.clear()
        size = records.dtype.itemsize * records.shape[1]
        address = size * np.arange(1, len(records) + 1, dtype=np.int64)
        return records.reshape(-1).view(np.uint8), address

    def _records_of_list(self) -> np.ndarray:
        pairs = [(d['img_index'], d['gt_label']) for d in self.data_list]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def _records(self) -> np.ndarray:
        """Image index and label of each sample, shape (N, 2)."""
        if self.serialize_data:
            return self.data_bytes.view(np.int64).reshape(-1, 2)
        return self._records_of_list()

    def _record(self, idx: int) -> tuple[int, int]:
        if self.serialize_data:
            img_index, gt_label = self._records()[idx].tolist()
            return img_index, gt_label
        info = self.data_list[idx]
        return info['img_index'], info['gt_label']

    def _copy_without_annotation(
        self, memo: dict | None = None
    ) -> 'ArrayDataset':
        """Let a sub-dataset share the images instead of copying them."""
        memo = {} if memo is None else memo
        memo[id(self._images)] = self._images
        return super()._copy_without_annotation(memo)


def _check_images(name: str, images: np.ndarray) -> None:
    if images.dtype != np.uint8:
        raise TypeError(
            f'{name} images have dtype {images.dtype}: give uint8 values '
            'in 0..255.'
        )
    if images.ndim != 3 and (images.ndim != 4 or images.shape[-1] != 3):
        raise ValueError(
            f'{name} images have shape {images.shape}: give (N, H, W) for '
            'grey or (N, H, W, 3) for RGB images.'
        )
    require_samples(len(images), name)


def _check_labels(
    name: str, labels: np.ndarray, length: int, num_classes: int | None
) -> None:
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(
            f'{name} labels have dtype {labels.dtype}: give integers.'
        )
    if labels.shape != (length,):
        raise ValueError(
            f'{name} has {length} images but labels of shape '
            f'{labels.shape}: give one label per image.'
        )
    wrong = labels < 0
    if num_classes is not None:
        wrong |= labels >= num_classes
    if wrong.any():
        first = int(np.argmax(wrong))
        bound = 'K' if num_classes is None else num_classes
        raise ValueError(
            f'{name} sample {first} has label {int(labels[first])}, outside '
            f'[0, {bound}): correct the label or declare all classes.'
        )
