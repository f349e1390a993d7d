# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp

import numpy as np

from mmgeom.registry import DATASETS

from .array_dataset import ArrayDataset
from .checks import require_path, require_split
from .download import download_on_main_process

_PAGE = 'https://cs.stanford.edu/~acoates/stl10'


@DATASETS.register_module()
class STL10(ArrayDataset):
    """STL-10, 96x96 RGB images in 10 classes.

    500 training and 800 test images per class (Coates et al., AISTATS 2011);
    the unlabelled images are not used. The folder ``stl10_binary`` of the
    published archive lies in ``data_root``. torchvision reads it and checks
    the MD5 sums of all its image and label files, so all five must be there.

    Args:
        data_root (str): Folder that holds ``stl10_binary``.
        split (str): 'train' or 'test'. Defaults to 'train'.
        download (bool): Whether to download the archive (2.6 GB) when a file
            is not there or not intact, through torchvision. Defaults to
            False.
        metainfo (dict, optional): Meta information. Defaults to None.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`
            except ``ann_file``.

    Raises:
        FileNotFoundError: When the folder or a file is not there.
        RuntimeError: When the download fails.
        ValueError: When ``split`` is not allowed or a file is damaged.
    """

    METAINFO = {
        'classes': (
            'airplane',
            'bird',
            'car',
            'cat',
            'deer',
            'dog',
            'horse',
            'monkey',
            'ship',
            'truck',
        )
    }

    def __init__(
        self,
        data_root: str,
        split: str = 'train',
        download: bool = False,
        metainfo: dict | None = None,
        **kwargs,
    ) -> None:
        require_split('STL10', split, ('train', 'test'))
        self.split = split
        self.download = download
        super().__init__(data_root=data_root, metainfo=metainfo, **kwargs)

    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Load the images of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Images ``(N, 96, 96, 3)``, uint8,
            and labels ``(N,)``.
        """
        from torchvision.datasets import STL10 as Source

        if self.download:
            download_on_main_process(
                lambda: Source(self.data_root, self.split, download=True),
                'STL10',
                self.data_root,
                _PAGE,
            )
        folder = osp.join(self.data_root, Source.base_folder)
        remedy = (
            f'get stl10_binary.tar.gz from {_PAGE} and unpack it in '
            '`data_root`, or set `download=True`'
        )
        for name, _ in Source.train_list + Source.test_list:
            require_path(osp.join(folder, name), remedy)
        try:
            source = Source(self.data_root, self.split)
        except RuntimeError as error:
            raise ValueError(
                f"A file in '{folder}' does not have the MD5 sum of the "
                f'published one: {remedy}.'
            ) from error
        images = source.data.transpose(0, 2, 3, 1)
        return images, source.labels.astype(np.int64)

    def extra_repr(self) -> list[str]:
        """Split and folder, for the printed form."""
        return [f'Split: \t{self.split}', *super().extra_repr()]
