# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import gzip
import math
import os.path as osp
import zlib

import numpy as np
from mmpretrain.datasets.categories import FASHIONMNIST_CATEGORITES

from mmgeom.registry import DATASETS

from .array_dataset import ArrayDataset
from .checks import require_split
from .download import download_on_main_process

_PAGE = 'https://github.com/zalandoresearch/fashion-mnist'
_PREFIX = {'train': 'train', 'test': 't10k'}


@DATASETS.register_module()
class FashionMNIST(ArrayDataset):
    """Fashion-MNIST, 28x28 grey images in 10 classes.

    6,000 training and 1,000 test images per class (Xiao et al., 2017,
    arXiv:1708.07747). The split is chosen by ``split`` alone; mmpretrain's
    reader of the same name chooses by ``test_mode``. The four idx files may
    be plain or gzipped (``.gz``), and lie in ``data_root`` itself or in
    ``data_root/FashionMNIST/raw``, where torchvision puts them.

    Args:
        data_root (str): Folder of the files.
        split (str): 'train' or 'test'. Defaults to 'train'.
        download (bool): Whether to download files that are not there,
            through torchvision. Defaults to False.
        metainfo (dict, optional): Meta information. Defaults to None.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`
            except ``ann_file``.

    Raises:
        FileNotFoundError: When a file is not there.
        RuntimeError: When the download fails.
        ValueError: When ``split`` is not allowed or a file is damaged.
    """

    METAINFO = {'classes': FASHIONMNIST_CATEGORITES}

    def __init__(
        self,
        data_root: str,
        split: str = 'train',
        download: bool = False,
        metainfo: dict | None = None,
        **kwargs,
    ) -> None:
        require_split('FashionMNIST', split, tuple(_PREFIX))
        self.split = split
        self.download = download
        super().__init__(data_root=data_root, metainfo=metainfo, **kwargs)

    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Load the images of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Images ``(N, 28, 28)``, uint8, and
            labels ``(N,)``.
        """
        if self.download:
            download_on_main_process(
                self._fetch, 'FashionMNIST', self.data_root, _PAGE
            )
        paths = []
        for name in self._file_names():
            path = self._find(name)
            if path is None:
                raise FileNotFoundError(
                    f"'{osp.join(self.data_root, name)}' does not exist, "
                    'neither as .gz nor below FashionMNIST/raw: get it from '
                    f'{_PAGE} or set `download=True`.'
                )
            paths.append(path)
        images = _read_idx(paths[0], num_dims=3)
        labels = _read_idx(paths[1], num_dims=1)
        return images, labels.astype(np.int64)

    def extra_repr(self) -> list[str]:
        """Split and folder, for the printed form."""
        return [f'Split: \t{self.split}', *super().extra_repr()]

    def _file_names(self) -> tuple[str, str]:
        prefix = _PREFIX[self.split]
        return f'{prefix}-images-idx3-ubyte', f'{prefix}-labels-idx1-ubyte'

    def _find(self, name: str) -> str | None:
        raw = osp.join(self.data_root, 'FashionMNIST', 'raw')
        for folder in (self.data_root, raw):
            for suffix in ('', '.gz'):
                path = osp.join(folder, name + suffix)
                if osp.isfile(path):
                    return path
        return None

    def _fetch(self) -> None:
        if any(self._find(name) is None for name in self._file_names()):
            # torchvision is slow to import and seldom needed here.
            from torchvision.datasets import FashionMNIST as Source

            Source(self.data_root, train=self.split == 'train', download=True)


def _read_idx(path: str, num_dims: int) -> np.ndarray:
    """Read a file of unsigned bytes in the idx format.

    The header is two zero bytes, the type (8), the number of dimensions and
    each length as a big-endian 32-bit integer; the values follow.
    """
    opened = gzip.open if path.endswith('.gz') else open
    try:
        with opened(path, 'rb') as file:
            content = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"'{path}' is not an intact gzip file ({error}): get it again "
            f'from {_PAGE}.'
        ) from error
    start = 4 + 4 * num_dims
    lengths = np.frombuffer(content[4:start].ljust(start - 4), dtype='>u4')
    shape = tuple(lengths.tolist())
    magic = bytes((0, 0, 8, num_dims))
    if content[:4] != magic or len(content) - start != math.prod(shape):
        raise ValueError(
            f"'{path}' is not an intact idx file of bytes with {num_dims} "
            f'dimension(s): get it again from {_PAGE}.'
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
