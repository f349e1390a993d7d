# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from unittest.mock import MagicMock

import pytest
import torch
from mmengine.model import BaseModel, is_model_wrapper
from mmengine.runner import Runner
from mmengine.visualization import Visualizer
from torch import nn

from mmgeom.distribution import LabelDistribution
from mmgeom.registry import DATASETS

IMBALANCE = 'train_dataloader.dataset.dataset.imbalance_factor'
EMA = [
    pytest.param(None, id='no-ema'),
    pytest.param(False, id='ema'),
    pytest.param(True, id='ema-with-buffers'),
]
POST_HOC = {
    'model.head.loss': dict(_delete_=True, type='CrossEntropyLoss'),
    'model.head.post_hoc_tau': 1.0,
}


def ema(update_buffers):
    """Settings of a run with an averaged model, or of one without."""
    if update_buffers is None:
        return {}
    hook = dict(type='EMAHook', momentum=0.1, update_buffers=update_buffers)
    return {'custom_hooks': [hook]}


def training_labels(cfg):
    """The distribution of a config's training data."""
    return LabelDistribution.from_dataset(
        DATASETS.build(cfg.train_dataloader.dataset)
    )


def loss_prior(model):
    if is_model_wrapper(model):
        model = model.module
    return model.head.loss_module.log_prior.value


def shot_metric(runner, mode):
    return getattr(runner, f'{mode}_evaluator').metrics[0]


def rewrite(source, target, change):
    """Copy a checkpoint, with changes."""
    checkpoint = torch.load(source, weights_only=False)
    change(checkpoint)
    torch.save(checkpoint, target)
    return target


def without_distribution(checkpoint):
    del checkpoint['label_distribution']
    for name in list(checkpoint['state_dict']):
        if 'log_prior' in name:
            del checkpoint['state_dict'][name]


def without_log_priors(checkpoint):
    for name in list(checkpoint['state_dict']):
        if 'log_prior' in name:
            del checkpoint['state_dict'][name]


class TestHandingOut:
    def test_training(self, tmp_path, train, read_log, load):
        runner = train(tmp_path)
        expected = training_labels(runner.cfg)
        assert expected.counts.tolist()[0] == 128
        assert torch.equal(
            loss_prior(runner.model), expected.log_prior.float()
        )
        assert shot_metric(runner, 'val').label_distribution == expected
        for name in ('epoch_1.pth', 'epoch_2.pth'):
            checkpoint = load(tmp_path / name)
            saved = checkpoint['label_distribution']
            assert saved == expected.to_dict()
            prior = checkpoint['state_dict'][
                'head.loss_module.log_prior.value'
            ]
            assert torch.equal(prior, loss_prior(runner.model))
        log = read_log(tmp_path)
        assert log.count('Training labels') == 1
        assert 'overall        10       435       128          6' in log
        assert 'imbalance factor 21.33' in log
        scalars = runner.message_hub.log_scalars
        assert scalars['val/shot/accuracy_few'].data[0].size == 2

    def test_same_runner_tests_after_training(self, tmp_path, train, read_log):
        runner = train(tmp_path)
        runner.test()
        assert shot_metric(runner, 'test').label_distribution == (
            training_labels(runner.cfg)
        )
        assert 'tells no label distribution' not in read_log(tmp_path)

    def test_groups_of_the_table(self, tmp_path, train, read_log):
        groups = dict(by='thirds')
        train(
            tmp_path,
            {
                'default_hooks.label_distribution.groups': groups,
                'train_cfg.max_epochs': 1,
            },
        )
        table = read_log(tmp_path).split('Training labels')[1]
        rows = [line.split() for line in table.splitlines()[3:7]]
        assert [row[0] for row in rows] == ['overall', 'many', 'medium', 'few']
        assert sum(int(row[1]) for row in rows[1:]) == 10

    def test_empty_class_on_request(self, tmp_path, train):
        counts = [60, 50, 40, 30, 20, 10, 5, 3, 1, 0]
        runner = train(
            tmp_path,
            {
                'train_dataloader.dataset.dataset': dict(
                    counts=counts, imbalance_factor=None
                ),
                'default_hooks.label_distribution.allow_empty_classes': True,
                'train_cfg.max_epochs': 1,
            },
        )
        prior = loss_prior(runner.model)
        assert torch.isfinite(prior).all()
        # A class without a sample counts as one with a single sample.
        assert prior[9] == prior[8]


