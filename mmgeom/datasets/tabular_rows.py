# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Encode single rows as the reader of a text file does."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .tabular_cells import encoded_names


class RowEncoder:
    """Turn rows with category names into the numbers that a model takes.

    Args:
        input_names (Sequence[str]): Names of the d inputs, a categorical
            column as one input a category, ``'sex=F'``.
        column_categories (Mapping[str, Sequence[str]]): The categories of
            each categorical column, in the order of the columns. Those that
            are not among the inputs, since someone named these anew, are
            left out. Defaults to {}.
    """

    def __init__(
        self,
        input_names: Sequence[str],
        column_categories: Mapping[str, Sequence[str]] = {},
    ) -> None:
        self.num_inputs = len(input_names)
        self._columns = _columns(list(input_names), column_categories)

    @classmethod
    def from_metainfo(cls, metainfo: Mapping | None) -> 'RowEncoder | None':
        """Make one from the meta information of a ``TabularDataset``.

        Args:
            metainfo (Mapping, optional): With ``input_names``.

        Returns:
            RowEncoder | None: None when it tells no names.
        """
        names = (metainfo or {}).get('input_names')
        if not names:
            return None
        return cls(names, metainfo.get('column_categories') or {})

    @property
    def columns(self) -> list[str]:
        """Names of the input columns of the file, in order."""
        return list(self._columns)

    def __call__(self, row: Any, position: int = 0) -> np.ndarray:
        """Encode one row.

        Args:
            row (Mapping | Sequence): Values by column name, of which
                others than the columns are left out; or a value for each of
                the :attr:`columns`; or the d encoded numbers.
            position (int): Number of the row, for messages. Defaults to 0.

        Returns:
            np.ndarray: float64, shape ``(d,)``.

        Raises:
            ValueError: When a column is missing, a category is not known or
                a value is not a number.
        """
        if isinstance(row, Mapping):
            row = self._in_order(row, position)
        row = list(row.tolist() if hasattr(row, 'tolist') else row)
        text = any(isinstance(value, str) for value in row)
        if len(row) == self.num_inputs and not text:
            return np.asarray(row, dtype=np.float64)
        if len(row) != len(self._columns):
            raise ValueError(
                f'row {position} has {len(row)} values, but there are '
                f'{len(self._columns)} input columns, {self.columns}: give '
                'one for each.'
            )
        parts = [
            _encoded(value, name, categories, position)
            for value, (name, categories) in zip(row, self._columns.items())
        ]
        return np.concatenate(parts)

    def _in_order(self, row: Mapping, position: int) -> list:
        missing = [name for name in self._columns if name not in row]
        if missing:
            raise ValueError(
                f'row {position} has no value of {missing}: it needs the '
                f'columns {self.columns}, and has {list(row)}.'
            )
        return [row[name] for name in self._columns]


def as_table(inputs: Any) -> np.ndarray | None:
    """Numbers as an array.

    Args:
        inputs (Any): Array, tensor, or list of these or of numbers.

    Returns:
        np.ndarray | None: float64; None where they are no table of numbers.
    """
    if isinstance(inputs, list | tuple):
        inputs = [_as_array(row) for row in inputs]
    try:
        return np.asarray(_as_array(inputs), dtype=np.float64)
    except (TypeError, ValueError):
        return None


def as_rows(inputs: Any) -> list:
    """A list of rows, of which one may be given without a list.

    Args:
        inputs (Any): A row, or several: dicts, lists or arrays.

    Returns:
        list: The rows as they are.

    Raises:
        ValueError: When the input is a text.
    """
    if isinstance(inputs, np.ndarray | torch.Tensor):
        inputs = inputs.tolist()
    if isinstance(inputs, str):
        raise ValueError(
            f'the input {inputs!r} is no row: give a dict of values by '
            'column, a list of values, or a list of such rows.'
        )
    if isinstance(inputs, Mapping):
        return [inputs]
    rows = list(inputs)
    several = any(
        isinstance(row, Mapping | list | tuple) or getattr(row, 'ndim', 0)
        for row in rows
    )
    return rows if several else [rows]


def _as_array(values: Any) -> Any:
    return (
        values.detach().cpu() if isinstance(values, torch.Tensor) else values
    )


def _columns(
    names: list[str], categories: Mapping[str, Sequence[str]]
) -> dict[str, list[str] | None]:
    """The columns of the file in order, with their categories."""
    # The first input of each categorical column.
    first = {
        encoded_names(name, known)[0]: name
        for name, known in categories.items()
        if known
    }
    columns: dict[str, list[str] | None] = {}
    index = 0
    while index < len(names):
        name = first.get(names[index])
        known = list(categories[name]) if name is not None else []
        encoded = encoded_names(name, known)
        if encoded and names[index : index + len(encoded)] == encoded:
            columns[name] = known
            index += len(encoded)
        else:
            columns[names[index]] = None
            index += 1
    return columns


def _encoded(
    value: Any, name: str, categories: list[str] | None, position: int
) -> list[float]:
    if categories is None:
        try:
            return [float(value)]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'row {position}, column {name!r} holds {value!r}, which is '
                'not a number: give a number.'
            ) from error
    text = str(value).strip()
    # A table of numbers has made 1.0 of the category '1'.
    if text not in categories and isinstance(value, float):
        text = f'{value:g}'
    if text not in categories:
        raise ValueError(
            f'row {position}, column {name!r} holds {value!r}, which is none '
            f'of the categories of the training data, {categories}: give one '
            'of these.'
        )
    return [float(text == category) for category in categories]
