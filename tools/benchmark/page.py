# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The page on what the benchmarks measured."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

#: Last line of what is made; notes by hand follow.
NOTES = '<!-- what follows is written by hand -->'


def markdown_table(rows: Sequence[dict], across: bool = False) -> str:
    """Rows as a table of Markdown.

    Args:
        rows (Sequence[dict]): Same keys in each, at least one.
        across (bool): Whether keys become lines. Defaults to False.

    Returns:
        str: Lines.
    """
    names = list(rows[0])
    lines = [names, *([row[name] for name in names] for row in rows)]
    if across:
        lines = [list(line) for line in zip(*lines, strict=True)]
    rule = ['---', *['---:'] * (len(lines[0]) - 1)]
    return '\n'.join(
        '| ' + ' | '.join(_cell(value) for value in line) + ' |'
        for line in [lines[0], rule, *lines[1:]]
    )


def draw_growth(results: Sequence[dict], path: Path) -> bool:
    """Draw how time and memory grow.

    Args:
        results (Sequence[dict]): Of the benchmarks.
        path (Path): Of the picture; its folder is made.

    Returns:
        bool: Whether growth was measured, and so the picture drawn.
    """
    results = [r for r in results if r['script'] == 'growth']
    if not results:
        return False
    figure = Figure(figsize=(9, 3.4 * len(results)), layout='constrained')
    panels = figure.subplots(len(results), 2, squeeze=False)
    for line, result in zip(panels, results, strict=True):
        sizes = [row['size'] for row in result['rows']]
        for axes, key, label in (
            (line[0], 'time_ms', 'time of a step [ms]'),
            (line[1], 'memory_mb', 'extra memory [MB]'),
        ):
            values = [row[key] for row in result['rows']]
            axes.loglog(sizes, values, 'o-', color='#0072B2')
            linear = [values[-1] * size / sizes[-1] for size in sizes]
            axes.loglog(sizes, linear, '--', color='#999999', label='linear')
            axes.set_ylabel(label)
            axes.set_xlabel(f'number of {result["options"][-1]}')
            axes.legend(frameon=False)
            axes.spines[['top', 'right']].set_visible(False)
        line[0].set_title(result['title'], loc='left', fontsize='medium')
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata=dict(Software=None))
    return True


def make_page(
    results: Sequence[dict],
    aims: Sequence[dict],
    machine: dict,
    picture: bool,
) -> str:
    """The page.

    Args:
        results (Sequence[dict]): Of the benchmarks.
        aims (Sequence[dict]): Of :func:`aims.check_aims`.
        machine (dict): Of :func:`machine.describe_machine`.
        picture (bool): Whether growth is drawn.

    Returns:
        str: Markdown.
    """
    parts = [
        '# Performance',
        'Written by `python tools/benchmark/run_all.py --output '
        'docs/performance.md`. Alternatives take turns in one run and their '
        'medians are compared, so that ratios stay meaningful on a machine '
        'with other work, and times do not.',
        '## Machine',
        markdown_table([dict(part=k, value=v) for k, v in machine.items()]),
    ]
    if aims:
        parts += ['## Aims', markdown_table(aims)]
    for index, result in enumerate(results):
        parts.append(f'## {result["title"]}')
        command = ' '.join([f'{result["script"]}.py', *result['options']])
        parts.append(f'`tools/benchmark/{command}`')
        # Once for all runs of a script.
        if result['script'] not in [r['script'] for r in results[:index]]:
            parts.append(result['about'].replace('``', '`'))
        parts.append(markdown_table(result['rows'], across=True))
    if picture:
        parts.append(
            '![Time and memory against the numbers of classes and of '
            'features](images/growth.png)'
        )
    return '\n\n'.join([*parts, NOTES]) + '\n'


def hand_written(path: Path) -> str:
    """What somebody wrote below the tables of an earlier page.

    Args:
        path (Path): Of the page, which need not exist.

    Returns:
        str: All that follows the last line of a page.
    """
    if not path.exists():
        return ''
    return path.read_text().partition(f'{NOTES}\n')[2]


def _cell(value: object) -> str:
    return f'{value:.2f}' if isinstance(value, float) else str(value)
