# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Train a model."""

import argparse

from mmengine.config import Config

import mmgeom  # noqa: F401  makes `mmgeom::` bases readable
from mmgeom.apis.launch import (
    add_common_arguments,
    build_runner,
    end_process,
    leave_processes,
    load_config,
)


def parse_args() -> argparse.Namespace:
    """Parse the command line; the flags are those of mmpretrain."""
    parser = argparse.ArgumentParser(description='Train a model.')
    parser.add_argument('config', help='path of the config file')
    add_common_arguments(parser)
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        help='resume from a checkpoint, or without a path from the latest '
        'one in the work directory',
    )
    parser.add_argument(
        '--amp',
        action='store_true',
        help='train in mixed precision, on a GPU',
    )
    parser.add_argument(
        '--no-validate',
        action='store_true',
        help='do not evaluate during training',
    )
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate with the total batch size',
    )
    return parser.parse_args()


def merge_args(cfg: Config, args: argparse.Namespace) -> Config:
    """Merge the flags that only training has into the config."""
    if args.no_validate:
        cfg.val_cfg = None
        cfg.val_dataloader = None
        cfg.val_evaluator = None
    if args.amp:
        cfg.optim_wrapper.type = 'AmpOptimWrapper'
        cfg.optim_wrapper.setdefault('loss_scale', 'dynamic')
    if args.resume is not None:
        cfg.resume = True
        cfg.load_from = None if args.resume == 'auto' else args.resume
    if args.auto_scale_lr:
        if cfg.get('auto_scale_lr') is None:
            raise ValueError(
                '--auto-scale-lr needs the batch size that the learning rate '
                'is meant for, and the config has none: add '
                'auto_scale_lr=dict(base_batch_size=...) to it.'
            )
        cfg.auto_scale_lr.enable = True
    return cfg


def main() -> None:
    """Train."""
    args = parse_args()
    cfg = merge_args(load_config(args), args)
    build_runner(cfg).train()
    leave_processes()


if __name__ == '__main__':
    main()
    end_process()
