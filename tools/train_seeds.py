# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Train a config with several seeds, test each run, report the spread."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mmengine

from mmgeom.visualization.tables import render_table

TOOLS = Path(__file__).resolve().parent


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description='Train a config with several seeds, test each run, and '
        'report mean and standard deviation. Runs that have been tested are '
        'not repeated, and one that was interrupted goes on.'
    )
    parser.add_argument('config', help='path of the config file')
    parser.add_argument(
        '--seeds', type=int, nargs='+', default=[0, 1, 2, 3, 4]
    )
    parser.add_argument(
        '--checkpoint',
        choices=['last', 'best'],
        default='last',
        help='which one is tested: the last, or the best on the validation '
        'data, which the config must save (save_best)',
    )
    parser.add_argument(
        '--jobs', type=int, default=1, help='runs at the same time'
    )
    parser.add_argument(
        '--work-dir', help='folder for the runs, one for each seed'
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        default=[],
        help='settings of the config to override, key=value; {seed} in them '
        'is the seed, for instance to split the data by it',
    )
    args = parser.parse_args()
    if args.jobs < 1:
        parser.error(f'--jobs must be at least 1, got {args.jobs}')
    if len(set(args.seeds)) < len(args.seeds):
        parser.error(f'--seeds must differ, got {args.seeds}')
    return args


def run(args: argparse.Namespace, folder: Path, seed: int) -> dict:
    """Train and test one seed, unless that was done before.

    Args:
        args (argparse.Namespace): The command line.
        folder (Path): For this seed.
        seed (int): The seed.

    Returns:
        dict: The metrics.

    Raises:
        RuntimeError: When training or testing fails.
    """
    options = [word.replace('{seed}', str(seed)) for word in args.cfg_options]
    options.append(f'randomness.seed={seed}')
    recipe = dict(
        config=args.config, options=options, checkpoint=args.checkpoint
    )
    _claim(folder, recipe)
    metrics = folder / 'metrics.json'
    if not metrics.exists():
        common = ['--work-dir', folder, '--cfg-options', *options]
        _call(args, folder, 'train.py', args.config, '--resume', *common)
        checkpoint = find_checkpoint(folder, args.checkpoint)
        words = ['--out', metrics, '--out-item', 'metrics']
        _call(
            args, folder, 'test.py', args.config, checkpoint, *words, *common
        )
    return mmengine.load(metrics)


def _claim(folder: Path, recipe: dict) -> None:
    """Refuse a folder that holds the run of another recipe."""
    note = folder / 'recipe.json'
    if not note.exists():
        folder.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(recipe, indent=2))
    known = json.loads(note.read_text())
    if known != recipe:
        changed = [
            f'{name} {known.get(name)} instead of {value}'
            for name, value in recipe.items()
            if known.get(name) != value
        ]
        raise RuntimeError(
            f'{folder} holds a run of another recipe '
            f'({"; ".join(changed)}): give another --work-dir.'
        )


def find_checkpoint(folder: Path, which: str) -> Path:
    """The checkpoint of a finished run.

    Args:
        folder (Path): Work directory of the run.
        which (str): ``'last'`` or ``'best'``.

    Returns:
        Path: The file.

    Raises:
        RuntimeError: When there is none.
    """
    if which == 'last':
        pointer = folder / 'last_checkpoint'
        if pointer.exists():
            return folder / Path(pointer.read_text().strip()).name
    else:
        found = sorted(folder.glob('best_*.pth'), key=os.path.getmtime)
        if found:
            return found[-1]
    raise RuntimeError(
        f'{folder} has no {which} checkpoint: let the CheckpointHook of the '
        'config save one.'
    )


def _call(
    args: argparse.Namespace, folder: Path, script: str, *words: object
) -> None:
    threads = max(1, (os.cpu_count() or 1) // args.jobs)
    environment = {'OMP_NUM_THREADS': str(threads), **os.environ}
    command = [sys.executable, TOOLS / script, *words]
    with (folder / f'{script}.log').open('a') as log:
        done = subprocess.run(
            [str(word) for word in command],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if done.returncode:
        path = folder / f'{script}.log'
        lines = path.read_text().strip().splitlines() or ['no output']
        raise RuntimeError(f'{script} failed, see {path}: {lines[-1]}')


def summarize(results: list[dict]) -> list[list[str]]:
    """Mean and sample standard deviation of each metric.

    Args:
        results (list[dict]): Metrics of each seed.

    Returns:
        list[list[str]]: A row for each metric: its name, mean, standard
        deviation, and the single values.
    """
    rows = []
    for name in results[0]:
        values = [result[name] for result in results]
        spread = statistics.stdev(values) if len(values) > 1 else float('nan')
        singles = ' '.join(f'{value:.4g}' for value in values)
        mean = statistics.fmean(values)
        rows.append([name, f'{mean:.4g}', f'{spread:.2g}', singles])
    return rows


def main() -> None:
    """Run all seeds, and print the table."""
    args = parse_args()
    stem = Path(args.config).stem
    root = Path(args.work_dir or Path('work_dirs') / f'{stem}_seeds')
    folders = [root / f'seed{seed}' for seed in args.seeds]
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = [
            pool.submit(run, args, folder, seed)
            for folder, seed in zip(folders, args.seeds, strict=True)
        ]
        try:
            results = [job.result() for job in jobs]
        except RuntimeError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(f'error: {error}')
    seeds = ' '.join(map(str, args.seeds))
    header = ['metric', 'mean', 'std', f'seeds {seeds}']
    print(f'{stem} ({args.checkpoint} checkpoint)')
    print(render_table(header, summarize(results)))


if __name__ == '__main__':
    main()
