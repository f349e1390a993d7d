# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp

import numpy as np

from mmgeom.registry import DATASETS

from .array_dataset import ArrayDataset
from .checks import require_module, require_path, require_split
from .download import download_on_main_process

_PAGE = 'http://ufldl.stanford.edu/housenumbers'


@DATASETS.register_module()
class SVHN(ArrayDataset):
    """Street View House Numbers, cropped 32x32 RGB images of 10 digits.

    73,257 training, 531,131 extra (easier) and 26,032 test images (Netzer et
    al., NIPS workshop on deep learning, 2011); label k is the digit k. The
    classes of 'train' and 'extra' are not balanced. The files
    ``train_32x32.mat``, ``extra_32x32.mat`` and ``test_32x32.mat`` lie in
    ``data_root``; only that of the split is needed. torchvision reads them
    and checks their MD5 sums.

    Args:
        data_root (str): Folder of the files.
        split (str): 'train', 'extra' or 'test'. Defaults to 'train'.
        download (bool): Whether to download a file that is not there or not
            intact, through torchvision. Defaults to False.
        metainfo (dict, optional): Meta information. Defaults to None.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`
            except ``ann_file``.

    Raises:
        FileNotFoundError: When the file is not there.
        ImportError: When scipy is not installed.
        RuntimeError: When the download fails.
        ValueError: When ``split`` is not allowed or the file is damaged.
    """

    METAINFO = {'classes': tuple('0123456789')}

    def __init__(
        self,
        data_root: str,
        split: str = 'train',
        download: bool = False,
        metainfo: dict | None = None,
        **kwargs,
    ) -> None:
        require_split('SVHN', split, ('train', 'extra', 'test'))
        self.split = split
        self.download = download
        super().__init__(data_root=data_root, metainfo=metainfo, **kwargs)

    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Load the images of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Images ``(N, 32, 32, 3)``, uint8,
            and labels ``(N,)``.
        """
        from torchvision.datasets import SVHN as Source

        require_module('scipy.io', 'scipy', 'SVHN')
        if self.download:
            download_on_main_process(
                lambda: Source(self.data_root, self.split, download=True),
                'SVHN',
                self.data_root,
                _PAGE,
            )
        path = osp.join(self.data_root, f'{self.split}_32x32.mat')
        require_path(path, f'get it from {_PAGE} or set `download=True`')
        try:
            source = Source(self.data_root, self.split)
        except RuntimeError as error:
            raise ValueError(
                f"'{path}' does not have the MD5 sum of the published file: "
                f'get it again from {_PAGE} or set `download=True`.'
            ) from error
        # A view: a second copy of 'extra' would take another 1.6 GB.
        images = source.data.transpose(0, 2, 3, 1)
        return images, source.labels.astype(np.int64).reshape(-1)

    def extra_repr(self) -> list[str]:
        """Split and folder, for the printed form."""
        return [f'Split: \t{self.split}', *super().extra_repr()]
