# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Training in two parts equals training in one, bit for bit."""

import pytest
import torch
from mmengine.config import Config

import mmgeom

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='kernels of a GPU are not repeatable'
)
EPOCHS = {'train_cfg.max_epochs': 4}
SAMPLER = 'train_dataloader.sampler'


def rebalanced(strategy, **kwargs):
    return dict(
        _delete_=True,
        type='mmgeom.RebalancedSampler',
        strategy=strategy,
        **kwargs,
    )


ITERATIONS = {
    'train_cfg': dict(
        _delete_=True, by_epoch=False, max_iters=12, val_interval=4
    ),
    'param_scheduler': dict(
        type='CosineAnnealingLR', by_epoch=False, T_max=12
    ),
    'default_hooks.checkpoint.by_epoch': False,
    'default_hooks.checkpoint.interval': 6,
    'log_processor': dict(by_epoch=False),
    # Chunks of 100 draws end between batches and between the two parts.
    SAMPLER: dict(
        _delete_=True,
        type='mmgeom.InfiniteRebalancedSampler',
        strategy='progressive',
        max_epochs=8,
        num_samples=100,
    ),
}


def fixed_geometry(config):
    """Head and optimizer of a config, on the features of the tiny run."""
    cfg = Config.fromfile(mmgeom.config_path(config)).to_dict()
    head = dict(cfg['model']['head'], in_channels=16, _delete_=True)
    return {
        **EPOCHS,
        'model.head': head,
        'optim_wrapper': dict(cfg['optim_wrapper'], _delete_=True),
    }


CASES = {
    'shuffled': (EPOCHS, 'epoch_2.pth', 'epoch_4.pth'),
    'class-balanced': (
        {**EPOCHS, SAMPLER: rebalanced('class_balanced')},
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'progressive': (
        {**EPOCHS, SAMPLER: rebalanced('progressive', max_epochs=4)},
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'averaged': (
        {
            **EPOCHS,
            'custom_hooks': [dict(type='EMAHook', momentum=0.1)],
        },
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'cosine-head': (
        {
            **EPOCHS,
            'model.head.type': 'mmgeom.CosineHead',
            'model.head.learn_scale': True,
        },
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'ncmc': (
        fixed_geometry(
            'quickstart/ncmc-cal_resnet20_1xb64-60e_digits-lt-if20.py'
        ),
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'etf': (
        fixed_geometry('setf/setf_resnet32_1xb128-200e_cifar10-lt-if100.py'),
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'rbl': (
        fixed_geometry('rbl/rbl_resnet32_1xb128-200e_cifar10-lt-if100.py'),
        'epoch_2.pth',
        'epoch_4.pth',
    ),
    'iterations': (ITERATIONS, 'iter_6.pth', 'iter_12.pth'),
}


def assert_same(first, second, where=''):
    """Compare nested checkpoints, tensors bit for bit."""
    assert type(first) is type(second), where
    if isinstance(first, dict):
        assert list(first) == list(second), where
        for key in first:
            assert_same(first[key], second[key], f'{where}.{key}')
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), where
        for index, pair in enumerate(zip(first, second)):
            assert_same(*pair, f'{where}[{index}]')
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second), where
    else:
        assert first == second, where


@pytest.mark.parametrize('case', list(CASES))
def test_two_parts_equal_the_whole(
    tmp_path, train, load, logged_metrics, case
):
    options, middle, end = CASES[case]
    train(tmp_path / 'whole', options)
    resume = {
        'load_from': str(tmp_path / 'whole' / middle),
        'resume': True,
    }
    train(tmp_path / 'part', {**options, **resume})

    whole, part = (load(tmp_path / name / end) for name in ('whole', 'part'))
    names = ['state_dict', 'optimizer', 'param_schedulers']
    names += ['label_distribution']
    if case == 'averaged':
        names.append('ema_state_dict')
    for name in names:
        assert_same(whole[name], part[name], name)
    assert whole['meta']['iter'] == part['meta']['iter']
    # Something was learnt in the second part, or equality says nothing.
    before = load(tmp_path / 'whole' / middle)['state_dict']
    weight = 'backbone.conv1.weight'
    assert not torch.equal(before[weight], whole['state_dict'][weight])

    assert (
        logged_metrics(tmp_path / 'whole')[-1]
        == (logged_metrics(tmp_path / 'part')[-1])
    )


def test_progressive_sampler_moves_on(tmp_path, train):
    """The strategy continues where it was, it does not begin again."""
    options, middle, _ = CASES['progressive']
    train(tmp_path / 'whole', options)
    runner = train(
        tmp_path / 'part',
        {
            **options,
            'load_from': str(tmp_path / 'whole' / middle),
            'resume': True,
        },
    )
    sampler = runner.train_dataloader.sampler
    assert sampler.epoch == 3
    probability = sampler.class_probability(sampler.epoch)
    torch.testing.assert_close(
        probability, torch.full((10,), 0.1, dtype=torch.float64)
    )


def test_a_run_made_shorter_goes_on_as_if_it_had_not_been(
    tmp_path, train, load
):
    """The schedules state their end; mmengine would freeze the rate."""
    train(tmp_path / 'whole', EPOCHS)
    train(tmp_path / 'part', {'train_cfg.max_epochs': 2})
    resume = {
        'load_from': str(tmp_path / 'part' / 'epoch_2.pth'),
        'resume': True,
    }
    train(tmp_path / 'part', {**EPOCHS, **resume})
    whole, part = (
        load(tmp_path / name / 'epoch_4.pth') for name in ('whole', 'part')
    )
    for name in ('state_dict', 'optimizer'):
        assert_same(whole[name], part[name], name)
