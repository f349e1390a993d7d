# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The quickstart on digits, with batches made as a whole and one by one.

Timed is the whole process of ``tools/train.py``, from starting Python to the
last checkpoint, on the config of logit adjustment. ``batched`` has whole
batches, as the config says, ``samples`` makes samples one by one, by
``configs/_base_/datasets/digits_lt.py``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import add_arguments, paired_times, report

ROOT = Path(__file__).resolve().parents[2]
CONFIG = 'logit-adjustment_resnet20_1xb64-60e_digits-lt-if20'
DATASETS = dict(samples='digits_lt', batched='digits_lt_batched')


def make_config(dataset: str) -> str:
    """The quickstart config with its training data made in another way."""
    path = ROOT / 'configs' / 'quickstart' / f'{CONFIG}.py'
    text = path.read_text()
    text = text.replace('/digits_lt_batched.py', f'/{dataset}.py')
    base = (ROOT / 'configs' / '_base_').as_posix()
    return text.replace('../_base_', base)


def train_step(
    folder: Path, name: str, options: list[str], device: str
) -> Callable[[], None]:
    """A run of the script."""
    config = folder / f'{name}.py'
    config.write_text(make_config(DATASETS[name]))
    words = [sys.executable, str(ROOT / 'tools' / 'train.py'), str(config)]
    words += ['--work-dir', str(folder / name)]
    if options:
        words += ['--cfg-options', *options]
    environment = dict(os.environ)
    environment['PYTHONPATH'] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get('PYTHONPATH')])
    )
    if device == 'cpu':
        environment['CUDA_VISIBLE_DEVICES'] = ''

    def step() -> None:
        result = subprocess.run(
            words, env=environment, capture_output=True, text=True
        )
        if result.returncode:
            raise RuntimeError(
                f'training on {config.name} failed: {result.stderr[-2000:]}'
            )

    return step


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.set_defaults(repeats=1)
    args = parser.parse_args()
    if args.threads:
        os.environ['OMP_NUM_THREADS'] = str(args.threads)
    epochs = 1 if args.smoke else 60
    options = [f'train_cfg.max_epochs={epochs}'] if args.smoke else []
    with tempfile.TemporaryDirectory() as folder:
        steps = {
            name: train_step(Path(folder), name, options, args.device)
            for name in DATASETS
        }
        # Processes do not warm up. The clock is that of the host.
        times = paired_times(steps, args.repeats, 'cpu', warm_up=False)
    row = dict(epochs=epochs)
    row |= {f'{name}_s': value for name, value in times.items()}
    row['time_ratio'] = times['samples'] / times['batched']
    report(f'Quickstart, {args.device}', [row], args)


if __name__ == '__main__':
    main()
