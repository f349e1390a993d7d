# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.runner import Runner
from tabular_runs import StandInRows, tabular_config
from torch.testing import assert_close

from mmgeom.engine.hooks.standardization_hook import column_statistics
from mmgeom.registry import DATASETS, MODELS

DATASET = 'train_dataloader.dataset'
TARGET = 'head.target_scale'
INPUT = 'data_preprocessor.input_scale'


def train(work_dir, options=None):
    runner = Runner.from_cfg(tabular_config(work_dir, options))
    runner.train()
    return runner


def statistics(state, name):
    return state[f'{name}.mean'], state[f'{name}.std']


def assert_fits(state, dataset):
    """The statistics are those of a dataset, from plain numpy."""
    mean, std = statistics(state, TARGET)
    values = dataset.values.astype(np.float64)
    assert_close(mean, torch.tensor(values.mean(0)).float())
    assert_close(std, torch.tensor(values.std(0)).float())
    mean, std = statistics(state, INPUT)
    assert_close(mean, torch.tensor(dataset.table.mean(0)).float())
    assert_close(std[:2], torch.tensor(dataset.table.std(0)[:2]).float())
    assert std[2] == 1  # A constant column.


@pytest.mark.parametrize('targets', [1, 2, 3])
def test_handed_out_before_training(tmp_path, read_log, load, targets):
    runner = train(
        tmp_path,
        {
            f'{DATASET}.num_targets': targets,
            'model.head.num_targets': targets,
        },
    )
    dataset = StandInRows(num_targets=targets)
    assert_fits(runner.model.state_dict(), dataset)
    for name in ('epoch_1.pth', 'epoch_2.pth'):
        assert_fits(load(tmp_path / name)['state_dict'], dataset)
    log = read_log(tmp_path)
    assert log.count('Standardization: targets with mean') == 1
    assert f'mean {dataset.values[:, 0].mean():.4g}' in log
    losses = runner.message_hub.get_scalar('train/loss').data[0]
    # In units of the standard deviation, and it is learnt.
    assert 0.3 < np.mean(losses[:4]) < 3
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    mae = runner.message_hub.get_scalar('train/mae').data[0]
    assert len(mae) == 8


def test_wide_tables_are_only_counted(tmp_path, read_log, monkeypatch):
    monkeypatch.setattr(
        'mmgeom.engine.hooks.standardization_hook._SHOWN_COLUMNS', 2
    )
    train(tmp_path, {'train_cfg.max_epochs': 1})
    assert '; inputs with 3 columns' in read_log(tmp_path)


@pytest.mark.parametrize('update_buffers', [None, False, True])
def test_two_parts_equal_the_whole(tmp_path, load, update_buffers):
    options = {'train_cfg.max_epochs': 4}
    names = ['state_dict', 'optimizer']
    if update_buffers is not None:
        options['custom_hooks'] = [
            dict(type='mmgeom.StandardizationHook'),
            dict(type='EMAHook', momentum=0.1, update_buffers=update_buffers),
        ]
        names.append('ema_state_dict')
    train(tmp_path / 'whole', options)
    middle = tmp_path / 'whole' / 'epoch_2.pth'
    train(
        tmp_path / 'part',
        {**options, 'load_from': str(middle), 'resume': True},
    )
    whole, part = (
        load(tmp_path / name / 'epoch_4.pth') for name in ('whole', 'part')
    )
    for name in names:
        torch.testing.assert_close(whole[name], part[name], rtol=0, atol=0)
    assert_fits(whole['state_dict'], StandInRows())
    weight = 'head.fc.weight'
    before = load(middle)['state_dict'][weight]
    assert not torch.equal(before, whole['state_dict'][weight])


def test_resuming_does_not_look_at_the_data(tmp_path, monkeypatch):
    train(tmp_path / 'first')
    monkeypatch.setattr(StandInRows, 'get_inputs', None)
    monkeypatch.setattr(StandInRows, 'get_gt_values', None)
    resume = {
        'load_from': str(tmp_path / 'first' / 'epoch_1.pth'),
        'resume': True,
    }
    runner = train(tmp_path / 'second', resume)
    assert_fits(runner.model.state_dict(), StandInRows())


def test_resuming_where_nothing_was_saved_starts_anew(tmp_path):
    runner = train(tmp_path, {'resume': True})
    assert runner.model.data_preprocessor.input_scale.is_fitted


