# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os
from argparse import ArgumentParser

import pytest
import torch
from mmengine.runner import Runner

from mmgeom.apis.launch import (
    add_common_arguments,
    build_runner,
    leave_processes,
    load_config,
)
from mmgeom.registry import RUNNERS


@pytest.fixture(scope='module')
def config(tmp_path_factory, write_config):
    return write_config(tmp_path_factory.mktemp('config'))


@pytest.mark.parametrize('spelling', ['--local_rank=3', '--local-rank=3'])
@pytest.mark.parametrize('given', [None, '1'])
def test_local_rank(config, monkeypatch, spelling, given):
    monkeypatch.delenv('LOCAL_RANK', raising=False)
    if given is not None:
        monkeypatch.setenv('LOCAL_RANK', given)
    args = parse(config, spelling)
    assert args.local_rank == 3
    load_config(args)
    # What the launcher put into the environment has precedence.
    assert os.environ['LOCAL_RANK'] == (given or '3')
    monkeypatch.delenv('LOCAL_RANK')


def parse(config, *words):
    parser = ArgumentParser()
    parser.add_argument('config')
    add_common_arguments(parser)
    return parser.parse_args([str(config), *words])


class TestLoadConfig:
    @pytest.mark.parametrize('workers, persistent', [(0, False), (2, True)])
    def test_workers(self, tmp_path, write_config, workers, persistent):
        more = (
            'val_dataloader = dict(_delete_=True, batch_size=4, '
            f'num_workers={workers}, dataset=dict(type="mmgeom.Digits"))\n'
        )
        cfg = load_config(parse(write_config(tmp_path, more)))
        assert cfg.val_dataloader.persistent_workers is persistent
        assert cfg.val_dataloader.collate_fn.type == 'default_collate'
        assert cfg.val_dataloader.pin_memory is torch.cuda.is_available()

    def test_config_has_precedence(self, tmp_path, write_config):
        more = (
            'train_dataloader = dict(num_workers=2, pin_memory=False, '
            "persistent_workers=False, collate_fn=dict(type='x'))\n"
        )
        cfg = load_config(parse(write_config(tmp_path, more)))
        assert cfg.train_dataloader.pin_memory is False
        assert cfg.train_dataloader.persistent_workers is False
        assert cfg.train_dataloader.collate_fn.type == 'x'

    def test_flags_have_precedence(self, tmp_path, write_config):
        more = (
            'train_dataloader = dict(num_workers=2, pin_memory=True, '
            'persistent_workers=True)\n'
        )
        flags = ('--no-pin-memory', '--no-persistent-workers')
        cfg = load_config(parse(write_config(tmp_path, more), *flags))
        assert cfg.train_dataloader.pin_memory is False
        assert cfg.train_dataloader.persistent_workers is False

    def test_work_dir(self, tmp_path, config, write_config):
        assert load_config(parse(config)).work_dir == './work_dirs/tiny'
        own = write_config(tmp_path, 'work_dir = "own"\n')
        assert load_config(parse(own)).work_dir == 'own'
        flag = parse(own, '--work-dir', 'flag')
        assert load_config(flag).work_dir == 'flag'

    def test_options(self, config):
        words = ('--cfg-options', 'model.head.loss.tau=0.5', 'work_dir=x')
        cfg = load_config(parse(config, *words))
        assert cfg.model.head.loss.tau == 0.5
        assert cfg.work_dir == 'x'


def test_own_runner(tmp_path, config):
    words = ('--work-dir', str(tmp_path))
    options = ('--cfg-options', 'runner_type=mmgeom.TracedRunner')
    cfg = load_config(parse(config, *words, *options))

    @RUNNERS.register_module()
    class TracedRunner(Runner):
        pass

    try:
        assert type(build_runner(cfg)) is TracedRunner
    finally:
        RUNNERS.module_dict.pop('TracedRunner')


@pytest.mark.skipif(torch.cuda.is_available(), reason='is for the CPU')
class TestLauncher:
    @pytest.mark.parametrize(
        'launcher, variable',
        [
            ('pytorch', 'RANK'),
            ('slurm', 'SLURM_PROCID'),
            ('mpi', 'OMPI_COMM_WORLD_RANK'),
        ],
    )
    def test_not_started_by_a_launcher(
        self, config, monkeypatch, launcher, variable
    ):
        monkeypatch.delenv(variable, raising=False)
        cfg = load_config(parse(config, '--launcher', launcher))
        message = (
            f'--launcher {launcher} needs the environment variable '
            f'{variable}: start the processes with .*, or leave out'
        )
        with pytest.raises(RuntimeError, match=message):
            build_runner(cfg)

    def test_scripts_leave_the_group(
        self, tmp_path, config, trained, monkeypatch, free_port, tool
    ):
        """Ending as a member of the group aborts now and then."""
        for name in ('RANK', 'LOCAL_RANK'):
            monkeypatch.setenv(name, '0')
        monkeypatch.setenv('WORLD_SIZE', '1')
        monkeypatch.setenv('MASTER_PORT', free_port)
        checkpoint = trained / 'epoch_2.pth'
        words = ('--launcher', 'pytorch', '--work-dir', tmp_path)
        options = ('--cfg-options', 'train_cfg.max_epochs=1')
        tool('train', config, *words, *options)
        assert (tmp_path / 'epoch_1.pth').exists()
        assert not torch.distributed.is_initialized()
        tool('test', config, checkpoint, *words)
        assert not torch.distributed.is_initialized()

    def test_a_single_process_has_no_group_to_leave(self):
        leave_processes()
        assert not torch.distributed.is_initialized()

    @pytest.mark.parametrize(
        'launcher, prefix, rank, size, local',
        [
            ('slurm', 'SLURM_', 'PROCID', 'NTASKS', 'LOCALID'),
            (
                'mpi',
                'OMPI_COMM_WORLD_',
                'RANK',
                'SIZE',
                'LOCAL_RANK',
            ),
        ],
    )
    def test_one_process_of_a_cluster(
        self,
        tmp_path,
        config,
        monkeypatch,
        free_port,
        launcher,
        prefix,
        rank,
        size,
        local,
    ):
        for name, value in ((rank, '0'), (size, '1'), (local, '0')):
            monkeypatch.setenv(prefix + name, value)
        monkeypatch.setenv('MASTER_PORT', free_port)
        monkeypatch.delenv('SLURM_NODELIST', raising=False)
        words = ('--launcher', launcher, '--work-dir', str(tmp_path))
        options = ('--cfg-options', 'find_unused_parameters=True')
        cfg = load_config(parse(config, *words, *options))
        runner = build_runner(cfg)
        try:
            assert torch.distributed.get_backend() == 'gloo'
            assert type(runner.model).__name__ == 'MMDistributedDataParallel'
            assert runner.model.device_ids is None
            assert runner.model.find_unused_parameters
        finally:
            leave_processes()
        assert not torch.distributed.is_initialized()
