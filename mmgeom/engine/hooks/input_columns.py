# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Whether evaluation data have the input columns of the training data."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class InputColumns(NamedTuple):
    """What a dataset of rows tells of its inputs.

    Attributes:
        names (list[str]): Names of the d inputs.
        categories (dict[str, list[str]]): Categories of each column that is
            encoded one-hot.
        source (str): File of the rows, or '' where there is none.
    """

    names: list[str]
    categories: dict[str, list[str]]
    source: str = ''

    @classmethod
    def from_metainfo(
        cls, metainfo: Mapping | None, source: str = ''
    ) -> 'InputColumns | None':
        """Read them from meta information.

        Args:
            metainfo (Mapping, optional): Of a dataset or a checkpoint.
            source (str): File of the rows. Defaults to ''.

        Returns:
            InputColumns | None: None when it tells no ``input_names``.
        """
        if not (metainfo or {}).get('input_names'):
            return None
        categories = metainfo.get('column_categories') or {}
        return cls(
            list(metainfo['input_names']),
            {name: list(known) for name, known in categories.items()},
            source,
        )


def dataset_columns(dataset: Any) -> list[InputColumns]:
    """Input columns of a dataset, or of each that a wrapper holds.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        list[InputColumns]: Empty when nothing tells any.
    """
    inner = list(getattr(dataset, 'datasets', None) or [])
    if getattr(dataset, 'dataset', None) is not None:
        inner.append(dataset.dataset)
    columns = [found for part in inner for found in dataset_columns(part)]
    if columns:
        return columns
    found = InputColumns.from_metainfo(
        getattr(dataset, 'metainfo', None), getattr(dataset, 'ann_file', '')
    )
    return [found] if found else []


def check_columns(dataset: Any, mode: str, trained: InputColumns) -> None:
    """Compare the input columns of data with those of the training data.

    Inputs are known by their place only, so that a missing, swapped or
    additional one gives wrong predictions in silence.

    Args:
        dataset (Any): The data. Without names it passes.
        mode (str): ``'train'``, ``'val'`` or ``'test'``, for the message.
        trained (InputColumns): Of the training data.

    Raises:
        ValueError: When names, categories or their order differ.
    """
    for found in dataset_columns(dataset):
        problem = _difference(found, trained)
        if problem:
            source = f" '{found.source}'" if found.source else ''
            raise ValueError(
                f'the {mode} data{source} do not have the input columns '
                f'that the model is trained with: {problem}.'
            )


def _difference(found: InputColumns, trained: InputColumns) -> str:
    """The first difference and what to do about it, '' if there is none."""
    for name, known in trained.categories.items():
        other = found.categories.get(name, known)
        if other != known:
            return (
                f'column {name!r} has the categories {other} instead of '
                f'{known}; give every dataset '
                f'categorical={{{name!r}: [...]}} with the same list of all '
                'categories'
            )
    pairs = list(zip(found.names, trained.names))
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if first is not None:
        problem = (
            f'input {first} is {found.names[first]!r} instead of '
            f'{trained.names[first]!r}'
        )
    elif len(found.names) != len(trained.names):
        longer = max(found.names, trained.names, key=len)
        word = 'missing' if longer is trained.names else 'additional'
        problem = f'input {len(pairs)}, {longer[len(pairs)]!r}, is {word}'
    else:
        return ''
    return (
        f'{problem}; give all files the same columns in the same order, with '
        'the same target, categorical and ignore_columns, or '
        'metainfo=dict(input_names=[...]) to all datasets if only the names '
        'differ'
    )