class TestCheckpoints:
    def test_resume_with_other_data(self, tmp_path, trained, train):
        message = (
            r'^cannot resume: the training data of the checkpoint had 435 '
            r'samples in 10 classes .*, the config now gives 523 samples in '
            r'10 classes .*; restore the data, or start anew .* load_from\.$'
        )
        with pytest.raises(ValueError, match=message):
            train(
                tmp_path,
                {
                    IMBALANCE: 10,
                    'load_from': str(trained / 'epoch_1.pth'),
                    'resume': True,
                },
            )

    @pytest.mark.parametrize('update_buffers', EMA)
    def test_load_from_with_other_data(
        self, tmp_path, train, load, update_buffers
    ):
        first = train(tmp_path / 'first', ema(update_buffers))
        options = {
            IMBALANCE: 10,
            'load_from': str(tmp_path / 'first' / 'epoch_2.pth'),
            'train_cfg.max_epochs': 1,
            **ema(update_buffers),
        }
        second = train(tmp_path / 'second', options)
        expected = training_labels(second.cfg).log_prior.float()
        assert not torch.equal(expected, loss_prior(first.model))
        assert torch.equal(loss_prior(second.model), expected)
        checkpoint = load(tmp_path / 'second' / 'epoch_1.pth')
        states = [checkpoint['state_dict']]
        if update_buffers is not None:
            average = checkpoint['ema_state_dict']
            states.append(
                {k.removeprefix('module.'): v for k, v in average.items()}
            )
        for state in states:
            value = state['head.loss_module.log_prior.value']
            torch.testing.assert_close(value, expected, atol=1e-6, rtol=0)

    def test_load_from_other_number_of_classes(self, tmp_path, trained, train):
        def change(checkpoint):
            checkpoint['label_distribution'] = LabelDistribution(
                [5, 4, 3]
            ).to_dict()

        other = rewrite(trained / 'epoch_2.pth', tmp_path / 'x.pth', change)
        groups = dict(by='range', ranges=dict(many=(0, 5), few=(5, 10)))
        runner = train(
            tmp_path / 'run',
            {
                'load_from': str(other),
                'val_evaluator.groups': dict(_delete_=True, **groups),
                'train_cfg.max_epochs': 1,
            },
        )
        assert shot_metric(runner, 'val').label_distribution == (
            training_labels(runner.cfg)
        )

    def test_groups_come_from_the_checkpoint(
        self, tmp_path, trained, evaluate, load, logged_metrics, read_log
    ):
        metrics, runner = evaluate(
            tmp_path, trained / 'epoch_2.pth', {IMBALANCE: 1}
        )
        saved = load(trained / 'epoch_2.pth')
        distribution = shot_metric(runner, 'test').label_distribution
        assert distribution.to_dict() == saved['label_distribution']
        assert metrics == logged_metrics(trained)[-1]
        assert 'shot/accuracy_few' in metrics
        assert 'tells no label distribution' not in read_log(tmp_path)

    def test_validation_alone(self, tmp_path, trained, runner_config, load):
        # The host's CheckpointHook cannot save the best without training.
        options = {IMBALANCE: 1, 'default_hooks.checkpoint.save_best': None}
        cfg = runner_config(tmp_path, options)
        cfg.load_from = str(trained / 'epoch_2.pth')
        runner = Runner.from_cfg(cfg)
        assert 'shot/accuracy_few' in runner.val()
        saved = load(trained / 'epoch_2.pth')['label_distribution']
        distribution = shot_metric(runner, 'val').label_distribution
        assert distribution.to_dict() == saved

    def test_checkpoint_without_distribution(
        self, tmp_path, trained, evaluate, read_log
    ):
        plain = rewrite(
            trained / 'epoch_2.pth', tmp_path / 'x.pth', without_distribution
        )
        metrics, runner = evaluate(tmp_path / 'run', plain, {IMBALANCE: 10})
        assert shot_metric(runner, 'test').label_distribution == (
            training_labels(runner.cfg)
        )
        assert 'shot/accuracy_few' in metrics
        assert 'tells no label distribution; counting the training' in (
            read_log(tmp_path / 'run')
        )

    @pytest.mark.parametrize(
        'dataset, reason',
        [
            (
                dict(type='mmgeom.FashionMNIST', data_root='nowhere'),
                'does not exist',
            ),
            (
                dict(
                    type='CIFAR10',
                    data_root='nowhere',
                    split='train',
                    download=False,
                ),
                'Cannot find CIFAR10',
            ),
        ],
        ids=['FashionMNIST', 'CIFAR10'],
    )
    def test_missing_training_data_only_warn(
        self, tmp_path, trained, evaluate, read_log, dataset, reason
    ):
        plain = rewrite(
            trained / 'epoch_2.pth', tmp_path / 'x.pth', without_distribution
        )
        options = {
            'train_dataloader.dataset': dict(
                _delete_=True, **dataset, pipeline=[]
            )
        }
        metrics, _ = evaluate(tmp_path / 'run', plain, options)
        assert set(metrics) == {'shot/accuracy', 'shot/accuracy_class_mean'}
        log = read_log(tmp_path / 'run')
        warning = next(
            line for line in log.splitlines() if 'WARNING - No label' in line
        )
        assert reason in warning

    @pytest.mark.parametrize('update_buffers', EMA)
    @pytest.mark.parametrize(
        'change, factor',
        [(without_log_priors, 20), (without_distribution, 10)],
        ids=['told-by-checkpoint', 'counted'],
    )
    def test_priors_for_weights_without(
        self, tmp_path, trained, evaluate, change, factor, update_buffers
    ):
        """Weights of another head get priors when they are tested."""
        plain = rewrite(trained / 'epoch_2.pth', tmp_path / 'x.pth', change)
        options = {IMBALANCE: 10, **POST_HOC, **ema(update_buffers)}
        _, runner = evaluate(tmp_path / 'run', plain, options)
        runner.cfg.train_dataloader.dataset.dataset.imbalance_factor = factor
        expected = training_labels(runner.cfg).log_prior.float()
        assert torch.equal(runner.model.head.log_prior.value, expected)


