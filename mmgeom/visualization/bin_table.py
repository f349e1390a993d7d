# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The table of the label bins of a training set."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmgeom.distribution import LabelDistribution

from .tables import render_table


def bin_table(
    distribution: LabelDistribution,
    groups: Mapping[str, Any] | None = None,
    other_counts: Mapping[str, Sequence[int]] | None = None,
    limit: int = 20,
) -> str:
    """Samples along a regression label.

    Args:
        distribution (LabelDistribution): Of the training data, over bins.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 samples.
        other_counts (Mapping[str, Sequence[int]], optional): Further
            columns, the K counts of other data by their name. Defaults to
            None.
        limit (int): Largest number of rows; neighbouring bins share a row
            where there are more. Defaults to 20.

    Returns:
        str: Lines without colour codes.

    Raises:
        ValueError: When the distribution is over classes.
    """
    if distribution.bins is None:
        raise ValueError(
            f'a table of bins needs bins, got {distribution!r}: use '
            'class_table() for classes.'
        )
    columns = {'training': distribution.counts, **(other_counts or {})}
    names = {
        name: set(index.tolist())
        for name, index in distribution.groups(**(groups or {})).items()
    }
    edges = _rounded(distribution.bins.edges.numpy())
    size = -(-len(distribution) // limit)
    rows = []
    for start in range(0, len(distribution), size):
        stop = min(start + size, len(distribution))
        inside = [
            name
            for name, members in names.items()
            if not members.isdisjoint(range(start, stop))
        ]
        rows.append(
            [
                f'{edges[start]:g} to {edges[stop]:g}',
                stop - start,
                ', '.join(inside) or '-',
                *(int(np.sum(c[start:stop])) for c in _arrays(columns)),
            ]
        )
    return render_table(['label', 'bins', 'groups', *columns], rows)


def _arrays(columns: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    return [np.asarray(counts) for counts in columns.values()]


def _rounded(edges: np.ndarray) -> list[float]:
    """Without the rounding errors of sums, which make 4e-16 of 0."""
    digits = 9 - int(np.floor(np.log10(edges[-1] - edges[0])))
    return [round(edge, digits) for edge in edges.tolist()]
