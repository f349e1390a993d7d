# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Mapping, Sequence

import numpy as np

from mmgeom.registry import DATASETS

from .checks import require_split
from .row_dataset import RowDataset
from .tabular_sources import Table, read_npz, read_sklearn
from .tabular_text import read_csv

SPLITS = ('train', 'val', 'test')


@DATASETS.register_module()
class TabularDataset(RowDataset):
    r"""Rows of numbers with one or several regression targets.

    The rows come from a text file of cells (see
    :func:`~mmgeom.datasets.tabular_text.read_csv`), from a ``.npz`` file
    with the arrays ``x`` of shape ``(N, d)`` and ``y`` of shape ``(N,)`` or
    ``(N, D)``, or from scikit-learn. A missing, infinite or non-numeric cell
    is an error that names its row, and so is a category that is not among
    those given.

    Inputs and targets keep their units: the statistics of the *training*
    rows standardise them inside of the model (``TabularDataPreprocessor``
    and the regression heads, filled by ``StandardizationHook``), so that
    they are stored with the weights and test rows see the same numbers.

    The meta information tells ``input_names``, ``target_names`` and
    ``column_categories`` once the data are read. Items and memory are those
    of :class:`~mmgeom.datasets.row_dataset.RowDataset`.

    With a ``split``, all N rows are shuffled by ``seed``, the first
    :math:`\mathrm{round}(N\,\mathrm{test\_share})` are the test set, the next
    :math:`\mathrm{round}(N\,\mathrm{val\_share})` the validation set and the
    others the training set, each in the order of the file. To hold out rows
    that are balanced over the target, read all rows and wrap them in
    :class:`~mmgeom.datasets.imbalanced_regression_dataset.
    ImbalancedRegressionDataset`.

    Args:
        ann_file (str): Text file or ``.npz`` file, relative to
            ``data_root``. Defaults to '', with ``source``.
        source (str, optional): ``'sklearn:diabetes'`` or
            ``'sklearn:linnerud'``, instead of a file. Defaults to None.
        target (int | str | Sequence[int | str]): Name or index of the
            target column of a text file, or a list of them. Defaults to -1,
            the last column.
        categorical (Sequence[int | str] | Mapping[int | str, Sequence]):
            Columns of a text file to encode one-hot: a list of them, whose
            categories are those of the file, or a dict of the categories of
            each, ``dict(sex=['F', 'M'])``, in the order of the inputs. With
            files of their own for training, validation and test, give the
            dict. Defaults to ().
        ignore_columns (Sequence[int | str]): Columns of a text file to leave
            out. Defaults to ().
        header (bool): Whether the first line of a text file names the
            columns. Defaults to True.
        delimiter (str): What separates the cells of a text file. Defaults to
            ','.
        split (str, optional): ``'train'``, ``'val'`` or ``'test'``.
            Defaults to None, all rows.
        val_share (float): Share of the rows in the validation set, used with
            ``split``. Defaults to 0.1.
        test_share (float): Share of the rows in the test set, used with
            ``split``. Defaults to 0.2.
        seed (int): Of the split; all splits need the same. Defaults to 0.
        **kwargs: Other arguments of
            :class:`~mmgeom.datasets.row_dataset.RowDataset`, such as
            ``data_root`` and ``pipeline``.

    Raises:
        FileNotFoundError: When the file is not there.
        ImportError: When scikit-learn is asked for and not installed.
        ValueError: When the arguments contradict each other, or the rows are
            not as described.
    """

    def __init__(
        self,
        ann_file: str = '',
        source: str | None = None,
        target: int | str | Sequence[int | str] = -1,
        categorical: Sequence[int | str] | Mapping[int | str, Sequence] = (),
        ignore_columns: Sequence[int | str] = (),
        header: bool = True,
        delimiter: str = ',',
        split: str | None = None,
        val_share: float = 0.1,
        test_share: float = 0.2,
        seed: int = 0,
        **kwargs,
    ) -> None:
        if split is not None:
            require_split('TabularDataset', split, SPLITS)
        _check_shares(val_share, test_share)
        self.source = source
        self.csv_options = dict(
            target=target,
            categorical=categorical,
            ignore_columns=ignore_columns,
            header=header,
            delimiter=delimiter,
        )
        self._check_source(ann_file)
        self.split = split
        self.val_share = val_share
        self.test_share = test_share
        self.seed = seed
        super().__init__(ann_file=ann_file, **kwargs)

    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Read the table, name its columns, and take the rows of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Inputs ``(N, d)`` and targets
            ``(N, D)``, float64.
        """
        table = self._read()
        for name in ('input_names', 'target_names', 'column_categories'):
            self._metainfo.setdefault(name, getattr(table, name))
        if self.split is None:
            return table.inputs, table.targets
        rows = self._rows_of_split(len(table.inputs))
        return table.inputs[rows], table.targets[rows]

    def extra_repr(self) -> list[str]:
        """Where the rows come from, for the printed form."""
        body = [f'Source of rows: \t{self.source or self.ann_file}']
        if self.split is not None:
            body.append(f'Split: \t{self.split} (seed {self.seed})')
        return body

    # Reading ----------------------------------------------------------------
    def _check_source(self, ann_file: str) -> None:
        if bool(ann_file) == (self.source is not None):
            raise ValueError(
                'give either ann_file or source to TabularDataset, got '
                f'ann_file={ann_file!r} and source={self.source!r}.'
            )
        if self.source is not None and not self.source.startswith('sklearn:'):
            raise ValueError(
                "source must be 'sklearn:' and the name of a set, got "
                f'{self.source!r}.'
            )
        if self.source is None and not str(ann_file).endswith('.npz'):
            return
        usual = dict(
            target=-1,
            categorical=(),
            ignore_columns=(),
            header=True,
            delimiter=',',
        )
        given = [
            name
            for name, value in self.csv_options.items()
            if value != usual[name] and value not in ([], {})
        ]
        if given:
            raise ValueError(
                f'{given} describe a text file, but the rows come from '
                f'{self.source or ann_file!r}: leave them out.'
            )

    def _read(self) -> Table:
        if self.source is not None:
            return read_sklearn(self.source.partition(':')[2])
        if self.ann_file.endswith('.npz'):
            return read_npz(self.ann_file)
        return read_csv(self.ann_file, **self.csv_options)

    def _rows_of_split(self, size: int) -> np.ndarray:
        order = np.random.default_rng(self.seed).permutation(size)
        test = round(size * self.test_share)
        val = test + round(size * self.val_share)
        parts = dict(test=order[:test], val=order[test:val], train=order[val:])
        if len(parts[self.split]) == 0:
            raise ValueError(
                f'the {self.split} split of {size} rows is empty: change '
                f'val_share={self.val_share} or '
                f'test_share={self.test_share}.'
            )
        return np.sort(parts[self.split])


def _check_shares(val_share: float, test_share: float) -> None:
    if min(val_share, test_share) < 0 or val_share + test_share >= 1:
        raise ValueError(
            'val_share and test_share must not be negative and must leave '
            f'something for training, got {val_share} and {test_share}.'
        )
