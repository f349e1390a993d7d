# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Rules that divide classes into many-, medium- and few-shot groups."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

RULES = ('count', 'range', 'rank', 'thirds', 'given')


def group_classes(
    counts: Tensor, by: str = 'count', **kwargs: Any
) -> dict[str, Tensor]:
    """Divide classes (or label bins) into shot groups.

    Args:
        counts (Tensor): Training samples of each class, shape ``(K,)``.
        by (str): The rule.

            - ``'count'``: more than ``many`` samples is many-shot, fewer
              than ``few`` is few-shot, the rest medium (defaults 100 and
              20, the convention of ImageNet-LT and CIFAR-LT).
            - ``'range'``: ``ranges``, a dict from a group's name to a
              half-open index range, e.g. ``dict(many=(0, 36),
              medium=(36, 71), few=(71, 100))`` as MiSLAS reports CIFAR-100.
            - ``'rank'``: ``ranges`` as above, of the places in descending
              order of the counts instead of the labels; MiSLAS reports
              ImageNet-LT by ``dict(many=(0, 390), medium=(390, 835),
              few=(835, 1000))``.
            - ``'thirds'``: thirds of the classes by descending count; a
              class without samples is few-shot and takes no place in the
              thirds.
            - ``'given'``: ``groups``, a dict from a group's name to a list
              of class indices; ``rest``, the name of one more group of all
              that no list holds (default none, they are in no group).

            Defaults to ``'count'``.
        **kwargs: Arguments of the rule, as above.

    Returns:
        dict[str, Tensor]: Ascending class indices (int64) of each group.

    Raises:
        ValueError: When the rule is unknown, its arguments are missing or
            surplus, thresholds are reversed, or an index is outside
            ``[0, K)`` or in two groups.
    """
    rules = dict(
        count=_by_count,
        range=_by_range,
        rank=_by_rank,
        thirds=_by_thirds,
        given=_given,
    )
    if by not in rules:
        raise ValueError(
            f'group rule {by!r} is unknown: use one of {list(RULES)}.'
        )
    try:
        groups = rules[by](counts, **kwargs)
    except TypeError as error:
        raise ValueError(
            f'group rule {by!r} does not take the arguments '
            f'{sorted(kwargs)}: {error}.'
        ) from error
    return {name: index.sort().values for name, index in groups.items()}


def _by_count(
    counts: Tensor, many: int = 100, few: int = 20
) -> dict[str, Tensor]:
    if few > many:
        raise ValueError(
            f'shot thresholds must satisfy few <= many, got few={few}, '
            f'many={many}.'
        )
    is_many, is_few = counts > many, counts < few
    return dict(
        many=torch.nonzero(is_many).flatten(),
        medium=torch.nonzero(~is_many & ~is_few).flatten(),
        few=torch.nonzero(is_few & ~is_many).flatten(),
    )


def _by_range(
    counts: Tensor, ranges: Mapping[str, Sequence[int]]
) -> dict[str, Tensor]:
    for name, limits in ranges.items():
        if len(limits) != 2 or limits[0] > limits[1]:
            raise ValueError(
                f'the range of shot group {name!r} must be (start, stop) '
                f'with start <= stop, got {limits}.'
            )
    groups = {name: range(*limits) for name, limits in ranges.items()}
    return _given(counts, groups)


def _by_rank(
    counts: Tensor, ranges: Mapping[str, Sequence[int]]
) -> dict[str, Tensor]:
    order = torch.argsort(counts, descending=True, stable=True)
    places = _by_range(counts, ranges)
    return {name: order[index] for name, index in places.items()}


def _by_thirds(counts: Tensor) -> dict[str, Tensor]:
    order = torch.argsort(counts, descending=True, stable=True)
    present = order[counts[order] > 0]
    many, medium, few = torch.tensor_split(present, 3)
    empty = torch.nonzero(counts == 0).flatten()
    return dict(many=many, medium=medium, few=torch.cat([few, empty]))


def _given(
    counts: Tensor,
    groups: Mapping[str, Sequence[int]],
    rest: str | None = None,
) -> dict[str, Tensor]:
    if not groups:
        raise ValueError('give at least one group of classes, got none.')
    result = {
        name: torch.as_tensor(list(index), dtype=torch.int64)
        for name, index in groups.items()
    }
    joined = torch.cat(list(result.values()))
    outside = (joined < 0) | (joined >= len(counts))
    if outside.any():
        raise ValueError(
            f'class {int(joined[outside][0])} of a shot group lies outside '
            f'[0, {len(counts)}): correct the groups.'
        )
    values, repeats = joined.unique(return_counts=True)
    if (repeats > 1).any():
        raise ValueError(
            f'class {int(values[repeats > 1][0])} is in two shot groups: '
            'name it once.'
        )
    if rest in result:
        raise ValueError(
            f'shot group {rest!r} is both given and the rest: leave one out.'
        )
    if rest is not None:
        listed = torch.isin(torch.arange(len(counts)), joined)
        result[rest] = torch.nonzero(~listed).flatten()
    return result
