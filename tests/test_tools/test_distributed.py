# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Two processes on the CPU, started by the shell scripts."""

import functools
import shutil
from pathlib import Path

import mmengine
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='compares processes on the CPU'
)
ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / 'tools'

# Without batch norm two processes of 16 samples are one of 32: 13 batches of
# 32 are 416 samples. Small steps keep rounding errors small. The test set has
# an odd number of samples, so that the processes have different shares of it.
CHANGES = """
model = dict(backbone=dict(norm_cfg=dict(type='GN', num_groups=2)))
optim_wrapper = dict(optimizer=dict(lr=0.01))
train_dataloader = dict(
    batch_size=16,
    dataset=dict(
        dataset=dict(
            imbalance_factor=None,
            counts=[100, 80, 64, 50, 40, 30, 22, 14, 10, 6],
        ),
    ),
)
data_preprocessor = dict(augmentations=[])
val_dataloader = dict(batch_size=64, dataset=dict(indices=333))
test_dataloader = val_dataloader
"""

# Added in the runs of two processes.
WITH_HOOK = """
_base_ = ['./tiny.py']
custom_imports = dict(imports=['save_ranks'])
custom_hooks = [dict(type='SaveRanksHook')]
"""

HOOK = '''
"""Saves the model of each process."""
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS


@HOOKS.register_module()
class SaveRanksHook(Hook):
    def after_train(self, runner):
        path = f'{runner.work_dir}/rank{get_rank()}.pth'
        torch.save(runner.model.module.state_dict(), path)
'''


def write_hook(folder):
    """The config of two processes, which inherits that of one."""
    (folder / 'save_ranks.py').write_text(HOOK)
    (folder / 'with_hook.py').write_text(WITH_HOOK)


@pytest.fixture(scope='module')
def config(tmp_path_factory, write_config):
    folder = tmp_path_factory.mktemp('config')
    write_hook(folder)
    return write_config(folder, CHANGES)


@pytest.fixture
def ncmc_config(tmp_path, write_config):
    """The quickstart of NCMC, without batch norm in the head as well."""
    folder = tmp_path / 'config'
    folder.mkdir()
    write_hook(folder)
    head = "model['head'] = dict(head_bn=False)\n"
    path = write_config(folder, CHANGES + head)
    base = folder / 'tiny_base.py'
    text = base.read_text()
    assert 'logit-adjustment_' in text
    base.write_text(text.replace('logit-adjustment_', 'ncmc-cal_'))
    return path


@pytest.fixture
def launch(tmp_path, command, free_port):
    """Run a shell script with a configuration."""

    def run(config, name, *words):
        return command(
            'bash',
            TOOLS / name,
            config.with_name('with_hook.py'),
            *words,
            cwd=tmp_path,
            PORT=free_port,
            PYTHONPATH=str(config.parent),
        )

    return run


@pytest.fixture
def distributed(config, launch):
    """Run a shell script with the configuration of most tests here."""
    return functools.partial(launch, config)


@pytest.fixture(scope='module')
def work_dir(tmp_path_factory):
    """Where the tests below train and go on, one after the other."""
    return tmp_path_factory.mktemp('distributed')


@pytest.fixture
def assert_equals_one_process(tmp_path, load, logged_metrics):
    """Train in this process, compare with what two processes saved."""

    def check(config, work_dir):
        first, second = (load(work_dir / f'rank{rank}.pth') for rank in (0, 1))
        assert list(first) == list(second)
        for name in first:
            assert torch.equal(first[name], second[name]), name

        cfg = Config.fromfile(config)
        cfg.merge_from_dict(
            {
                'train_dataloader.batch_size': 32,
                'train_dataloader.collate_fn': dict(type='default_collate'),
                'work_dir': str(tmp_path / 'single'),
            }
        )
        runner = Runner.from_cfg(cfg)
        initial = runner.model.backbone.conv1.weight.detach().clone()
        runner.train()
        assert runner.iter == 26
        single = runner.model.state_dict()
        assert not torch.equal(single['backbone.conv1.weight'], initial)
        for name in single:
            torch.testing.assert_close(
                single[name], first[name], atol=1e-6, rtol=1e-5, msg=name
            )
        metrics = logged_metrics(tmp_path / 'single')[-1]
        assert metrics == logged_metrics(work_dir)[-1]
        return first

    return check


