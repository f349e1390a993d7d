# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A table of inputs and targets, from a text file of cells."""

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np
from mmengine.fileio import get_text

from .checks import require_path, require_samples
from .tabular_cells import (
    Column,
    encoded_names,
    is_number,
    numbers,
    one_hot,
    require_cells,
)
from .tabular_sources import Table


def read_csv(
    path: str,
    target: int | str | Sequence[int | str] = -1,
    categorical: Sequence[int | str] | Mapping[int | str, Sequence] = (),
    ignore_columns: Sequence[int | str] = (),
    header: bool = True,
    delimiter: str = ',',
) -> Table:
    """Read a text file with a row a line.

    Columns are named by the header or by their index, which may be
    negative. Without a header their names are ``'column 0'``,
    ``'column 1'`` and so on. Blank lines are skipped. A categorical column
    becomes one input a category, 1 where the row has it and 0 elsewhere,
    with the categories of the whole file in sorted order, or with those that
    are given.

    Args:
        path (str): The file.
        target (int | str | Sequence[int | str]): Column of the target, or a
            list of columns. Defaults to -1.
        categorical (Sequence[int | str] | Mapping[int | str, Sequence]):
            Input columns to encode one-hot, or a dict of the categories of
            each in the order of the inputs. Defaults to ().
        ignore_columns (Sequence[int | str]): Columns to leave out, such as
            row numbers. Defaults to ().
        header (bool): Whether the first line names the columns. Defaults to
            True.
        delimiter (str): What separates the cells, one character. Defaults to
            ','.

    Returns:
        Table: All rows of the file.

    Raises:
        FileNotFoundError: When there is no such file.
        ValueError: When the lines differ in length, a column does not
            exist or is given two roles, a cell is missing or not a finite
            number, a category is not among those given, or nothing is left.
    """
    require_path(path, 'correct `data_root` and `ann_file`')
    names, lines, columns = _cells(path, header, delimiter)
    targets = [target] if isinstance(target, (int, str)) else list(target)
    roles = {
        'target': _find(path, names, targets),
        'categorical': _find(path, names, categorical),
        'ignored': _find(path, names, ignore_columns),
    }
    _check_roles(path, names, roles)

    stated = (
        dict(zip(roles['categorical'], categorical.values()))
        if isinstance(categorical, Mapping)
        else {}
    )
    table = {
        index: Column(path, name, lines, columns[index])
        for index, name in enumerate(names)
        if index not in roles['ignored']
    }
    require_cells(
        list(table.values()), [names[i] for i in roles['categorical']]
    )

    values = [numbers(table.pop(index), header) for index in roles['target']]
    inputs, input_names, categories = [], [], {}
    for index, column in table.items():
        if index in roles['categorical']:
            known, encoded = one_hot(column, stated.get(index))
            categories[column.name] = known
            inputs.extend(encoded)
            input_names.extend(encoded_names(column.name, known))
        else:
            inputs.append(numbers(column, header))
            input_names.append(column.name)
    return Table(
        np.stack(inputs, axis=1),
        np.stack(values, axis=1),
        input_names,
        [names[index] for index in roles['target']],
        categories,
    )


def _cells(
    path: str, header: bool, delimiter: str
) -> tuple[list[str], list[int], list[tuple[str, ...]]]:
    """Column names, line numbers, and the cells of each column."""
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(
            'the delimiter of a csv file must be one character, got '
            f'{delimiter!r}.'
        )
    try:
        text = get_text(path, encoding='utf-8-sig')
    except UnicodeDecodeError as error:
        raise ValueError(
            f"'{path}' is not a text file ({error}): save the table as csv "
            'in UTF-8.'
        ) from error
    reader = csv.reader(
        io.StringIO(text, newline=''),
        delimiter=delimiter,
        skipinitialspace=True,
    )
    rows, lines = [], []
    for row in reader:
        if any(cell.strip() for cell in row):
            rows.append([cell.strip() for cell in row])
            lines.append(reader.line_num)
    names = _column_names(path, rows, header)
    if header:
        rows, lines = rows[1:], lines[1:]
    require_samples(len(rows), f"'{path}'")
    for row, line in zip(rows, lines):
        if len(row) != len(names):
            raise ValueError(
                f"'{path}' line {line} has {len(row)} cells instead of "
                f'{len(names)}: correct the line or the delimiter '
                f'{delimiter!r}.'
            )
    return names, lines, list(zip(*rows))


def _column_names(
    path: str, rows: Sequence[Sequence[str]], header: bool
) -> list[str]:
    require_samples(len(rows), f"'{path}'")
    if not header:
        return [f'column {index}' for index in range(len(rows[0]))]
    names = list(rows[0])
    if all(is_number(name) for name in names):
        raise ValueError(
            f"the first line of '{path}' holds numbers only, {names[:4]}, "
            'so it names no columns: set header=False.'
        )
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"two columns of '{path}' are named {repeated[0]!r}: give each "
            'a name of its own.'
        )
    return names


def _find(
    path: str, names: Sequence[str], wanted: Sequence[int | str]
) -> list[int]:
    """Non-negative indices of columns given by name or index."""
    if isinstance(wanted, (int, str)):
        raise TypeError(
            'categorical and ignore_columns are lists of columns, got '
            f'{wanted!r}: write [{wanted!r}].'
        )
    found = []
    for column in wanted:
        if column in names:
            found.append(names.index(column))
        elif isinstance(column, int) and -len(names) <= column < len(names):
            found.append(range(len(names))[column])
        else:
            raise ValueError(
                f"'{path}' has no column {column!r}: its columns are "
                f'{list(names)}{_hint(names)}.'
            )
    return found


def _hint(names: Sequence[str]) -> str:
    """What to try when a file was read as a single column."""
    if len(names) > 1:
        return ''
    found = [mark for mark in ',;\t|' if mark in names[0]]
    return f'; its delimiter may be {found[0]!r}' if found else ''


def _check_roles(
    path: str, names: Sequence[str], roles: Mapping[str, Sequence[int]]
) -> None:
    taken: dict[int, str] = {}
    for role, columns in roles.items():
        for index in columns:
            if index in taken:
                raise ValueError(
                    f"column {names[index]!r} of '{path}' is named as "
                    f'{taken[index]} and as {role}: give it one role.'
                )
            taken[index] = role
    if not roles['target']:
        raise ValueError(
            f"no target column of '{path}' is given: set `target`."
        )
    if len(roles['target']) + len(roles['ignored']) == len(names):
        raise ValueError(
            f"no column of '{path}' is left as input: its {len(names)} "
            f'columns are {list(names)}.'
        )
