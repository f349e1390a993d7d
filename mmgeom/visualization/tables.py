# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Plain-text tables for logs and terminals."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mmgeom.distribution import LabelDistribution


def render_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lay out rows under headings; numbers are aligned to the right.

    Args:
        columns (Sequence[str]): Headings.
        rows (Sequence[Sequence[Any]]): Cells of each row; floats are shown
            with two decimals.

    Returns:
        str: Lines without colour codes.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(columns):
        table.add_column(name, justify='left' if position == 0 else 'right')
    for row in rows:
        # As text objects, since rich would read markup in plain strings.
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(table)
    lines = console.file.getvalue().splitlines()
    return '\n'.join(line.rstrip() for line in lines if line.strip())


def distribution_table(
    distribution: LabelDistribution, groups: Mapping[str, Any] | None = None
) -> str:
    """Summary of a training-label distribution.

    Args:
        distribution (LabelDistribution): To describe.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None.

    Returns:
        str: One row overall and one for each shot group.
    """
    kind = 'classes' if distribution.bins is None else 'bins'
    rows = [_count_row('overall', distribution.counts)]
    for name, index in distribution.groups(**(groups or {})).items():
        rows.append(_count_row(name, distribution.counts[index]))
    table = render_table(['', kind, 'samples', 'largest', 'smallest'], rows)
    factor = distribution.imbalance_factor
    return f'{table}\nimbalance factor {factor:.4g}'


def _count_row(name: str, counts: Any) -> list:
    if len(counts) == 0:
        return [name, 0, 0, '-', '-']
    return [
        name,
        len(counts),
        int(counts.sum()),
        int(counts.max()),
        int(counts.min()),
    ]


def _cell(value: Any) -> str:
    return f'{value:.2f}' if isinstance(value, float) else str(value)
