# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The picture of a training-label distribution."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from mmgeom.distribution import LabelDistribution

#: Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = ('#0072B2', '#E69F00', '#D55E00', '#009E73', '#CC79A7', '#56B4E9')
OTHER_COLOR = '#999999'
#: Up to this many classes are named below the axis.
MAX_NAMED = 30
#: A bar of one sample must still be seen on a log axis.
LOWEST = 0.6


def draw_distribution(
    distribution: LabelDistribution,
    groups: Mapping[str, Any] | None = None,
    test_counts: Sequence[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the counts, coloured by shot group, on a log axis.

    Classes are drawn by rank, the most frequent first, and named when there
    are at most 30. Bins of a regression label are drawn along the label.

    Args:
        distribution (LabelDistribution): Of the training data.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 samples.
        test_counts (Sequence[int], optional): Test samples of each class or
            bin, shape ``(K,)``, drawn as a line in the order of the bars.
            Defaults to None.
        title (str, optional): Defaults to None, which means
            'Training labels'.

    Returns:
        Figure: Not tied to pyplot; save it with ``figure.savefig(path)``.

    Raises:
        ValueError: When the number of test counts is not K, or the group
            rule does not fit.
    """
    counts = distribution.counts.numpy()
    order, edges = _layout(distribution)
    figure = Figure(figsize=(8, 4.5), dpi=150, layout='constrained')
    axes = figure.add_subplot()
    handles = _draw_groups(axes, distribution, groups, order, edges)
    shown = [counts]
    if test_counts is not None:
        shown.append(_checked_test_counts(test_counts, len(counts)))
        handles.append(_draw_test_counts(axes, shown[-1][order], edges))
    _label_axes(axes, distribution, order, edges)
    axes.set_ylim(LOWEST, 5 * max(max(c.max() for c in shown), 1))
    axes.set_title(title or 'Training labels', loc='left', pad=20)
    axes.text(
        0,
        1.02,
        _summary(distribution),
        transform=axes.transAxes,
        size='small',
        color='0.35',
    )
    axes.legend(handles=handles, frameon=False, ncols=2, loc='upper right')
    return figure


def _layout(distribution: LabelDistribution) -> tuple[np.ndarray, np.ndarray]:
    """Which class each bar shows, and the edges between the bars."""
    size = len(distribution)
    if distribution.bins is not None:
        return np.arange(size), distribution.bins.edges.numpy()
    order = np.argsort(-distribution.counts.numpy(), kind='stable')
    return order, np.arange(size + 1) + 0.5


def _draw_groups(
    axes: Axes,
    distribution: LabelDistribution,
    groups: Mapping[str, Any] | None,
    order: np.ndarray,
    edges: np.ndarray,
) -> list[Patch]:
    """Draw the bars of each group and return the legend's entries."""
    counts = distribution.counts.numpy()[order]
    members = {
        name: np.isin(order, index.numpy())
        for name, index in distribution.groups(**(groups or {})).items()
    }
    colors = [COLORS[i % len(COLORS)] for i in range(len(members))]
    rest = ~np.any(list(members.values()), axis=0)
    if rest.any():
        members['in no group'] = rest
        colors.append(OTHER_COLOR)
    axes.set_yscale('log')
    handles = []
    for color, (name, inside) in zip(colors, members.items(), strict=True):
        _draw_bars(axes, np.where(inside, counts, 0), edges, color)
        amount = _amount(distribution, int(inside.sum()))
        handles.append(Patch(color=color, label=f'{name} ({amount})'))
    return handles


def _draw_bars(
    axes: Axes, counts: np.ndarray, edges: np.ndarray, color: str
) -> None:
    """Bars while one can see them apart, one filled outline beyond."""
    filled = counts > 0
    if len(counts) <= 100:
        width = np.diff(edges) * (0.85 if len(counts) <= MAX_NAMED else 1)
        axes.bar(
            ((edges[:-1] + edges[1:]) / 2)[filled],
            counts[filled] - LOWEST,
            width[filled],
            bottom=LOWEST,
            color=color,
        )
        return
    heights = np.where(filled, counts, LOWEST)
    axes.stairs(heights, edges, baseline=LOWEST, fill=True, color=color)


def _draw_test_counts(
    axes: Axes, counts: np.ndarray, edges: np.ndarray
) -> Patch:
    heights = np.where(counts > 0, counts, np.nan)
    return axes.stairs(
        heights,
        edges,
        baseline=None,
        color='black',
        linewidth=1.2,
        label=f'test ({counts.sum():,} samples)',
    )


def _label_axes(
    axes: Axes,
    distribution: LabelDistribution,
    order: np.ndarray,
    edges: np.ndarray,
) -> None:
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylabel('samples (log scale)')
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f'{y:,.15g}'))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis='y', color='0.9', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    if distribution.bins is not None:
        axes.set_xlabel('label')
        return
    names = distribution.class_names
    if len(order) > MAX_NAMED:
        axes.set_xlabel('rank of the class by number of training samples')
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        return
    labels = [str(i) if names is None else _short(names[i]) for i in order]
    axes.set_xlabel('class, by number of training samples')
    upright = max(len(label) for label in labels) * len(order) <= 100
    axes.set_xticks(
        np.arange(len(order)) + 1,
        labels,
        rotation=0 if upright else 45,
        ha='center' if upright else 'right',
        rotation_mode='default' if upright else 'anchor',
        size='small',
    )
    axes.tick_params(axis='x', length=0)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f'{name[:18]}…'


def _amount(distribution: LabelDistribution, number: int) -> str:
    one, many = (
        ('class', 'classes') if distribution.bins is None else ('bin', 'bins')
    )
    return f'{number:,} {one if number == 1 else many}'


def _summary(distribution: LabelDistribution) -> str:
    text = (
        f'{distribution.num_samples:,} samples, '
        f'{_amount(distribution, len(distribution))}, imbalance factor '
        f'{distribution.imbalance_factor:.4g}'
    )
    empty = len(distribution.empty)
    return f'{text}, {empty:,} empty' if empty else text


def _checked_test_counts(
    test_counts: Sequence[int], num_classes: int
) -> np.ndarray:
    counts = np.asarray(test_counts)
    if counts.shape != (num_classes,):
        raise ValueError(
            f'{num_classes} training counts need as many test counts, got '
            f'shape {counts.shape}.'
        )
    return counts
