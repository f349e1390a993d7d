# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Groups of samples by intervals of a number that each has."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bins import as_written, to_double

#: Group name to intervals, each a start and a stop.
Intervals = Mapping[str, Sequence[Sequence[float]]]


def interval_masks(
    values: Tensor | np.ndarray | Sequence, intervals: Intervals
) -> dict[str, Tensor]:
    """Which samples belong to each group of intervals.

    An interval holds its start and not its stop; the one that ends highest
    holds its stop too, like the last bin of
    :class:`mmgeom.binning.LabelBins`. Values in none of them are in no
    group.

    Args:
        values (Tensor | np.ndarray | Sequence): A number for each sample,
            shape ``(N,)``.
        intervals (Intervals): Group name to a list of ``[start, stop]``,
            e.g. ``dict(many=[[.2, .8]], few=[[0, .2], [.8, 1]])``. Ends may
            be infinite.

    Returns:
        dict[str, Tensor]: Group name to a bool mask of shape ``(N,)``.

    Raises:
        ValueError: When there is no interval, one is not as described, or
            two overlap.
    """
    triples = _checked(intervals)
    values = as_written(to_double(values).reshape(-1))
    highest = max(stop for _, stop, _ in triples)
    masks = {
        name: torch.zeros(len(values), dtype=torch.bool) for name in intervals
    }
    for start, stop, name in triples:
        inside = (values >= start) & (values < stop)
        if stop == highest:
            inside |= values == stop
        masks[name] |= inside
    return masks


def _checked(intervals: Intervals) -> list[tuple[float, float, str]]:
    """Start, stop and group of each interval, in ascending order."""
    if not isinstance(intervals, Mapping):
        raise ValueError(
            'intervals must be a dict from a group name to a list of '
            f'[start, stop], got {intervals!r}.'
        )
    triples = sorted(
        (*_ends(name, pair), name)
        for name, pairs in intervals.items()
        for pair in _listed(name, pairs)
    )
    if not triples:
        raise ValueError('give at least one interval, got none.')
    for (_, stop, one), (start, _, other) in pairwise(triples):
        if start < stop:
            raise ValueError(
                f'an interval of group {one!r} ends at {stop:g}, beyond the '
                f'start {start:g} of one of group {other!r}: separate them.'
            )
    return triples


def _listed(name: str, pairs: Any) -> list:
    if not isinstance(pairs, (list, tuple)):
        raise ValueError(
            f'the intervals of group {name!r} must be a list of [start, '
            f'stop], got {pairs!r}.'
        )
    return list(pairs)


def _ends(name: str, pair: Any) -> tuple[float, float]:
    try:
        start, stop = (float(end) for end in pair)
    except (TypeError, ValueError):
        start = stop = float('nan')
    if not start < stop:
        raise ValueError(
            f'an interval of group {name!r} must be [start, stop] with start '
            f'< stop, got {pair!r}.'
        )
    return start, stop
