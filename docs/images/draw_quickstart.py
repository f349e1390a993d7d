# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Draw the README's picture from the work directories of quickstart runs.

Train the three quickstart configs by ``OMP_NUM_THREADS=1 python
tools/train_seeds.py CONFIG --work-dir WORK/NAME`` with ``NAME`` ``ce``,
``logit-adjustment`` and ``ncmc-cal``, then run this script with ``WORK``. It
prints the README's table too.
"""

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmgeom.datasets import Digits, LongTailedDataset
from mmgeom.distribution import LabelDistribution

OPACITY = {'ce': 0.35, 'logit-adjustment': 0.65, 'ncmc-cal': 1}
GROUPS = ('many', 'medium', 'few')
COLORS = dict(many='#0072B2', medium='#E69F00', few='#D55E00')


def last_accuracies(run: Path) -> dict[str, float]:
    """Validation accuracies of the last epoch of a run."""
    log = sorted(run.glob('*/vis_data/scalars.json'))[-1]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if 'shot/accuracy' in line][-1]


def collect(work: Path) -> dict[str, dict[str, np.ndarray]]:
    """Accuracies of all seeds, by algorithm and group."""
    result = {}
    for name in OPACITY:
        runs = [
            last_accuracies(work / name / f'seed{seed}') for seed in range(5)
        ]
        result[name] = {
            group: np.array([run[key] for run in runs])
            for group, key in [
                ('overall', 'shot/accuracy'),
                *((group, f'shot/accuracy_{group}') for group in GROUPS),
            ]
        }
    return result


def main() -> None:
    """Draw and print."""
    values = collect(Path(sys.argv[1]))
    for name, groups in values.items():
        cells = [
            f'{v.mean():.1f} ± {v.std(ddof=1):.1f}' for v in groups.values()
        ]
        print(name, '|', ' | '.join(cells))

    data = LongTailedDataset(Digits(), imbalance_factor=20)
    distribution = LabelDistribution.from_dataset(data)
    figure = Figure(figsize=(9, 3.2), layout='constrained')
    left, right = figure.subplots(1, 2)
    for group, index in distribution.groups(many=50, few=20).items():
        left.bar(index, distribution.counts[index], color=COLORS[group])
    left.set_yscale('log')
    left.set_xticks(range(10))
    left.set_xlabel('digit')
    left.set_ylabel('training images')
    left.set_title('Training distribution, imbalance factor 20')
    for offset, (name, groups) in enumerate(values.items()):
        for place, group in enumerate(GROUPS):
            right.bar(
                place + 0.28 * offset - 0.28,
                groups[group].mean(),
                0.26,
                yerr=groups[group].std(ddof=1),
                color=COLORS[group],
                alpha=OPACITY[name],
                capsize=3,
            )
    right.set_xticks(range(3), [f'{group}-shot' for group in GROUPS])
    right.set_ylim(75, 102)
    right.set_ylabel('accuracy [%], mean of 5 seeds')
    right.set_title('Pale to full: CE, logit adjustment, NCMC')
    for axes in (left, right):
        axes.spines[['top', 'right']].set_visible(False)
    figure.savefig(Path(__file__).with_name('quickstart.png'), dpi=120)


if __name__ == '__main__':
    main()
