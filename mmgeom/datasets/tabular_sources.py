# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A table of inputs and targets, from an npz file or scikit-learn."""

import io
import zipfile
from typing import NamedTuple

import numpy as np
from mmengine.fileio import get

from .checks import require_module, require_path, require_samples

#: scikit-learn's regression sets that need no download.
SKLEARN_LOADERS = {
    'diabetes': ('load_diabetes', dict(scaled=False)),
    'linnerud': ('load_linnerud', {}),
}


class Table(NamedTuple):
    """Rows of numbers, inputs and targets apart.

    Attributes:
        inputs (np.ndarray): Shape ``(N, d)``, float64, finite.
        targets (np.ndarray): Shape ``(N, D)``, float64, finite.
        input_names (list[str]): Names of the d input columns.
        target_names (list[str]): Names of the D target columns.
        column_categories (dict[str, list[str]]): The categories of each
            column that was one-hot encoded, in the order of its inputs.
    """

    inputs: np.ndarray
    targets: np.ndarray
    input_names: list[str]
    target_names: list[str]
    column_categories: dict[str, list[str]]


def read_npz(path: str) -> Table:
    """Read the arrays ``x`` and ``y`` of an npz file.

    Args:
        path (str): A file with ``x`` of shape ``(N, d)`` and ``y`` of shape
            ``(N,)`` or ``(N, D)``.

    Returns:
        Table: With the column names ``'x0'``, ... and ``'y0'``, ...

    Raises:
        FileNotFoundError: When there is no such file.
        ValueError: When the file or its arrays are not as described.
    """
    require_path(path, 'correct `data_root` and `ann_file`')
    try:
        with np.load(io.BytesIO(get(path)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise ValueError(
            f"'{path}' cannot be read as an npz file of numbers ({error}): "
            'write it with `numpy.savez(path, x=inputs, y=targets)`.'
        ) from error
    if not {'x', 'y'} <= set(arrays):
        raise ValueError(
            f"'{path}' holds the arrays {sorted(arrays)}: give `x`, the "
            'inputs, and `y`, the targets.'
        )
    return _table_of_arrays(f"'{path}'", arrays['x'], arrays['y'])


def read_sklearn(name: str) -> Table:
    """Read a regression set that comes with scikit-learn.

    Args:
        name (str): ``'diabetes'`` (442 rows, 10 inputs in their original
            units, one target) or ``'linnerud'`` (20 rows, 3 inputs, 3
            targets).

    Returns:
        Table: All rows.

    Raises:
        ImportError: When scikit-learn is not installed.
        ValueError: When there is no such set.
    """
    if name not in SKLEARN_LOADERS:
        raise ValueError(
            f'scikit-learn comes with no regression set {name!r}: use one '
            f'of {sorted(SKLEARN_LOADERS)}.'
        )
    module = require_module(
        'sklearn.datasets', 'scikit-learn', f'the set {name!r}'
    )
    function, arguments = SKLEARN_LOADERS[name]
    data = getattr(module, function)(**arguments)
    table = _table_of_arrays(name, data.data, data.target)
    targets = data.get('target_names', table.target_names)
    return table._replace(
        input_names=[str(column) for column in data.feature_names],
        target_names=[str(column) for column in targets],
    )


def _table_of_arrays(source: str, inputs: object, targets: object) -> Table:
    try:
        inputs = np.asarray(inputs, dtype=np.float64)
        targets = np.asarray(targets, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'the arrays of {source} are not numbers ({error}): give real '
            'numbers.'
        ) from error
    if targets.ndim == 1:
        targets = targets[:, None]
    if (
        inputs.ndim != 2
        or targets.ndim != 2
        or len(inputs) != len(targets)
        or 0 in (inputs.shape[1], targets.shape[1])
    ):
        raise ValueError(
            f'{source} holds inputs of shape {inputs.shape} and targets of '
            f'shape {targets.shape}: give (N, d) and (N,) or (N, D).'
        )
    require_samples(len(inputs), source)
    for word, values in (('input', inputs), ('target', targets)):
        bad = first_not_finite(values)
        if bad is not None:
            row, column = divmod(bad, values.shape[1])
            raise ValueError(
                f'{source} row {row}, {word} column {column} holds '
                f'{values[row, column]}, which is not a finite number: fill '
                'or remove such rows.'
            )
    return Table(
        inputs,
        targets,
        [f'x{index}' for index in range(inputs.shape[1])],
        [f'y{index}' for index in range(targets.shape[1])],
        {},
    )


def first_not_finite(values: np.ndarray) -> int | None:
    """Find the first value that float32 cannot hold.

    Args:
        values (np.ndarray): Any shape.

    Returns:
        int | None: Its index into the flat array, if there is one.
    """
    with np.errstate(over='ignore'):
        finite = np.isfinite(values.astype(np.float32)).reshape(-1)
    return None if finite.all() else int(np.argmin(finite))
