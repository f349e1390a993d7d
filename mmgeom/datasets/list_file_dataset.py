# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp
import re

from mmengine.fileio import get_file_backend, get_text
from mmpretrain.datasets import BaseDataset
from mmpretrain.datasets.categories import IMAGENET_CATEGORIES

from mmgeom.registry import DATASETS

from .checks import declared_num_classes, require_path, require_samples

_LINE = re.compile(r'(.*\S)\s+([+-]?\d+)')


@DATASETS.register_module()
class ListFileDataset(BaseDataset):
    """Images and labels from a text file with a line ``path label`` each.

    The label is what follows the last space, so a path may contain spaces.
    Blank lines are skipped.

    Args:
        ann_file (str): The text file, relative to ``data_root``.
        data_root (str): Root of ``ann_file`` and ``data_prefix``. Defaults
            to ''.
        data_prefix (str | dict): Folder the paths of the file are relative
            to, itself relative to ``data_root``. Defaults to ''.
        num_classes (int, optional): Number of classes K. It goes to the
            meta information when no class names are known. Defaults to
            None, the number of class names; without these labels have no
            upper bound.
        metainfo (dict, optional): Meta information. Defaults to None.
        lazy_init (bool): Whether to read the file only when it is needed.
            Defaults to False.
        **kwargs: Other arguments of
            :class:`mmpretrain.datasets.BaseDataset`.

    Raises:
        FileNotFoundError: When the file or the folder is not there.
        ValueError: When a line is malformed, a label lies outside
            ``[0, K)``, the file holds no samples, or ``num_classes`` and
            the class names disagree.
    """

    LIST_REMEDY = 'correct `data_root` and `ann_file`'
    IMAGE_REMEDY = 'correct `data_root` and `data_prefix`'

    def __init__(
        self,
        ann_file: str,
        data_root: str = '',
        data_prefix: str | dict = '',
        num_classes: int | None = None,
        metainfo: dict | None = None,
        lazy_init: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(
            ann_file=ann_file,
            data_root=osp.expanduser(data_root),
            data_prefix=data_prefix,
            metainfo=metainfo,
            # The number of classes is known to lazy datasets too.
            lazy_init=True,
            **kwargs,
        )
        name = type(self).__name__
        self._num_classes = declared_num_classes(
            name, self._metainfo, num_classes
        )
        if 'classes' not in self._metainfo and self._num_classes is not None:
            self._metainfo['num_classes'] = self._num_classes
        if not lazy_init:
            self.full_init()

    def load_data_list(self) -> list[dict]:
        """Read the list file.

        Returns:
            list[dict]: A dict of ``img_path`` and ``gt_label`` per image.
        """
        require_path(self.ann_file, self.LIST_REMEDY)
        if self.img_prefix:
            require_path(self.img_prefix, self.IMAGE_REMEDY)
        lines = get_text(self.ann_file, encoding='utf-8-sig').split('\n')
        backend = get_file_backend(self.img_prefix, enable_singleton=True)
        data_list = []
        for number, line in enumerate(lines, start=1):
            if line.strip():
                path, label = self._parse(line.strip(), number)
                path = backend.join_path(self.img_prefix, path)
                data_list.append({'img_path': path, 'gt_label': label})
        require_samples(len(data_list), f"'{self.ann_file}'")
        return data_list

    def _parse(self, line: str, number: int) -> tuple[str, int]:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(
                f"'{self.ann_file}' line {number} is {line!r}: write "
                '`path label` with an integer label.'
            )
        path, label = match[1], int(match[2])
        num_classes = self._num_classes
        if label < 0 or (num_classes is not None and label >= num_classes):
            bound = 'K' if num_classes is None else num_classes
            raise ValueError(
                f"'{self.ann_file}' line {number} has label {label}, outside "
                f'[0, {bound}): correct the label or the number of classes.'
            )
        return path, label


@DATASETS.register_module()
class ImageNetLT(ListFileDataset):
    """ImageNet-LT, 115,846 training images in 1,000 classes of 1,280 to 5.

    Made by Liu et al., "Large-Scale Long-Tailed Recognition in an Open
    World", CVPR 2019, who publish the lists ``ImageNet_LT_train.txt``,
    ``ImageNet_LT_val.txt`` and ``ImageNet_LT_test.txt``; their paths are
    relative to the folder that holds ILSVRC 2012's ``train`` and ``val``.

    Args:
        ann_file (str): A list of the authors, relative to ``data_root``.
            Defaults to 'ImageNet_LT_train.txt'.
        **kwargs: Other arguments of :class:`ListFileDataset`.
    """

    METAINFO = {'classes': IMAGENET_CATEGORIES}
    LIST_REMEDY = (
        'get the ImageNet-LT lists from '
        'https://liuziwei7.github.io/projects/LongTail.html'
    )
    IMAGE_REMEDY = (
        'get the ILSVRC 2012 images from https://image-net.org and set '
        '`data_root` and `data_prefix` to the folder of train and val'
    )

    def __init__(
        self, ann_file: str = 'ImageNet_LT_train.txt', **kwargs
    ) -> None:
        super().__init__(ann_file=ann_file, **kwargs)


@DATASETS.register_module()
class PlacesLT(ListFileDataset):
    """Places-LT, 62,500 training images in 365 classes of 4,980 to 5.

    Made by Liu et al., "Large-Scale Long-Tailed Recognition in an Open
    World", CVPR 2019, who publish the lists ``Places_LT_train.txt``,
    ``Places_LT_val.txt`` and ``Places_LT_test.txt``; their paths are
    relative to the folder in which the 256x256 images of Places365-Standard
    were unpacked.

    Args:
        ann_file (str): A list of the authors, relative to ``data_root``.
            Defaults to 'Places_LT_train.txt'.
        **kwargs: Other arguments of :class:`ListFileDataset`.
    """

    METAINFO = {'num_classes': 365}
    LIST_REMEDY = (
        'get the Places-LT lists from '
        'https://liuziwei7.github.io/projects/LongTail.html'
    )
    IMAGE_REMEDY = (
        'get the small images of Places365-Standard from '
        'http://places2.csail.mit.edu and set `data_root` and `data_prefix` '
        'to their folder'
    )

    def __init__(
        self, ann_file: str = 'Places_LT_train.txt', **kwargs
    ) -> None:
        super().__init__(ann_file=ann_file, **kwargs)
