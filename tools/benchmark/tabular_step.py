# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Training on rows of numbers through the runner against a bare loop.

A step is one of a regression MLP (20, 30, 10) on batches of rows, with
gradient and AdamW. ``bare`` is a loop over index tensors with no framework
at all; ``samples`` and ``batched`` are epochs of mmengine's runner with the
default hooks of our configs but no checkpoint, on samples made one by one
and on ``mmgeom.BatchedDataset``.
"""

import argparse
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from harness import add_arguments, paired_times, report
from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

import mmgeom.datasets.batched_dataset
import mmgeom.models  # noqa: F401
from mmgeom.apis.batched_data import batched
from mmgeom.datasets import RowDataset
from mmgeom.registry import DATASETS

COLUMNS, RATE, DECAY = 10, 3e-3, 1e-2
RUNTIME = Path(__file__).resolve().parents[2] / 'configs' / '_base_'


@DATASETS.register_module()
class RandomRows(RowDataset):
    """Rows of random numbers with a target that depends on them."""

    def __init__(self, number: int, **kwargs) -> None:
        self.number = number
        super().__init__(**kwargs)

    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw them."""
        generator = np.random.default_rng(0)
        rows = generator.normal(size=(self.number, COLUMNS))
        return rows, np.abs(rows).sum(1)


def make_config(number: int, batch: int, work_dir: str) -> Config:
    """A run of one epoch, which is then repeated."""
    cfg = Config.fromfile(RUNTIME / 'default_runtime.py')
    cfg.merge_from_dict(
        dict(
            model=dict(
                type='mmgeom.ImageRegressor',
                backbone=dict(type='mmgeom.MLP', in_channels=COLUMNS),
                head=dict(type='mmgeom.RegressorHead', in_channels=10),
            ),
            data_preprocessor=dict(
                type='mmgeom.TabularDataPreprocessor', in_channels=COLUMNS
            ),
            train_dataloader=dict(
                batch_size=batch,
                num_workers=0,
                persistent_workers=False,
                collate_fn=dict(type='default_collate'),
                dataset=dict(
                    type='mmgeom.RandomRows',
                    number=number,
                    pipeline=[dict(type='PackInputs')],
                ),
                sampler=dict(type='DefaultSampler', shuffle=True),
            ),
            train_cfg=dict(by_epoch=True, max_epochs=1),
            optim_wrapper=dict(
                optimizer=dict(type='AdamW', lr=RATE, weight_decay=DECAY)
            ),
            default_hooks=dict(
                checkpoint=dict(interval=-1, save_best=None, save_last=False),
                label_distribution=dict(bins=dict(width=0.5)),
            ),
            log_level='WARNING',
            work_dir=work_dir,
        )
    )
    return cfg


def runner_epoch(cfg: Config, name: str) -> Callable[[], None]:
    """An epoch of the runner, which has been through its start."""
    cfg.experiment_name = name
    runner = Runner.from_cfg(cfg)
    runner.train()
    return runner.train_loop.run_epoch


def bare_epoch(number: int, batch: int, device: str) -> Callable[[], None]:
    """An epoch without a framework."""
    rows, targets = RandomRows(number).load_rows()
    inputs = torch.tensor(rows, dtype=torch.float32, device=device)
    labels = torch.tensor(targets, dtype=torch.float32, device=device)[:, None]
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    labels = (labels - labels.mean()) / labels.std()
    widths = (COLUMNS, 20, 30, 10)
    layers: list[nn.Module] = []
    for inner, outer in pairwise(widths):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(10, 1)).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, weight_decay=DECAY
    )

    def step() -> None:
        for chosen in torch.randperm(number, device=device).split(batch):
            loss = nn.functional.mse_loss(
                model(inputs[chosen]), labels[chosen]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return step


def measure(
    number: int, batch: int, folder: str, args: argparse.Namespace
) -> dict:
    """A row of the table."""
    steps = dict(bare=bare_epoch(number, batch, args.device))
    for name in ('samples', 'batched'):
        cfg = make_config(number, batch, f'{folder}/{name}_{batch}')
        if name == 'batched':
            device = None if args.device == 'cpu' else args.device
            loader, preprocessor = batched(cfg, device)
            cfg.merge_from_dict(
                dict(train_dataloader=loader, data_preprocessor=preprocessor)
            )
        steps[name] = runner_epoch(cfg, f'{name}_{batch}')
    times = paired_times(steps, args.repeats, args.device)
    count = -(-number // batch)
    row = dict(B=batch, N=number)
    row |= {f'{name}_ms': 1000 * t / count for name, t in times.items()}
    for name in ('samples', 'batched'):
        row[f'{name}_ratio'] = times[name] / times['bare']
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    number, sizes = (256, (64,)) if args.smoke else (4096, (64, 512))
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(number, batch, folder, args) for batch in sizes]
    report(f'Steps on rows of {COLUMNS} numbers, {args.device}', rows, args)


if __name__ == '__main__':
    main()
