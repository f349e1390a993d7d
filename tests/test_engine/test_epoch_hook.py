# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""When modules are told of epochs."""

import pytest
import torch
from mmengine.runner import Runner

from mmgeom.models.heads import LinearHead
from mmgeom.registry import MODELS


@MODELS.register_module(force=True)
class DiaryHead(LinearHead):
    """Writes down what it is told, and after which training step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer('closed', torch.zeros(()))
        self.diary = []
        self.steps = 0

    def loss(self, *args, **kwargs):
        self.steps += 1
        return super().loss(*args, **kwargs)

    def before_epoch(self, epoch, max_epochs):
        self.diary.append(('before', self.steps, epoch, max_epochs))

    def forget_epoch(self):
        self.forgotten = self.steps

    def after_epoch(self, epoch):
        self.diary.append(('after', self.steps, epoch))
        self.closed += 1

    def reset_epochs(self):
        self.diary.append(('reset',))
        self.closed.zero_()


HEAD = {'model.head.type': 'mmgeom.DiaryHead'}
ITERATIONS = {
    'train_cfg': dict(
        _delete_=True, by_epoch=False, max_iters=10, val_interval=100
    ),
    'param_scheduler': dict(_delete_=True, type='ConstantLR', by_epoch=False),
    'train_dataloader.sampler': dict(type='InfiniteSampler', shuffle=True),
    'train_dataloader.batch_size': 120,
    'default_hooks.checkpoint.by_epoch': False,
    'default_hooks.checkpoint.interval': 6,
    'default_hooks.checkpoint.save_best': None,
    'default_hooks.logger.log_metric_by_epoch': False,
    'log_processor': dict(by_epoch=False),
}


def test_epochs(train, tmp_path, load):
    runner = train(tmp_path, HEAD)
    head = runner.model.head
    length = len(runner.train_dataloader)
    assert head.diary == [
        ('reset',),
        ('before', 0, 0, 2),
        ('after', length, 0),
        ('before', length, 1, 2),
        ('after', 2 * length, 1),
    ]
    assert head.forgotten == length
    # The work of an epoch is in the checkpoint of that epoch.
    state = load(tmp_path / 'epoch_1.pth')['state_dict']
    assert state['head.closed'] == 1


def resume(runner_config, folder, checkpoint, options):
    cfg = runner_config(folder, options)
    cfg.load_from, cfg.resume = str(checkpoint), True
    runner = Runner.from_cfg(cfg)
    runner.train()
    return runner.model.head


def test_resumed_epochs(train, runner_config, tmp_path):
    train(tmp_path / 'first', HEAD)
    options = {**HEAD, 'train_cfg.max_epochs': 3}
    checkpoint = tmp_path / 'first' / 'epoch_2.pth'
    head = resume(runner_config, tmp_path / 'second', checkpoint, options)
    assert [entry[::2] for entry in head.diary] == [
        ('before', 2),
        ('after', 2),
    ]
    assert head.closed == 3


def test_resuming_where_nothing_was_saved_starts_anew(train, tmp_path):
    head = train(tmp_path, {**HEAD, 'resume': True}).model.head
    assert head.diary[0] == ('reset',)


def test_iterations(train, runner_config, tmp_path):
    """435 images in batches of 120 are epochs of four iterations."""
    runner = train(tmp_path / 'first', {**HEAD, **ITERATIONS})
    expected = [
        ('before', 0, 0, 3),
        ('after', 4, 0),
        ('before', 4, 1, 3),
        ('after', 8, 1),
        ('before', 8, 2, 3),
    ]
    assert 360 < len(runner.train_dataloader.dataset) <= 480
    assert runner.model.head.diary == [('reset',), *expected]

    checkpoint = tmp_path / 'first' / 'iter_6.pth'
    head = resume(
        runner_config, tmp_path / 'second', checkpoint, {**HEAD, **ITERATIONS}
    )
    assert head.diary == [
        ('before', 0, 1, 3),
        ('after', 2, 1),
        ('before', 2, 2, 3),
    ]
    assert head.closed == 2
    # Not what was collected before iteration 6, in the middle of an epoch.
    assert head.forgotten == 2


def test_training_from_weights_starts_anew(train, tmp_path):
    train(tmp_path / 'first', HEAD)
    options = {**HEAD, 'load_from': str(tmp_path / 'first' / 'epoch_2.pth')}
    head = train(tmp_path / 'second', options).model.head
    assert head.diary[0] == ('reset',)
    assert head.closed == 2


@pytest.mark.parametrize('name', ['before_epoch', 'after_epoch'])
def test_modules_without_epoch_work_are_left_alone(name, train, tmp_path):
    runner = train(tmp_path, {'train_cfg.max_epochs': 1})
    assert not hasattr(runner.model.head, name)
