# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import csv
import io
import math
import os.path as osp

import numpy as np
from mmengine.dataset import force_full_init
from mmengine.fileio import get_file_backend, get_text
from mmpretrain.datasets import BaseDataset

from mmgeom.registry import DATASETS

from .checks import require_path, require_samples, require_split


@DATASETS.register_module()
class ImageRegressionDataset(BaseDataset):
    """Images and a number for each, from a csv file with a header.

    The columns, in any order, are those of the files that Yang et al.,
    "Delving into Deep Imbalanced Regression", ICML 2021, publish for
    AgeDB-DIR (``agedb.csv``) and IMDB-WIKI-DIR (``imdb_wiki.csv``)::

        age,path,split
        31,AgeDB/0_MariaCallas_31_f.jpg,train

    Columns of other names are not read. Other targets than ages need
    ``target_column``.

    Args:
        ann_file (str): The csv file, relative to ``data_root``.
        data_root (str): Root of ``ann_file`` and ``data_prefix``. Defaults
            to ''.
        data_prefix (str | dict): Folder the paths of the file are relative
            to, itself relative to ``data_root``. Defaults to ''.
        split (str, optional): Keep the rows whose split is this, e.g.
            'train', 'val' or 'test'. Defaults to None, which means all rows;
            the file then needs no such column.
        target_column (str): Name of the column of targets. Defaults to
            'age'.
        path_column (str): Name of the column of paths. Defaults to 'path'.
        split_column (str): Name of the column of splits. Defaults to
            'split'.
        **kwargs: Other arguments of
            :class:`mmpretrain.datasets.BaseDataset`.

    Raises:
        FileNotFoundError: When the file or the folder is not there.
        ValueError: When a column is missing, a target is not a finite
            number or a path is empty (the message names the line), or the
            file or the split holds no rows.
    """

    def __init__(
        self,
        ann_file: str,
        data_root: str = '',
        data_prefix: str | dict = '',
        split: str | None = None,
        target_column: str = 'age',
        path_column: str = 'path',
        split_column: str = 'split',
        **kwargs,
    ) -> None:
        self.split = split
        self.target_column = target_column
        self.path_column = path_column
        self.split_column = split_column
        super().__init__(
            ann_file=ann_file,
            data_root=osp.expanduser(data_root),
            data_prefix=data_prefix,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        """Read the csv file.

        Returns:
            list[dict]: A dict of ``img_path`` and ``gt_score``, a float, for
            each image of the split.
        """
        require_path(self.ann_file, 'correct `data_root` and `ann_file`')
        if self.img_prefix:
            require_path(
                self.img_prefix, 'correct `data_root` and `data_prefix`'
            )
        reader = self._reader()
        backend = get_file_backend(self.img_prefix, enable_singleton=True)
        data_list, splits = [], set()
        for row in reader:
            if self.split is not None:
                splits.add(row[self.split_column])
                if row[self.split_column] != self.split:
                    continue
            path, target = self._parse(row, reader.line_num)
            path = backend.join_path(self.img_prefix, path)
            data_list.append({'img_path': path, 'gt_score': target})
        if splits:
            names = sorted(str(name) for name in splits)
            require_split(f"'{self.ann_file}'", self.split, names)
        require_samples(len(data_list), f"'{self.ann_file}'")
        return data_list

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Path and target of one image.

        Args:
            idx (int): Index of the image.

        Returns:
            dict: ``img_path``; ``gt_score``, float32 of shape ``(1,)``; and
            ``sample_idx``.
        """
        # A copy, since without serialization it is the item itself.
        info = dict(super().get_data_info(idx))
        info['gt_score'] = np.array([info['gt_score']], dtype=np.float32)
        return info

    @force_full_init
    def get_gt_values(self) -> np.ndarray:
        """Targets of all images.

        Returns:
            np.ndarray: float64, shape ``(N,)``, exactly as in the file.
        """
        info = super().get_data_info
        return np.array([info(i)['gt_score'] for i in range(len(self))])

    def extra_repr(self) -> list[str]:
        """Files and split, for the printed form."""
        return [*super().extra_repr(), f'Split: \t{self.split or "all rows"}']

    def _reader(self) -> csv.DictReader:
        text = get_text(self.ann_file, encoding='utf-8-sig')
        reader = csv.DictReader(io.StringIO(text))
        columns = [self.path_column, self.target_column]
        if self.split is not None:
            columns.append(self.split_column)
        found = reader.fieldnames or []
        missing = [name for name in columns if name not in found]
        if missing:
            raise ValueError(
                f"'{self.ann_file}' has the columns {list(found)}, not "
                f'{missing}: add a header, or set path_column, '
                'target_column and split_column to the names of the file.'
            )
        return reader

    def _parse(self, row: dict, number: int) -> tuple[str, float]:
        path, target = row[self.path_column], row[self.target_column]
        try:
            value = float(target)
        except (TypeError, ValueError):  # no such cell, or no number
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(
                f"'{self.ann_file}' line {number} has {self.target_column} "
                f'{target!r}, which is not a finite number: correct or '
                'remove the line.'
            )
        if not path:
            raise ValueError(
                f"'{self.ann_file}' line {number} has no "
                f'{self.path_column}: correct or remove the line.'
            )
        return path, value
