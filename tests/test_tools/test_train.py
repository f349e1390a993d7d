# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import json
import re
import shutil
import sys
from pathlib import Path

import mmpretrain
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
HOST_TOOLS = Path(mmpretrain.__file__).parent / '.mim' / 'tools'


@pytest.fixture(scope='module')
def config(tmp_path_factory, write_config):
    return write_config(tmp_path_factory.mktemp('config'))


@pytest.fixture(scope='module')
def first(tmp_path_factory, config, command):
    """A folder in which the script was run, without any flag."""
    folder = tmp_path_factory.mktemp('first')
    command('python', ROOT / 'tools' / 'train.py', config, cwd=folder)
    return folder


def scalars(work_dir):
    """Logged lines of training."""
    lines = []
    for file in sorted(Path(work_dir).glob('*/*/scalars.json')):
        lines += [json.loads(line) for line in file.open()]
    return [line for line in lines if 'loss' in line]


def test_train(first, read_log, logged_metrics):
    # Without --work-dir the folder has the name of the config.
    work_dir = first / 'work_dirs' / 'tiny'
    for name in ('epoch_1.pth', 'epoch_2.pth', 'last_checkpoint', 'tiny.py'):
        assert (work_dir / name).exists()
    log = read_log(work_dir)
    assert 'overall        10       435       128          6' in log
    assert 'imbalance factor 21.33' in log
    assert log.count('ShotAccuracy in percent') == 2
    metrics = logged_metrics(work_dir)
    assert len(metrics) == 2
    assert set(metrics[-1]) == {
        'shot/accuracy',
        'shot/accuracy_class_mean',
        'shot/accuracy_many',
        'shot/accuracy_medium',
        'shot/accuracy_few',
    }
    assert list(work_dir.glob('best_shot_accuracy_class_mean_epoch_*.pth'))


def test_resume_latest(tmp_path, first, config, command, read_log):
    work_dir = tmp_path / 'work'
    shutil.copytree(first / 'work_dirs' / 'tiny', work_dir)
    command(
        'python',
        ROOT / 'tools' / 'train.py',
        config,
        '--resume',
        '--work-dir',
        work_dir,
        '--cfg-options',
        'train_cfg.max_epochs=3',
        'train_dataloader.num_workers=2',
        'val_dataloader.num_workers=2',
        cwd=tmp_path,
    )
    # last_checkpoint holds the path of the first folder.
    latest = first / 'work_dirs' / 'tiny' / 'epoch_2.pth'
    log = read_log(work_dir)
    assert 'Auto resumed from the latest checkpoint' in log
    assert (work_dir / 'epoch_3.pth').exists()
    assert latest.exists()
    assert 'resumed epoch: 2, iter: 14' in log
    assert log.count('Epoch(train) [3][7/7]') == 1
    assert log.count('Epoch(train) [2][7/7]') == 1


def test_resume_path(tmp_path, first, config, tool, read_log, logged_metrics):
    checkpoint = first / 'work_dirs' / 'tiny' / 'epoch_1.pth'
    tool(
        'train',
        config,
        '--work-dir',
        tmp_path / 'work',
        '--resume',
        checkpoint,
    )
    log = read_log(tmp_path / 'work')
    assert 'resumed epoch: 1, iter: 7' in log
    assert 'Epoch(train) [1]' not in log
    assert len(logged_metrics(tmp_path / 'work')) == 1


def test_resume_without_checkpoint(tmp_path, config, tool, read_log):
    options = ('--cfg-options', 'train_cfg.max_epochs=1')
    tool('train', config, '--work-dir', tmp_path, '--resume', *options)
    assert 'latest checkpoint None' in read_log(tmp_path)
    assert (tmp_path / 'epoch_1.pth').exists()


def test_flags(tmp_path, config, tool, logged_metrics):
    tool(
        'train',
        config,
        '--no-validate',
        '--auto-scale-lr',
        '--no-pin-memory',
        '--no-persistent-workers',
        '--work-dir',
        tmp_path,
        '--cfg-options',
        'train_dataloader.batch_size=32',
        'train_dataloader.num_workers=1',
        'train_dataloader.persistent_workers=True',
        'train_cfg.max_epochs=1',
        'randomness.seed=3',
    )
    assert logged_metrics(tmp_path) == []
    lines = scalars(tmp_path)
    assert len(lines) == 14
    # Half the batch that the learning rate 0.1 is meant for.
    assert lines[0]['lr'] == pytest.approx(0.05)


def test_load_from(tmp_path, first, config, tool, read_log):
    checkpoint = first / 'work_dirs' / 'tiny' / 'epoch_2.pth'
    options = (f'load_from={checkpoint}', 'train_cfg.max_epochs=1')
    tool('train', config, '--work-dir', tmp_path, '--cfg-options', *options)
    log = read_log(tmp_path)
    assert f'Load checkpoint from {checkpoint}' in log
    assert 'Epoch(train) [1][7/7]' in log
    # It starts where the first run ended, not at log(10).
    assert scalars(tmp_path)[0]['loss'] < 2.25


@pytest.mark.skipif(torch.cuda.is_available(), reason='it works on a GPU')
def test_amp_needs_a_gpu(tmp_path, config, tool):
    """Mixed precision is the host's, which offers it on GPUs only."""
    with pytest.raises(AssertionError, match='only available training on gpu'):
        tool('train', config, '--work-dir', tmp_path, '--amp')


def test_auto_scale_lr_needs_a_batch_size(tmp_path, write_config, tool):
    config = write_config(tmp_path, 'auto_scale_lr = None\n')
    message = '^--auto-scale-lr needs the batch size .* add auto_scale_lr='
    with pytest.raises(ValueError, match=message):
        tool('train', config, '--work-dir', tmp_path, '--auto-scale-lr')


@pytest.mark.parametrize('name', ['train', 'test'])
def test_flags_are_those_of_the_host(name, script, monkeypatch, capsys):
    source = (HOST_TOOLS / f'{name}.py').read_text()
    expected = set(re.findall(r"'(--[a-z][a-z_-]+)'", source))
    assert {'--work-dir', '--cfg-options', '--launcher'} <= expected
    monkeypatch.setattr(sys, 'argv', [f'{name}.py', '-h'])
    with pytest.raises(SystemExit) as stop:
        script(name).parse_args()
    assert stop.value.code == 0
    text = capsys.readouterr().out
    missing = {flag for flag in expected if flag not in text}
    assert missing == set()
    # mim decides by this word how it starts the script.
    assert '--gpus' not in text


def test_help_as_a_command(tmp_path, command):
    result = command('python', ROOT / 'tools' / 'train.py', '-h', cwd=tmp_path)
    for flag in ('--resume', '--amp', '--local_rank', '--local-rank'):
        assert flag in result.stdout
