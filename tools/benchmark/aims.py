# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What the benchmarks should reach."""

from collections.abc import Sequence
from typing import NamedTuple


class Aim(NamedTuple):
    """A limit of a measured number.

    Attributes:
        script (str): Where it is measured.
        row (dict[str, object]): What tells the row from others.
        key (str): Of the number.
        limit (float): What it should not exceed, or should reach.
        text (str): What is measured.
        at_least (bool): Whether larger is better.
    """

    script: str
    row: dict[str, object]
    key: str
    limit: float
    text: str
    at_least: bool = False

    def met(self, measured: float) -> bool:
        """Whether a number is good enough.

        Args:
            measured (float): The number.

        Returns:
            bool: True when it is.
        """
        if self.at_least:
            return measured >= self.limit
        return measured <= self.limit


STEP = 'training step with {} to one with a linear head'
PEER = 'speed of the contrastive loss of {} features to that of a peer library'
AIMS = (
    Aim(
        'data_path',
        dict(transforms='crop and flip'),
        'time_ratio',
        10,
        "speed of whole batches to that of the host's pipeline, CIFAR-like",
        at_least=True,
    ),
    Aim(
        'tabular_step',
        dict(B=64),
        'batched_ratio',
        1.8,
        'tabular training step of a runner to that of a bare loop',
    ),
    Aim(
        'quickstart',
        dict(epochs=60),
        'time_ratio',
        2,
        'speed of the digits quickstart, whole process, to that of single '
        'images',
        at_least=True,
    ),
    Aim('head_step', dict(head='NCMC'), 'ratio', 1.03, STEP.format('NCMC')),
    Aim('head_step', dict(head='SETF'), 'ratio', 1.02, STEP.format('SETF')),
    Aim('head_step', dict(head='RBL'), 'ratio', 1.10, STEP.format('RBL')),
    Aim(
        'class_statistics',
        dict(N=437_513),
        'ratio',
        3.0,
        'statistics of an epoch of iNaturalist 2018 to one read of its '
        'features',
    ),
    Aim(
        'frames',
        dict(K=1000),
        'axis_passes',
        6,
        'cost of a frame of 1,000 classes in elementwise passes over the '
        'features',
    ),
    Aim('contrast', dict(N=4096), 'time_ratio', 5, PEER.format('4,096'), True),
    Aim('contrast', dict(N=8192), 'time_ratio', 8, PEER.format('8,192'), True),
    Aim(
        'srl',
        dict(K=102, d=128),
        'time_ratio',
        4,
        'speed of the losses of SRL to that of a loop over bins',
        at_least=True,
    ),
)


def check_aims(results: Sequence[dict]) -> list[dict]:
    """Compare what was measured with the aims.

    Args:
        results (Sequence[dict]): ``script`` and ``rows`` of each run.

    Returns:
        list[dict]: A row for each aim that was measured.
    """
    found = []
    for aim in AIMS:
        for result in results:
            if result['script'] != aim.script:
                continue
            for row in result['rows']:
                # A peer that is not installed leaves its ratio out.
                if aim.key in row and aim.row.items() <= row.items():
                    found.append(_row(aim, row[aim.key]))
    return found


def _row(aim: Aim, measured: float) -> dict:
    bound = 'at least' if aim.at_least else 'at most'
    return dict(
        ratio=aim.text,
        aim=f'{bound} {aim.limit:.2f}',
        measured=measured,
        result='met' if aim.met(measured) else 'missed',
    )
