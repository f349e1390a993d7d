# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Run all benchmarks and write a page on what they measured.

Each benchmark runs in a process of its own. The page, in Markdown, describes
the machine and holds all tables, and says which aims were met; a picture of
growth is drawn next to it, in ``images/growth.png``.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from machine import describe_machine
from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parent


class Benchmark(NamedTuple):
    """A run of a script.

    Attributes:
        script (str): Name without suffix.
        options (Sequence[str]): Arguments.
        repeats (int | None): Timed rounds; None for the script's own number.
    """

    script: str
    options: Sequence[str] = ()
    repeats: int | None = None


class Aim(NamedTuple):
    """A limit of a measured number.

    Attributes:
        script (str): Where it is measured.
        row (tuple[str, object]): Key and value of the row.
        key (str): Of the number.
        limit (float): What it should not exceed.
        text (str): What is measured.
    """

    script: str
    row: tuple[str, object]
    key: str
    limit: float
    text: str


BENCHMARKS = (
    Benchmark('head_step', repeats=5),
    Benchmark('class_statistics', repeats=2),
    Benchmark('frames', repeats=3),
    Benchmark('contrast', repeats=2),
    Benchmark('srl', repeats=11),
    Benchmark('data_path', repeats=3),
    Benchmark('tabular_step', repeats=3),
    Benchmark('quickstart'),
    Benchmark('growth', ('--of', 'classes')),
    Benchmark('growth', ('--of', 'features'), repeats=1),
)
STEP = 'training step with {} to one with a linear head'
AIMS = (
    Aim('head_step', ('head', 'NCMC'), 'ratio', 1.03, STEP.format('NCMC')),
    Aim('head_step', ('head', 'SETF'), 'ratio', 1.02, STEP.format('SETF')),
    Aim('head_step', ('head', 'RBL'), 'ratio', 1.10, STEP.format('RBL')),
    Aim(
        'class_statistics',
        ('N', 437_513),
        'ratio',
        3.0,
        'statistics of an epoch of iNaturalist 2018 to one read of its '
        'features',
    ),
)


def run(benchmark: Benchmark, args: argparse.Namespace) -> dict:
    """Run a script and return what it measured.

    Args:
        benchmark (Benchmark): The run.
        args (argparse.Namespace): Of this script.

    Returns:
        dict: ``title``, ``rows``, ``script``, ``options`` and ``about``.

    Raises:
        RuntimeError: When the script fails.
    """
    path = FOLDER / f'{benchmark.script}.py'
    words = [sys.executable, str(path), *benchmark.options]
    words += ['--device', args.device] if args.device else []
    words += ['--threads', str(args.threads)] if args.threads else []
    words += ['--smoke'] if args.smoke else []
    repeats = 1 if args.smoke else benchmark.repeats
    words += ['--repeats', str(repeats)] if repeats else []
    paths = [str(FOLDER.parents[1]), os.environ.get('PYTHONPATH', '')]
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / 'rows.json'
        process = subprocess.run(
            [*words, '--json', str(result)],
            env=environment,
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise RuntimeError(
                f'{path.name} failed with status {process.returncode}: '
                f'{process.stderr[-2000:]}'
            )
        content = json.loads(result.read_text())
    print(process.stdout, flush=True)
    about = ast.get_docstring(ast.parse(path.read_text()))
    return dict(
        content,
        script=benchmark.script,
        options=list(benchmark.options),
        about=about,
    )


def check_aims(results: Sequence[dict]) -> list[dict]:
    """Compare what was measured with the aims.

    Args:
        results (Sequence[dict]): Of :func:`run`.

    Returns:
        list[dict]: A row for each aim that was measured.
    """
    rows = []
    for aim in AIMS:
        key, value = aim.row
        for result in results:
            for row in result['rows']:
                if result['script'] == aim.script and row.get(key) == value:
                    measured = row[aim.key]
                    rows.append(
                        dict(
                            ratio=aim.text,
                            aim=f'at most {aim.limit:.2f}',
                            measured=measured,
                            result='met'
                            if measured <= aim.limit
                            else 'missed',
                        )
                    )
    return rows


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
        results (Sequence[dict]): Of :func:`run`.
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


def make_page(results: Sequence[dict], machine: dict, picture: bool) -> str:
    """The page.

    Args:
        results (Sequence[dict]): Of :func:`run`.
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
    aims = check_aims(results)
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
    return '\n\n'.join(parts) + '\n'


def _cell(value: object) -> str:
    return f'{value:.2f}' if isinstance(value, float) else str(value)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--output', help='write the page to this file')
    parser.add_argument('--json', help='write all rows to this file')
    parser.add_argument(
        '--only',
        nargs='+',
        choices=sorted({benchmark.script for benchmark in BENCHMARKS}),
        help='run these benchmarks, default all',
    )
    parser.add_argument(
        '--threads', type=int, help='CPU threads, default that of torch'
    )
    parser.add_argument(
        '--device', help='where to run, default the GPU if there is one'
    )
    parser.add_argument(
        '--smoke', action='store_true', help='tiny sizes, to test the scripts'
    )
    args = parser.parse_args()
    results = [
        run(benchmark, args)
        for benchmark in BENCHMARKS
        if not args.only or benchmark.script in args.only
    ]
    aims = check_aims(results)
    if aims:
        print(markdown_table(aims))
    machine = describe_machine(args.threads, args.device)
    if args.json:
        content = dict(machine=machine, aims=aims, results=results)
        Path(args.json).write_text(json.dumps(content, indent=2))
    if args.output:
        output = Path(args.output)
        picture = draw_growth(results, output.parent / 'images/growth.png')
        output.write_text(make_page(results, machine, picture))


if __name__ == '__main__':
    main()
