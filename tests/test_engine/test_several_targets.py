# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Regression of several targets, with the hooks of our runtime."""

import pytest
from mmengine.runner import Runner
from tabular_runs import tabular_config

LOADER = dict(
    dataset=dict(type='mmgeom.StandInRows', num_targets=3),
    sampler=dict(type='DefaultSampler', shuffle=False),
    batch_size=8,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
)
METRIC = dict(type='mmgeom.ShotError', items=['mae'])


def config(work_dir, hook=None, **options):
    options = {
        'train_dataloader.dataset.num_targets': 3,
        'model.head.num_targets': 3,
        'default_hooks.label_distribution': dict(
            type='mmgeom.LabelDistributionHook', **(hook or {})
        ),
        'default_hooks.epoch': dict(type='mmgeom.EpochHook'),
        'val_dataloader': LOADER,
        'val_evaluator': METRIC,
        'val_cfg': dict(),
        **options,
    }
    return tabular_config(work_dir, options)


def test_training_validation_resuming_and_testing(tmp_path, load, read_log):
    Runner.from_cfg(config(tmp_path)).train()
    assert 'label_distribution' not in load(tmp_path / 'epoch_2.pth')
    cfg = config(tmp_path, resume=True, **{'train_cfg.max_epochs': 3})
    runner = Runner.from_cfg(cfg)
    runner.train()
    values = runner.val_loop.run()
    assert list(values) == ['error/mae']
    cfg = config(
        tmp_path / 'test',
        test_dataloader=LOADER,
        test_evaluator=METRIC,
        test_cfg=dict(),
        load_from=str(tmp_path / 'epoch_3.pth'),
    )
    assert Runner.from_cfg(cfg).test() == values
    log = read_log(tmp_path / 'test')
    assert 'these have 3' in log and 'cannot be read' not in log


def test_bins_are_refused(tmp_path):
    cfg = config(tmp_path, hook=dict(bins=dict(width=1.0)))
    with pytest.raises(ValueError, match='one target a sample.*leave out the'):
        Runner.from_cfg(cfg).train()


def test_one_target_still_needs_bins(tmp_path):
    cfg = config(
        tmp_path,
        **{
            'train_dataloader.dataset.num_targets': 1,
            'model.head.num_targets': 1,
        },
    )
    with pytest.raises(TypeError, match='give the bins'):
        Runner.from_cfg(cfg).train()
