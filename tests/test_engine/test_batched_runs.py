# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Runs on batches against the same runs on samples, bit for bit."""

import copy
import json
from pathlib import Path

import pytest
import torch
import torchvision
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.datasets import CIFAR10
from stand_ins import write_all
from tabular_runs import tabular_config

import mmgeom.datasets.batched_dataset
import mmgeom.models.batch_augmentations  # noqa: F401
from mmgeom.apis.batched_data import batched
from mmgeom.apis.inspect_dataset import inspect_dataset
from mmgeom.registry import DATASETS, HOOKS, MODELS
from mmgeom.structures import BatchSamples

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='kernels of a GPU are not repeatable'
)
ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = sorted((ROOT / 'configs/_base_/datasets').glob('*_batched.py'))
COLLATE = {'train_dataloader.collate_fn': dict(type='default_collate')}
CROP = [dict(type='RandomCrop', crop_size=8, padding=1)]
PACK = [dict(type='PackInputs')]
PIPELINE = 'train_dataloader.dataset.dataset.pipeline'
EPOCHS = {'train_cfg.max_epochs': 4, PIPELINE: CROP + PACK, **COLLATE}


@HOOKS.register_module(force=True)
class BatchKindHook(Hook):
    """Remember what training batches looked like."""

    kinds = []

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        self.kinds.append(type(data_batch['data_samples']))


def views(number):
    """Three views that are the images as they are."""
    return [dict(type='MultiView', num_views=[number], transforms=[[]]), *PACK]


def contrastive(name):
    return {
        'model.type': 'mmgeom.MultiViewClassifier',
        'model.head': dict(
            _delete_=True,
            type=f'mmgeom.{name}',
            num_classes=10,
            in_channels=16,
            hidden_channels=8,
            out_channels=4,
        ),
        'data_preprocessor.type': 'mmgeom.MultiViewDataPreprocessor',
        PIPELINE: views(3),
    }


def head(name, **kwargs):
    kwargs = dict(num_classes=10, in_channels=16, **kwargs)
    return {'model.head': dict(_delete_=True, type=name, **kwargs)}


MIXUP = dict(augments=dict(type='Mixup', alpha=0.5))
HOST_METRIC = dict(_delete_=True, type='Accuracy', topk=(1,))
CASES = {
    'logit adjustment': {},
    'training accuracy': {'model.head.cal_acc': True},
    'linear head of the host': {
        **head('LinearClsHead', cal_acc=True),
        'val_evaluator': HOST_METRIC,
        'default_hooks.checkpoint.save_best': None,
    },
    'fixed geometry': head('mmgeom.ETFHead'),
    'mixup': {
        **head('mmgeom.LinearHead', loss=dict(type='CrossEntropyLoss')),
        'model.train_cfg': MIXUP,
    },
    'mixup, fixed geometry': {
        **head('mmgeom.MultiCenterHead', f=2),
        'model.train_cfg': MIXUP,
    },
    'supcon': contrastive('SupConHead'),
    'bcl': contrastive('BCLHead'),
    'rebalanced': {
        'train_dataloader.sampler': dict(
            _delete_=True,
            type='mmgeom.RebalancedSampler',
            strategy='class_balanced',
        )
    },
}


def switched(cfg, **loader):
    """The config with its training data in batches."""
    changes, preprocessor = batched(cfg)
    changes.update(loader)
    cfg.merge_from_dict(
        dict(train_dataloader=changes, data_preprocessor=preprocessor)
    )
    return cfg


def run(cfg, batch):
    """Train; gives the state and the losses of all steps."""
    if batch:
        cfg = switched(cfg)
    hooks = list(cfg.get('custom_hooks') or [])
    cfg.custom_hooks = [*hooks, dict(type='mmgeom.BatchKindHook')]
    BatchKindHook.kinds.clear()
    runner = Runner.from_cfg(cfg)
    runner.train()
    wrapped = all(kind is BatchSamples for kind in BatchKindHook.kinds)
    assert BatchKindHook.kinds
    assert wrapped == batch
    (path,) = Path(cfg.work_dir).glob('*/*/scalars.json')
    logged = [json.loads(line) for line in path.open()]
    kept = [
        {k: v for k, v in line.items() if not k.endswith('time')}
        for line in logged
    ]
    return runner.model.state_dict(), kept


def assert_same_runs(one, other):
    (state, logged), (other_state, other_logged) = one, other
    other_state = dict(other_state)
    other_state.pop('data_preprocessor.steps.step', None)
    assert len(state) == len(other_state)
    for name, value in state.items():
        assert torch.equal(value, other_state[name]), name
    assert logged == other_logged
    assert any('loss' in line for line in logged)


@pytest.mark.parametrize('case', list(CASES))
def test_equals_the_run_on_samples(case, tmp_path, runner_config):
    options = {**CASES[case], **COLLATE}
    results = [
        run(runner_config(tmp_path / str(batch), options, False), batch)
        for batch in (False, True)
    ]
    assert_same_runs(*results)