class TestAveragedModel:
    @pytest.mark.parametrize('update_buffers', EMA[1:])
    def test_train_resume_and_test(
        self, tmp_path, train, evaluate, load, logged_metrics, update_buffers
    ):
        options = ema(update_buffers)
        whole = train(tmp_path / 'whole', options)
        prior = loss_prior(whole.model)
        checkpoint = load(tmp_path / 'whole' / 'epoch_2.pth')
        for part in ('state_dict', 'ema_state_dict'):
            values = [
                value
                for name, value in checkpoint[part].items()
                if 'log_prior' in name
            ]
            assert len(values) == 2
            for value in values:
                torch.testing.assert_close(value, prior, atol=1e-6, rtol=0)
        resumed = train(
            tmp_path / 'resumed',
            {
                **options,
                'resume': True,
                'load_from': str(tmp_path / 'whole' / 'epoch_1.pth'),
            },
        )
        assert torch.equal(loss_prior(resumed.model), prior)
        metrics, _ = evaluate(
            tmp_path / 'test', tmp_path / 'whole' / 'epoch_2.pth', options
        )
        assert metrics == logged_metrics(tmp_path / 'whole')[-1]
        assert metrics == logged_metrics(tmp_path / 'resumed')[-1]


@pytest.fixture
def process_group(tmp_path, monkeypatch):
    """A process group of one process."""
    monkeypatch.setenv('LOCAL_RANK', '0')
    torch.distributed.init_process_group(
        'gloo', f'file://{tmp_path}/store', rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize('update_buffers', EMA)
def test_model_wrapper(
    tmp_path, process_group, train, evaluate, update_buffers
):
    wrapper = dict(
        type='MMDistributedDataParallel',
        device_ids=None,
        broadcast_buffers=False,
    )
    options = {
        'launcher': 'pytorch',
        'model_wrapper_cfg': wrapper,
        'train_cfg.max_epochs': 1,
        **ema(update_buffers),
    }
    runner = train(tmp_path / 'run', options)
    assert is_model_wrapper(runner.model)
    expected = training_labels(runner.cfg).log_prior.float()
    assert torch.equal(loss_prior(runner.model), expected)
    checkpoint = tmp_path / 'run' / 'epoch_1.pth'
    metrics, _ = evaluate(tmp_path / 'test', checkpoint, options)
    assert 'shot/accuracy_few' in metrics


class ToyModel(BaseModel):
    """A model without a head, which trains on anything."""

    def __init__(self):
        super().__init__()
        self.data_preprocessor = nn.Identity()
        self.layer = nn.Linear(1, 1)

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return inputs

    def train_step(self, data, optim_wrapper):
        return {}


class ToyRegressor(ToyModel):
    """A model that takes the label distribution."""

    def set_label_distribution(self, distribution):
        self.distribution = distribution


class Values(torch.utils.data.Dataset):
    """Regression data."""

    targets = (0.2, 0.4, 1.6, 3.9)

    def get_gt_values(self):
        return self.targets

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, idx):
        return torch.zeros(1)


