# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Cells of a text file as numbers and categories."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .tabular_sources import first_not_finite

_DECIMAL_COMMA = re.compile(r'[-+]?\d[\d.]*,\d+')


class Column(NamedTuple):
    """One column of a text file.

    Attributes:
        path (str): The file.
        name (str): Name of the column.
        lines (Sequence[int]): Line number of each cell.
        cells (Sequence[str]): The cells, stripped.
    """

    path: str
    name: str
    lines: Sequence[int]
    cells: Sequence[str]

    def where(self, row: int) -> str:
        """The place of a cell, for messages.

        Args:
            row (int): Index of the cell.

        Returns:
            str: File, line and column.
        """
        return f"'{self.path}' line {self.lines[row]}, column {self.name!r}"


def require_cells(
    columns: Sequence[Column], categorical: Sequence[str] = ()
) -> None:
    """Check that no cell is empty.

    Args:
        columns (Sequence[Column]): Columns of one file.
        categorical (Sequence[str]): Names of those that hold categories.
            Defaults to ().

    Raises:
        ValueError: When one is; tells how many are.
    """
    missing = [column for column in columns if '' in column.cells]
    if not missing:
        return
    first = min(missing, key=lambda column: column.cells.index(''))
    count = sum(column.cells.count('') for column in missing)
    category = any(column.name in categorical for column in missing)
    raise ValueError(
        f'{first.where(first.cells.index(""))} is missing (cells that are, '
        f'in all: {count}, in columns: {len(missing)}): fill them in'
        f'{", with a category of their own if they are one" * category}, '
        'remove the rows, or name the columns in `ignore_columns`.'
    )


def numbers(column: Column, header: bool = True) -> np.ndarray:
    """A column as numbers.

    Args:
        column (Column): The column.
        header (bool): Whether the file was read as one with a header, for
            the message. Defaults to True.

    Returns:
        np.ndarray: float64, shape ``(N,)``, finite.

    Raises:
        ValueError: When a cell is not a finite number.
    """
    cells = column.cells
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError as error:
        bad = next(i for i, cell in enumerate(cells) if not is_number(cell))
        remedy = (
            'correct the cell, name the column in `categorical` or '
            '`ignore_columns`'
        )
        if _DECIMAL_COMMA.fullmatch(cells[bad]):
            remedy = 'write decimals with a point instead of a comma'
        elif bad == 0 and not header:
            remedy += ' or set header=True'
        raise ValueError(
            f'{column.where(bad)} holds {cells[bad]!r}, which is not a '
            f'number: {remedy}.'
        ) from error
    bad = first_not_finite(values)
    if bad is not None:
        raise ValueError(
            f'{column.where(bad)} holds {cells[bad]!r}, which is not a '
            'finite number: fill or remove such rows.'
        )
    return values


def one_hot(
    column: Column, categories: Sequence[str | int] | None = None
) -> tuple[list[str], np.ndarray]:
    """A column as one input a category.

    Args:
        column (Column): The column, without empty cells.
        categories (Sequence[str | int], optional): The categories in the
            order of the inputs. Defaults to None: those of the column,
            sorted.

    Returns:
        tuple[list[str], np.ndarray]: The K categories, and 1 where a row has
        the category and 0 elsewhere, float64, shape ``(K, N)``.

    Raises:
        ValueError: When a cell holds none of ``categories``, or these are
            none or repeated.
    """
    if categories is None:
        known = sorted(set(column.cells))
    else:
        known = _stated(column, categories)
    positions = {category: index for index, category in enumerate(known)}
    index = np.array([positions.get(cell, -1) for cell in column.cells])
    if (index < 0).any():
        bad = int(np.argmin(index))
        raise ValueError(
            f'{column.where(bad)} holds {column.cells[bad]!r}, which is none '
            f'of the categories {known}: correct the cell or name it in '
            '`categorical`.'
        )
    encoded = np.arange(len(known))[:, None] == index
    return known, encoded.astype(np.float64)


def encoded_names(name: str, categories: Sequence[str]) -> list[str]:
    """Names of the inputs of a categorical column.

    Args:
        name (str): Name of the column.
        categories (Sequence[str]): Its categories.

    Returns:
        list[str]: Such as ``'sex=F'``.
    """
    return [f'{name}={category}' for category in categories]


def is_number(cell: str) -> bool:
    """Whether a cell can be read as a number, perhaps not a finite one.

    Args:
        cell (str): The cell.

    Returns:
        bool: Also True for ``'nan'``.
    """
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _stated(column: Column, categories: Sequence[str | int]) -> list[str]:
    if isinstance(categories, str) or not isinstance(categories, Sequence):
        raise TypeError(
            f'the categories of column {column.name!r} must be a list, got '
            f'{categories!r}: write categorical='
            f"{{{column.name!r}: ['a', 'b']}}."
        )
    known = [str(category).strip() for category in categories]
    if not known or len(set(known)) < len(known):
        raise ValueError(
            f'the categories of column {column.name!r} must be one or more, '
            f'each named once, got {known}.'
        )
    return known
