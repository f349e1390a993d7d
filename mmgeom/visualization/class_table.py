# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A table of single classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mmgeom.distribution import LabelDistribution

from .tables import render_table


def class_table(
    distribution: LabelDistribution,
    groups: Mapping[str, Any] | None = None,
    other_counts: Mapping[str, Sequence[int]] | None = None,
    limit: int = 20,
) -> str:
    """Classes by number of training samples, the most frequent first.

    Args:
        distribution (LabelDistribution): Of the training data.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 samples.
        other_counts (Mapping[str, Sequence[int]], optional): Further
            columns, the K counts of other data by their name. Defaults to
            None.
        limit (int): Show all classes up to this number; of more, the first
            and the last five. Defaults to 20.

    Returns:
        str: Lines without colour codes.
    """
    other_counts = other_counts or {}
    order = distribution.counts.argsort(descending=True, stable=True).tolist()
    group_of = _group_names(distribution, groups)
    names = distribution.class_names or range(len(distribution))

    def row(label: int) -> list:
        same = str(label) == str(names[label])
        name = str(label) if same else f'{label} {names[label]}'
        name = name[:40]
        others = [int(counts[label]) for counts in other_counts.values()]
        count = int(distribution.counts[label])
        return [name, group_of[label], count, *others]

    if len(order) <= limit:
        rows = [row(label) for label in order]
    else:
        gap = ['...'] + [''] * (2 + len(other_counts))
        rows = [row(label) for label in order[:5]] + [gap]
        rows += [row(label) for label in order[-5:]]
    return render_table(['class', 'group', 'training', *other_counts], rows)


def _group_names(
    distribution: LabelDistribution, groups: Mapping[str, Any] | None
) -> list[str]:
    """The group of each class, '-' for a class in none."""
    names = ['-']
    number = torch.zeros(len(distribution), dtype=torch.int64)
    for name, index in distribution.groups(**(groups or {})).items():
        number[index] = len(names)
        names.append(name)
    return [names[i] for i in number.tolist()]