def test_other_data_from_the_weights_of_a_checkpoint(tmp_path):
    train(tmp_path / 'first')
    other = {f'{DATASET}.unit': 100.0, f'{DATASET}.num_samples': 50}
    runner = train(
        tmp_path / 'second',
        {**other, 'load_from': str(tmp_path / 'first' / 'epoch_2.pth')},
    )
    assert_fits(
        runner.model.state_dict(), StandInRows(unit=100.0, num_samples=50)
    )


@pytest.mark.parametrize('update_buffers', [False, True])
def test_averages_of_models_get_them_too(tmp_path, load, update_buffers):
    hook = dict(type='EMAHook', momentum=0.1, update_buffers=update_buffers)
    train(
        tmp_path,
        {'custom_hooks': [dict(type='mmgeom.StandardizationHook'), hook]},
    )
    checkpoint = load(tmp_path / 'epoch_1.pth')
    assert_fits(checkpoint['state_dict'], StandInRows())
    averaged = {
        name.removeprefix('module.'): value
        for name, value in checkpoint['ema_state_dict'].items()
    }
    assert_fits(averaged, StandInRows())


def test_a_checkpoint_is_enough(tmp_path):
    """Evaluation of a model that knows nothing of its training data."""
    trained = train(tmp_path).model.eval()
    cfg = tabular_config(tmp_path / 'test')
    for key in list(cfg):
        if key.startswith(('train_', 'optim_')):
            cfg.pop(key)
    cfg.test_dataloader = dict(
        dataset=dict(type='mmgeom.StandInRows'),
        sampler=dict(type='DefaultSampler', shuffle=False),
        batch_size=30,
        num_workers=0,
        collate_fn=dict(type='default_collate'),
    )
    cfg.test_cfg = dict()
    cfg.test_evaluator = dict(
        type='DumpResults', out_file_path=str(tmp_path / 'out.pkl')
    )
    cfg.load_from = str(tmp_path / 'epoch_2.pth')
    runner = Runner.from_cfg(cfg)
    batch = next(iter(runner.test_dataloader))
    runner.test()
    with torch.no_grad():
        expected = torch.stack(
            [sample.pred_score for sample in trained.test_step(batch)]
        )
        batch = next(iter(runner.test_dataloader))
        values = torch.stack(
            [sample.pred_score for sample in runner.model.test_step(batch)]
        )
    assert torch.equal(values, expected)
    # In original units: about the mean of the targets after two epochs.
    truth = StandInRows().values
    assert abs(values.mean() - truth.mean()) < 3 * truth.std()


def test_checkpoint_without_statistics(tmp_path, load):
    train(tmp_path / 'first')
    checkpoint = load(tmp_path / 'first' / 'epoch_1.pth')
    del checkpoint['state_dict'][f'{TARGET}.mean']
    torch.save(checkpoint, tmp_path / 'broken.pth')
    resume = {'load_from': str(tmp_path / 'broken.pth'), 'resume': True}
    with pytest.raises(ValueError, match=f'{TARGET}.mean is missing'):
        train(tmp_path / 'second', resume)


def test_only_what_is_asked_for_is_read(tmp_path, monkeypatch, read_log):
    monkeypatch.setattr(StandInRows, 'get_inputs', None)
    runner = train(
        tmp_path / 'targets', {'data_preprocessor.standardize': False}
    )
    assert runner.model.head.target_scale.is_fitted
    assert 'inputs with' not in read_log(tmp_path / 'targets')
    monkeypatch.setattr(StandInRows, 'get_gt_values', None)
    runner = train(
        tmp_path / 'nothing',
        {
            'data_preprocessor.standardize': False,
            'model.head.scale_targets': False,
        },
    )
    assert not runner.model.head.target_scale.is_fitted
    assert 'Standardization:' not in read_log(tmp_path / 'nothing')


def test_a_model_of_classes_may_keep_the_hook(tmp_path, train, read_log):
    hooks = [dict(type='mmgeom.StandardizationHook')]
    train(tmp_path, {'custom_hooks': hooks, 'train_cfg.max_epochs': 1})
    assert 'Standardization:' not in read_log(tmp_path)


