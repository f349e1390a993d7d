# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What the training and the test script have in common."""

import argparse
import logging
import os
import os.path as osp
import subprocess
import sys
from copy import deepcopy

import torch
from mmengine.config import Config, ConfigDict, DictAction
from mmengine.runner import Runner

from mmgeom.registry import RUNNERS

_LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')

# Where each launcher tells a process its rank, the number of processes, and
# its rank on its machine.
_LAUNCHER_VARIABLES = dict(
    pytorch=('RANK', 'WORLD_SIZE', 'LOCAL_RANK'),
    slurm=('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_LOCALID'),
    mpi=(
        'OMPI_COMM_WORLD_RANK',
        'OMPI_COMM_WORLD_SIZE',
        'OMPI_COMM_WORLD_LOCAL_RANK',
    ),
)


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that both scripts share with the host's.

    Args:
        parser (argparse.ArgumentParser): Extended in place.
    """
    parser.add_argument('--work-dir', help='folder for logs and results')
    parser.add_argument(
        '--no-pin-memory',
        action='store_true',
        help='switch off pin_memory of the dataloaders',
    )
    parser.add_argument(
        '--no-persistent-workers',
        action='store_true',
        help='switch off persistent_workers of the dataloaders',
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        help='override settings of the config, as key=value pairs with '
        'dotted keys; lists are written "[a,b]" in quotation marks',
    )
    parser.add_argument(
        '--launcher',
        choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none',
        help='how the processes were started',
    )
    # Older launchers pass the first spelling, newer ones the second.
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0)


def load_config(args: argparse.Namespace) -> Config:
    """Read the config and merge the shared flags into it.

    Args:
        args (argparse.Namespace): Parsed by a parser that
            :func:`add_common_arguments` extended, with ``config``.

    Returns:
        Config: With launcher, work directory and dataloader defaults.
    """
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    cfg = Config.fromfile(args.config)
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        stem = osp.splitext(osp.basename(args.config))[0]
        cfg.work_dir = osp.join('./work_dirs', stem)
    for name in _LOADERS:
        _set_loader_defaults(cfg, name, args)
    return cfg


def build_runner(cfg: Config) -> Runner:
    """Build the runner, on the CPU too when processes work together.

    Args:
        cfg (Config): Complete config.

    Returns:
        Runner: Ready for ``train()`` or ``test()``.
    """
    if cfg.launcher != 'none' and not torch.cuda.is_available():
        _join_cpu_processes(cfg)
    if 'runner_type' in cfg:
        return RUNNERS.build(cfg)
    return Runner.from_cfg(cfg)


def leave_processes() -> None:
    """Wait for the other processes and leave the group they form.

    Called last. A process that ends as a member of the group is now and then
    aborted, and the launcher then stops the others, at worst while one of
    them writes a checkpoint. Does nothing in a single process.
    """
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def end_process() -> None:
    """End this process at once if it was one of several on the CPU.

    Called last of all. Taking down the interpreter while threads of the
    process group are still there aborts now and then, even after the group
    was left, and the launcher then reports a finished run as failed.
    """
    launched = int(os.environ.get('WORLD_SIZE', '1')) > 1
    if launched and not torch.cuda.is_available():
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _set_loader_defaults(
    cfg: Config, name: str, args: argparse.Namespace
) -> None:
    if cfg.get(name) is None:
        return
    loader = ConfigDict(
        pin_memory=torch.cuda.is_available(),
        # torch refuses persistent workers when there are none.
        persistent_workers=cfg[name].get('num_workers', 0) > 0,
        collate_fn=dict(type='default_collate'),
    )
    loader.update(deepcopy(cfg[name]))
    if args.no_pin_memory:
        loader.pin_memory = False
    if args.no_persistent_workers:
        loader.persistent_workers = False
    cfg[name] = loader


def _join_cpu_processes(cfg: Config) -> None:
    """Set up gloo, since the host's start-up always selects a GPU."""
    names = _LAUNCHER_VARIABLES[cfg.launcher]
    missing = [name for name in names[:2] if name not in os.environ]
    if missing:
        raise RuntimeError(
            f'--launcher {cfg.launcher} needs the environment variable '
            f'{missing[0]}: start the processes with tools/dist_train.sh or '
            'tools/slurm_train.sh, or leave out --launcher.'
        )
    for target, source in zip(('RANK', 'WORLD_SIZE', 'LOCAL_RANK'), names):
        os.environ[target] = os.environ.get(source, '0')
    os.environ.setdefault('MASTER_PORT', '29500')
    if 'MASTER_ADDR' not in os.environ:
        os.environ['MASTER_ADDR'] = _master_address()
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    wrapper = dict(
        type='MMDistributedDataParallel',
        # Named, because the host would pass a GPU otherwise.
        device_ids=None,
        broadcast_buffers=False,
        find_unused_parameters=cfg.get('find_unused_parameters', False),
    )
    wrapper.update(cfg.get('model_wrapper_cfg') or {})
    cfg.model_wrapper_cfg = wrapper


def _master_address() -> str:
    nodes = os.environ.get('SLURM_NODELIST')
    if nodes is None:
        return '127.0.0.1'
    output = subprocess.run(
        ['scontrol', 'show', 'hostname', nodes],
        capture_output=True,
        text=True,
        check=True,
    )
    return output.stdout.split()[0]
