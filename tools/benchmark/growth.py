# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""How time and memory grow with the number of classes or of features.

``--of classes`` measures the multi-centre loss in the axis layout for 10 to
8,142 classes, ``--of features`` the supervised contrastive loss for 512 to
16,384 features; both with gradient and with the implementation that is
chosen by size. An exponent is that of the growth since the size before: with
1, twice the size takes twice the time.
"""

import argparse
import itertools
import math

import torch
from contrast import our_step
from frames import BATCH, F_MEAN, frame_step
from harness import add_arguments, paired_times, peak_memory, report

SIZES = dict(
    classes=(10, 100, 500, 1000, 2000, 4000, 8142),
    features=(512, 1024, 2048, 4096, 8192, 16384),
)
SMOKE_SIZES = dict(classes=(10, 20), features=(64, 128))
TITLES = dict(
    classes=f'Growth with classes, multi-centre loss, batch {BATCH}, '
    f'd = {F_MEAN + 1} K',
    features='Growth with features, supervised contrastive loss',
)


def measure(kind: str, size: int, args: argparse.Namespace) -> dict:
    """A row of the table."""
    make, values = frame_step, ('axis', size, args.device)
    if kind == 'features':
        make, values = our_step, ('auto', 'plain', size, args.device)
    times = paired_times(dict(own=make(*values)), args.repeats, args.device)
    return dict(
        size=size,
        time_ms=1000 * times['own'],
        memory_mb=peak_memory(make, values, args.device),
    )


def add_exponents(rows: list[dict]) -> None:
    """Add the growth of each quantity since the row before."""
    for key in ('time_ms', 'memory_mb'):
        name = f'{key.split("_")[0]}_exponent'
        rows[0][name] = '-'
        for before, row in itertools.pairwise(rows):
            # Memory of a small step is within a page of nothing.
            known = min(before[key], row[key]) > 0
            factor = math.log(row['size'] / before['size'])
            ratio = row[key] / before[key] if known else 1
            row[name] = math.log(ratio) / factor if known else '-'


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument(
        '--of',
        choices=SIZES,
        default='classes',
        help='what becomes more, default classes',
    )
    parser.set_defaults(repeats=3)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    sizes = (SMOKE_SIZES if args.smoke else SIZES)[args.of]
    rows = [measure(args.of, size, args) for size in sizes]
    add_exponents(rows)
    report(f'{TITLES[args.of]}, {args.device}', rows, args)


if __name__ == '__main__':
    main()
