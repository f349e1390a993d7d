# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Print and draw the label distribution of a config's training data."""

import argparse
import sys
from pathlib import Path

from mmengine.config import Config, DictAction

import mmgeom  # noqa: F401  makes `mmgeom::` bases readable
from mmgeom.apis.inspect_dataset import (
    DatasetInspection,
    format_inspection,
    inspect_dataset,
    one_sentence,
)
from mmgeom.visualization.distribution_figure import draw_distribution


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description='Print and draw how the training labels of a config are '
        'distributed, and warn about what may spoil results. No model is '
        'built.'
    )
    parser.add_argument('config', help='path of the config file')
    parser.add_argument(
        '--out',
        help='picture to write, e.g. a PNG or PDF file; by default '
        'label_distribution.png in the work directory of the config',
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        help='override settings of the config, as key=value pairs with '
        'dotted keys; lists are written "[a,b]" in quotation marks',
    )
    return parser.parse_args()


def write_figure(
    inspection: DatasetInspection, path: Path, title: str
) -> None:
    """Draw the training counts and, if there are any, the test counts."""
    tests = inspection.test_counts
    figure = draw_distribution(
        inspection.distribution,
        inspection.groups,
        tests.get('test', tests.get('val')),
        title,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> int:
    """Inspect; warnings leave the exit status at 0."""
    args = parse_args()
    subject = 'the config'
    try:
        cfg = Config.fromfile(args.config)
        if args.cfg_options is not None:
            cfg.merge_from_dict(args.cfg_options)
        subject = 'the training data'
        inspection = inspect_dataset(cfg)
    except Exception as error:  # a user's data: one sentence, no traceback
        message = f'cannot read {subject}: {one_sentence(error)}'
        print(f'error: {message}', file=sys.stderr)
        return 1
    print(format_inspection(inspection))
    stem = Path(args.config).stem
    folder = cfg.get('work_dir') or Path('work_dirs') / stem
    path = Path(args.out or Path(folder) / 'label_distribution.png')
    try:
        write_figure(inspection, path, stem)
    except (OSError, ValueError) as error:
        message = f'cannot write {path}: {one_sentence(error)}'
        print(f'error: {message}', file=sys.stderr)
        return 1
    print(f'\npicture: {path}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