def test_wrapped_datasets(tmp_path):
    """Each sample counts as often as the wrapper shows it."""
    parts = [
        dict(type='mmgeom.StandInRows', num_samples=20),
        dict(
            type='RepeatDataset',
            times=2,
            dataset=dict(type='mmgeom.StandInRows', num_samples=10),
        ),
    ]
    runner = train(
        tmp_path,
        {DATASET: dict(_delete_=True, type='ConcatDataset', datasets=parts)},
    )
    values = StandInRows().values
    values = np.concatenate([values[:20], values[:10], values[:10]])
    mean, std = statistics(runner.model.state_dict(), TARGET)
    assert_close(mean, torch.tensor(values.mean(0)).float())
    assert_close(std, torch.tensor(values.std(0)).float())


# Errors ----------------------------------------------------------------------
def test_target_that_is_no_number(tmp_path):
    with pytest.raises(
        ValueError, match='the target of training sample 7 is nan in column 0'
    ):
        train(tmp_path, {f'{DATASET}.bad_target': 7})


def test_input_that_is_not_finite(tmp_path):
    with pytest.raises(
        ValueError, match='the input of training sample 4 is inf in column 1'
    ):
        train(tmp_path, {f'{DATASET}.bad_input': 4})


def test_without_the_hook_a_bad_target_is_found_in_its_batch(tmp_path):
    options = {
        f'{DATASET}.bad_target': 7,
        'custom_hooks': [],
        'data_preprocessor.standardize': False,
    }
    with pytest.raises(ValueError, match='the target of sample 7 is'):
        train(tmp_path, options)


def test_without_the_hook(tmp_path):
    with pytest.raises(RuntimeError, match='mmgeom.StandardizationHook'):
        train(tmp_path, {'custom_hooks': []})


def test_dataset_without_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(StandInRows, 'get_inputs', None)
    with pytest.raises(
        TypeError, match='cannot read input rows from StandInRows: give it'
    ):
        train(tmp_path)


def test_other_numbers_of_columns(tmp_path):
    with pytest.raises(ValueError, match='has 2 targets a sample'):
        train(tmp_path / 'targets', {f'{DATASET}.num_targets': 2})
    with pytest.raises(ValueError, match='has 3 columns: set in_channels=3'):
        train(tmp_path / 'inputs', {'data_preprocessor.in_channels': 4})


@pytest.mark.parametrize('targets', [1, 2])
def test_constant_target(tmp_path, read_log, targets):
    options = {
        f'{DATASET}.num_targets': targets,
        'model.head.num_targets': targets,
    }
    train(tmp_path / 'usual', options)
    assert 'the same target' not in read_log(tmp_path / 'usual')
    train(tmp_path / 'constant', {**options, f'{DATASET}.unit': 0.0})
    log = read_log(tmp_path / 'constant')
    assert log.count('All 30 training samples have the same target') == 1
    assert f'in column {list(range(targets))}, from' in log


# Statistics ------------------------------------------------------------------
def test_column_statistics():
    table = np.array([[1.0, 5.0, 0.1], [3.0, -5.0, 0.1], [5.0, 0.0, 0.1]])
    mean, std = column_statistics(table, 'input')
    assert mean.dtype == std.dtype == torch.float64
    assert_close(mean, torch.tensor([3, 0, 0.1], dtype=torch.float64))
    expected = torch.tensor([8 / 3, 50 / 3, 1], dtype=torch.float64).sqrt()
    assert_close(std, expected)
    mean, std = column_statistics(np.array([2.0, 4.0]), 'target')
    assert (mean.tolist(), std.tolist()) == ([3.0], [1.0])


@pytest.mark.parametrize('value', [0.1, 1e9 + 0.1, -7.3e-9])
def test_constant_column_with_rounding(value):
    mean, std = column_statistics(np.full(1001, value), 'input')
    assert std.tolist() == [1.0]
    assert_close(mean, torch.tensor([value], dtype=torch.float64))


def test_no_samples():
    with pytest.raises(ValueError, match='holds no target to standardise'):
        column_statistics(np.zeros((0, 2)), 'target')


def test_built_by_name():
    cfg = ConfigDict(tabular_config('').model)
    assert MODELS.build(cfg).head.num_targets == 1
    assert len(DATASETS.build(dict(type='mmgeom.StandInRows'))) == 30