def test_train_equals_one_process(
    work_dir, config, distributed, assert_equals_one_process, read_log
):
    distributed('dist_train.sh', 2, '--work-dir', work_dir)
    state = assert_equals_one_process(config, work_dir)
    assert torch.isfinite(state['head.loss_module.log_prior.value']).all()
    # Rank 0 alone logs.
    assert read_log(work_dir).count('Training labels') == 1


def test_fixed_geometry_equals_one_process(
    tmp_path, ncmc_config, launch, assert_equals_one_process
):
    work_dir = tmp_path / 'two'
    launch(ncmc_config, 'dist_train.sh', 2, '--work-dir', work_dir)
    state = assert_equals_one_process(ncmc_config, work_dir)
    # Of the 200 centres the rarest class has more than the largest.
    centers = state['head.frame.centers']
    assert centers.sum() == 200
    assert centers[0] < centers[-1]
    assert not any(name.startswith('head.bn') for name in state)


@pytest.fixture
def trained_by_two(work_dir, distributed):
    if not (work_dir / 'epoch_2.pth').exists():
        distributed('dist_train.sh', 2, '--work-dir', work_dir)
    return work_dir


def test_resume(tmp_path, trained_by_two, distributed, read_log):
    shutil.copytree(trained_by_two, tmp_path / 'work')
    options = ('--cfg-options', 'train_cfg.max_epochs=3')
    words = ('--work-dir', tmp_path / 'work', '--resume', *options)
    distributed('dist_train.sh', 2, *words)
    log = read_log(tmp_path / 'work')
    assert 'resumed epoch: 2, iter: 26' in log
    assert (tmp_path / 'work' / 'epoch_3.pth').exists()


def test_test_equals_one_process(
    tmp_path, trained_by_two, config, distributed, tool, logged_metrics
):
    checkpoint = trained_by_two / 'epoch_2.pth'
    out = ('--out-item', 'metrics', '--out')
    distributed('dist_test.sh', checkpoint, 2, *out, tmp_path / 'two.json')
    tool('test', config, checkpoint, *out, tmp_path / 'one.json')
    two, one = (mmengine.load(tmp_path / f'{n}.json') for n in ('two', 'one'))
    assert one == two
    assert one == logged_metrics(trained_by_two)[-1]
    # Of 333 samples, none lost or counted twice.
    assert one['shot/accuracy'] * 3.33 == pytest.approx(
        round(one['shot/accuracy'] * 3.33)
    )


@pytest.mark.parametrize(
    'name, count',
    [
        ('dist_train.sh', 2),
        ('dist_test.sh', 3),
        ('slurm_train.sh', 4),
        ('slurm_test.sh', 4),
    ],
)
def test_usage(tmp_path, command, name, count):
    words = ['x'] * (count - 1)
    result = command('bash', TOOLS / name, *words, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert f'{name}' in result.stderr
    assert result.stderr.startswith('usage: ')


@pytest.mark.parametrize(
    'gpus, tasks', [({}, 8), ({'GPUS_PER_NODE': '0'}, 16)]
)
@pytest.mark.parametrize('name', ['train', 'test'])
def test_slurm(tmp_path, command, name, gpus, tasks):
    """What the slurm scripts ask of ``srun``."""
    (tmp_path / 'srun').write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / 'srun').chmod(0o755)
    result = command(
        'bash',
        '-c',
        f'PATH={tmp_path}:$PATH exec "$0" "$@"',
        TOOLS / f'slurm_{name}.sh',
        'gpu-part',
        'job',
        'config.py',
        'target',
        '--resume',
        cwd=tmp_path,
        GPUS='16',
        **gpus,
        SRUN_ARGS='--time 1 --exclusive',
    )
    words = result.stdout.split('\n')
    assert words[:2] == ['-p', 'gpu-part']
    assert ('--gres=gpu:8' in words) == (not gpus)
    expected = ('--ntasks=16', f'--ntasks-per-node={tasks}', '--time', '1')
    for word in expected:
        assert word in words
    start = words.index('python')
    script = f'{TOOLS}/{name}.py'
    target = '--work-dir=target' if name == 'train' else 'target'
    assert words[start:-1] == [
        'python',
        '-u',
        script,
        'config.py',
        target,
        '--launcher=slurm',
        '--resume',
    ]
