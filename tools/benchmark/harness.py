# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Timing and memory of alternatives, measured side by side in one run."""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mmgeom.visualization.tables import render_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that all benchmarks share."""
    parser.add_argument('--json', help='write the rows to this file')
    parser.add_argument(
        '--repeats', type=int, default=7, help='timed rounds, default 7'
    )
    parser.add_argument(
        '--threads', type=int, help='CPU threads, default that of torch'
    )
    parser.add_argument(
        '--smoke', action='store_true', help='tiny sizes, to test the script'
    )
    parser.add_argument(
        '--device',
        default='cuda' if torch.cuda.is_available() else 'cpu',
        help='where to run, default the GPU if there is one',
    )


def paired_times(
    steps: Mapping[str, Callable[[], Any]],
    repeats: int,
    device: str,
    warm_up: bool = True,
) -> dict[str, float]:
    """Median seconds of each step; the steps take turns.

    Args:
        steps (Mapping[str, Callable]): What to time.
        repeats (int): Timed rounds.
        device (str): ``'cuda'`` waits for the device around each step.
        warm_up (bool): Whether a round that is not timed comes first.
            Defaults to True.

    Returns:
        dict[str, float]: Median of each step in seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(not warm_up, repeats + 1):
        for name, step in steps.items():
            seconds = _seconds(step, device)
            if repeat:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_memory(function: Callable, arguments: Sequence, device: str) -> float:
    """Extra memory of a step in MB, measured in a process of its own.

    Args:
        function (Callable): Module-level function that builds what the step
            needs and returns the step.
        arguments (Sequence): Of the function.
        device (str): Memory of the GPU is measured on ``'cuda'``, resident
            memory of the process on ``'cpu'``.

    Returns:
        float: Peak while the step ran twice, less what was there before.
    """
    context = multiprocessing.get_context('spawn')
    with context.Pool(1) as pool:
        return pool.apply(_measure_memory, (function, arguments, device))


def report(
    title: str, rows: Sequence[Mapping[str, Any]], args: argparse.Namespace
) -> None:
    """Print rows as a table and write them as JSON if asked to.

    Args:
        title (str): Heading.
        rows (Sequence[Mapping]): Same keys in each.
        args (argparse.Namespace): With ``json``.
    """
    names = list(rows[0])
    lines = [[name, *(row[name] for row in rows)] for name in names[1:]]
    print(title)
    print(render_table([names[0], *(str(r[names[0]]) for r in rows)], lines))
    if args.json:
        with open(args.json, 'w') as file:
            json.dump(dict(title=title, rows=list(rows)), file, indent=2)


def _seconds(step: Callable, device: str) -> float:
    if device == 'cuda':
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000
    start_time = time.perf_counter()
    step()
    return time.perf_counter() - start_time


def _measure_memory(
    function: Callable, arguments: Sequence, device: str
) -> float:
    step = function(*arguments)
    if device == 'cuda':
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    before = _status('VmRSS')
    # Resets the peak of this process, which importing has raised.
    with open('/proc/self/clear_refs', 'w') as file:
        file.write('5')
    step()
    step()
    return max(_status('VmHWM') - before, 0.0)


def _status(key: str) -> float:
    """An entry of this process's memory status, in MB."""
    with open('/proc/self/status') as file:
        for line in file:
            if line.startswith(key + ':'):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f'this system does not tell {key}')
