# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Test a checkpoint."""

import argparse
from copy import deepcopy

import mmengine
from mmengine.config import Config, ConfigDict
from mmengine.evaluator import DumpResults

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
    parser = argparse.ArgumentParser(description='Test a checkpoint.')
    parser.add_argument('config', help='path of the config file')
    parser.add_argument('checkpoint', help='path of the checkpoint')
    add_common_arguments(parser)
    parser.add_argument('--out', help='file to write results to')
    parser.add_argument(
        '--out-item',
        choices=['metrics', 'pred'],
        help='what --out holds, predictions by default',
    )
    parser.add_argument(
        '--amp', action='store_true', help='test in mixed precision'
    )
    parser.add_argument(
        '--show-dir', help='folder to write pictures of predictions to'
    )
    parser.add_argument(
        '--show', action='store_true', help='show predictions in a window'
    )
    parser.add_argument(
        '--interval', type=int, default=1, help='show every n-th sample'
    )
    parser.add_argument(
        '--wait-time', type=float, default=2, help='seconds a window stays'
    )
    parser.add_argument(
        '--tta',
        action='store_true',
        help='average over test-time augmentation: tta_model and '
        'tta_pipeline of the config, else a flip',
    )
    args = parser.parse_args()
    if args.out is None and args.out_item is not None:
        parser.error('--out-item needs --out')
    return args


def merge_args(cfg: Config, args: argparse.Namespace) -> Config:
    """Merge the flags that only testing has into the config."""
    cfg.load_from = args.checkpoint
    cfg.resume = False
    if args.amp:
        cfg.test_cfg.fp16 = True
    if args.show or args.show_dir is not None:
        visualization = cfg.get('default_hooks', {}).get('visualization')
        if visualization is None:
            raise ValueError(
                '--show and --show-dir need a VisualizationHook named '
                '`visualization` in default_hooks, and the config has none.'
            )
        visualization.update(
            enable=True,
            show=args.show,
            wait_time=args.wait_time,
            out_dir=args.show_dir,
            interval=args.interval,
        )
    if args.tta:
        _add_tta(cfg)
    return cfg


def _add_tta(cfg: Config) -> None:
    """Wrap model and test pipeline for test-time augmentation."""
    cfg.setdefault('tta_model', dict(type='mmpretrain.AverageClsScoreTTA'))
    if 'pipeline' not in cfg.test_dataloader.dataset:
        raise ValueError(
            '--tta changes the pipeline of the test dataset, and '
            f'{cfg.test_dataloader.dataset.type} has none: do not wrap the '
            'test dataset.'
        )
    if 'tta_pipeline' not in cfg:
        pipeline = cfg.test_dataloader.dataset.pipeline
        flips = [
            dict(type='RandomFlip', prob=1.0),
            dict(type='RandomFlip', prob=0.0),
        ]
        cfg.tta_pipeline = deepcopy(pipeline[:-1]) + [
            dict(type='TestTimeAug', transforms=[flips, [pipeline[-1]]])
        ]
    cfg.model = ConfigDict(**cfg.tta_model, module=cfg.model)
    cfg.test_dataloader.dataset.pipeline = cfg.tta_pipeline


def main() -> None:
    """Test."""
    args = parse_args()
    cfg = merge_args(load_config(args), args)
    runner = build_runner(cfg)
    if args.out and args.out_item in ('pred', None):
        runner.test_evaluator.metrics.append(
            DumpResults(out_file_path=args.out)
        )
    metrics = runner.test()
    if args.out and args.out_item == 'metrics':
        mmengine.dump(metrics, args.out)
    leave_processes()


if __name__ == '__main__':
    main()
    end_process()