def toy_runner(work_dir, model, dataloader, hooks, **kwargs):
    """A runner as the host's tools build it, without a whole config."""
    return Runner(
        model=model,
        work_dir=str(work_dir),
        train_dataloader=dataloader,
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
        default_scope='mmpretrain',
        default_hooks=dict(logger=None),
        visualizer=MagicMock(spec=Visualizer),
        custom_hooks=hooks,
        experiment_name=f'toy_{work_dir.name}',
        **kwargs,
    )


def test_regression_bins(tmp_path, read_log, load):
    hooks = [
        dict(type='mmgeom.LabelDistributionHook', bins=dict(width=1.0)),
        dict(type='mmgeom.CheckpointCheckHook'),
    ]
    model = ToyRegressor()
    loader = torch.utils.data.DataLoader(Values(), batch_size=2)
    toy_runner(tmp_path, model, loader, hooks).train()
    # Bins of this width are centred at whole numbers.
    assert model.distribution.counts.tolist() == [2, 0, 1, 0, 1]
    assert len(model.distribution.bins) == 5
    saved = load(tmp_path / 'epoch_1.pth')['label_distribution']
    assert LabelDistribution.from_dict(saved) == model.distribution
    assert 'bins' in read_log(tmp_path)

    class Shifted(Values):
        targets = (0.2, 0.4, 1.6, 2.9)

    loader = torch.utils.data.DataLoader(Shifted(), batch_size=2)
    runner = toy_runner(
        tmp_path / 'resumed',
        ToyRegressor(),
        loader,
        hooks,
        load_from=str(tmp_path / 'epoch_1.pth'),
        resume=True,
    )
    with pytest.raises(ValueError, match=r'in 5 bins .* in 4 bins'):
        runner.train()


def test_runner_without_head_is_left_alone(tmp_path, load):
    """The host's vis_scheduler.py runs hooks on such a model and data."""

    class FakeDataloader(list):
        dataset = MagicMock(metainfo=None)

    hooks = [
        dict(type='mmgeom.LabelDistributionHook'),
        dict(type='mmgeom.CheckpointCheckHook'),
    ]
    runner = toy_runner(tmp_path, ToyModel(), FakeDataloader(range(3)), hooks)
    runner.train()
    assert 'label_distribution' not in load(tmp_path / 'epoch_1.pth')


def test_hook_needs_no_training_data_to_test(tmp_path, trained, runner_config):
    cfg = runner_config(tmp_path)
    for name in ('train_dataloader', 'train_cfg', 'optim_wrapper'):
        cfg[name] = None
    cfg.param_scheduler = None
    cfg.load_from = str(trained / 'epoch_2.pth')
    assert 'shot/accuracy_few' in Runner.from_cfg(cfg).test()
