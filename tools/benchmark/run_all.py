# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Run all benchmarks and write a page on what they measured.

Each benchmark runs in a process of its own. The page, in Markdown, describes
the machine and holds all tables, and says which aims were met; a picture of
growth is drawn next to it, in ``images/growth.png``. Notes written by hand
below the last line of the page stay when it is written anew.
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

from aims import check_aims
from machine import describe_machine
from page import draw_growth, hand_written, make_page, markdown_table

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


BENCHMARKS = (
    Benchmark('head_step', repeats=5),
    Benchmark('profile_step', repeats=1),
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
        page = make_page(results, aims, machine, picture)
        output.write_text(page + hand_written(output))


if __name__ == '__main__':
    main()