@pytest.mark.parametrize('num_targets', [1, 2])
def test_rows_equal_the_run_on_samples(num_targets, tmp_path):
    options = {
        'model.head.num_targets': num_targets,
        'train_dataloader.dataset.num_targets': num_targets,
    }
    results = [
        run(tabular_config(tmp_path / str(batch), options), batch)
        for batch in (False, True)
    ]
    assert_same_runs(*results)


def test_resumed_run_equals_the_whole(tmp_path, runner_config, load):
    def go(name, **changes):
        cfg = runner_config(tmp_path / name, EPOCHS, False)
        cfg.merge_from_dict(changes)
        run(cfg, True)
        return load(tmp_path / name / 'epoch_4.pth')['state_dict']

    whole = go('whole')
    middle = str(tmp_path / 'whole' / 'epoch_2.pth')
    part = go('part', load_from=middle, resume=True)
    assert list(whole) == list(part)
    for name, value in whole.items():
        assert torch.equal(value, part[name]), name
    # The crops are part of it: they did not start anew.
    length = len(range(0, 435, 64))
    assert whole['data_preprocessor.steps.step'] == 4 * length
    anew = go('anew', load_from=middle)
    assert anew['data_preprocessor.steps.step'] == 4 * length
    assert not torch.equal(
        anew['backbone.conv1.weight'], whole['backbone.conv1.weight']
    )


def test_workers_give_the_same(tmp_path, runner_config):
    results = []
    for workers in (0, 2):
        cfg = runner_config(tmp_path / str(workers), EPOCHS, False)
        cfg.train_cfg.max_epochs = 1
        runner = Runner.from_cfg(switched(cfg, num_workers=workers))
        runner.train()
        results.append(runner.model.state_dict())
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name]), name


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    write_all(folder)
    return folder


@pytest.mark.parametrize('path', FRAGMENTS, ids=lambda path: path.stem)
def test_shipped_datasets(path, data, monkeypatch):
    """Batches have the shape of those of the inherited config."""
    monkeypatch.chdir(data)
    # The readers take our files for the published ones.
    for reader in (
        CIFAR10,
        torchvision.datasets.SVHN,
        torchvision.datasets.STL10,
    ):
        monkeypatch.setattr(reader, '_check_integrity', lambda self: True)
    DefaultScope.get_instance(path.stem, scope_name='mmpretrain')
    ours = Config.fromfile(path)
    plain = Config.fromfile(path.with_name(path.name.replace('_batched', '')))
    dataset = DATASETS.build(copy.deepcopy(ours.train_dataloader.dataset))
    other = DATASETS.build(copy.deepcopy(plain.train_dataloader.dataset))
    assert len(dataset) == len(other)
    size = min(len(dataset), 6)
    batch = dataset.__getitems__(range(size))
    preprocessor = {'type': 'ClsDataPreprocessor', **ours.data_preprocessor}
    if preprocessor['type'].endswith('TabularDataPreprocessor'):
        preprocessor['standardize'] = False
    result = MODELS.build(preprocessor)(batch, training=True)
    sample = other[0]['inputs']
    number = len(sample) if isinstance(sample, list) else 1
    image = sample[0] if isinstance(sample, list) else sample
    assert result['inputs'].shape == (number * size, *image.shape)
    assert len(result['data_samples']) == size
    assert ours.val_dataloader == plain.val_dataloader


def test_inspect_dataset(runner_config, tmp_path):
    cfg = runner_config(tmp_path, batched=False)
    plain = inspect_dataset(cfg)
    found = inspect_dataset(switched(cfg))
    assert found.distribution.counts.tolist() == (
        plain.distribution.counts.tolist()
    )
    assert found.test_counts == plain.test_counts
    assert found.warnings == plain.warnings


def blocks(word):
    """Configs of the docs on whole batches that contain a word."""
    text = (ROOT / 'docs' / 'data.md').read_text().split('whole batches\n')[1]
    found = [b.partition('```')[0] for b in text.split('```python')[1:]]
    return [block for block in found if word in block]


@pytest.mark.parametrize(
    ('word', 'batch'),
    [('batched(', True), ('BatchCutout', True), ('Rotate', False)],
)
def test_configs_of_the_docs(word, batch, data, monkeypatch, tmp_path):
    monkeypatch.chdir(data)
    monkeypatch.setattr(CIFAR10, '_check_integrity', lambda self: True)
    (text,) = blocks(word)
    (tmp_path / 'ours.py').write_text(text)
    cfg = Config.fromfile(tmp_path / 'ours.py')
    DefaultScope.get_instance(word, scope_name='mmpretrain')
    loader = cfg.train_dataloader
    loader.update(num_workers=0, persistent_workers=False, batch_size=4)
    loader.sampler.seed = 0
    loader = Runner.build_dataloader(loader)
    found = next(iter(loader))
    assert (type(found['data_samples']) is BatchSamples) == batch
    preprocessor = {'type': 'ClsDataPreprocessor', **cfg.data_preprocessor}
    result = MODELS.build(preprocessor)(found, training=True)
    assert result['inputs'].shape == (4, 3, 32, 32)
    assert len(result['data_samples']) == 4
