# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy

import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.optim import OptimWrapper
from mmengine.registry import DefaultScope
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch.testing import assert_close

import mmgeom.models.backbones.mlp
import mmgeom.models.data_preprocessors.tabular_data_preprocessor
import mmgeom.models.heads.regressor_head
import mmgeom.models.losses.error_loss  # noqa: F401
from mmgeom.models.regressors import ImageRegressor
from mmgeom.registry import MODELS

IMAGES = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(type='mmgeom.CIFARResNet', depth=8, base_channels=4),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmgeom.RegressorHead', in_channels=16, num_targets=2),
    data_preprocessor=dict(mean=[127.5] * 3, std=[127.5] * 3, to_rgb=True),
)
ROWS = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(type='mmgeom.MLP', in_channels=3),
    head=dict(type='mmgeom.RegressorHead', in_channels=10, num_targets=2),
    data_preprocessor=dict(
        type='mmgeom.TabularDataPreprocessor', in_channels=3
    ),
)
MEAN, STD = torch.tensor([40.0, -1.0]), torch.tensor([10.0, 0.1])
KINDS = {'images': IMAGES, 'rows': ROWS}


def build(config, **options):
    with (
        torch.random.fork_rng(),
        DefaultScope.overwrite_default_scope('mmpretrain'),
    ):
        torch.manual_seed(0)
        model = MODELS.build(copy.deepcopy(config) | options)
        model.init_weights()
    model.head.set_target_statistics(MEAN, STD)
    if config is ROWS:
        model.data_preprocessor.set_input_statistics(
            torch.zeros(3), torch.full((3,), 2.0)
        )
    return model


def batch(config, n=6):
    generator = torch.Generator().manual_seed(1)
    if config is ROWS:
        inputs = torch.randn(n, 3, generator=generator)
    else:
        inputs = torch.randint(0, 256, (n, 3, 8, 8), generator=generator)
        inputs = inputs.to(torch.uint8)
    targets = MEAN + STD * torch.randn(n, 2, generator=generator)
    samples = [DataSample().set_gt_score(row) for row in targets]
    return dict(inputs=inputs, data_samples=samples), targets


@pytest.mark.parametrize('kind', KINDS)
def test_modes(kind):
    model = build(KINDS[kind]).eval()
    data, targets = batch(KINDS[kind])
    inputs = model.data_preprocessor(data, False)['inputs']
    values = model(inputs)
    feature = model.extract_feat(inputs, stage='pre_logits')
    assert feature.shape == (6, model.head.in_channels)
    assert torch.equal(model.extract_feat(inputs)[-1], feature)
    assert len(model.extract_feat(inputs, stage='backbone')) == 1
    assert_close(values, model.head.fc(feature) * STD + MEAN)
    losses = model(inputs, data['data_samples'], mode='loss')
    expected = ((values - targets) / STD).square().mean()
    assert_close(losses['loss'], expected)
    predictions = model(inputs, mode='predict')
    assert_close(torch.stack([p.pred_score for p in predictions]), values)
    tested = model.test_step(batch(KINDS[kind])[0])
    assert_close(torch.stack([p.pred_score for p in tested]), values)
    assert_close(torch.stack([p.gt_score for p in tested]), targets)


@pytest.mark.parametrize('kind', KINDS)
def test_learns(kind):
    model = build(KINDS[kind])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    wrapper = OptimWrapper(optimizer)
    logs = [
        model.train_step(batch(KINDS[kind])[0], wrapper) for _ in range(150)
    ]
    assert logs[0]['loss'] > 0.3
    assert logs[-1]['loss'] < 0.1 * logs[0]['loss']
    assert logs[-1]['mae'] < 0.5 * logs[0]['mae']


@pytest.mark.parametrize('kind', KINDS)
def test_mixup_trains_on_mixtures_of_targets(kind, monkeypatch):
    monkeypatch.setattr('numpy.random.beta', lambda a, b: 0.25)
    monkeypatch.setattr('torch.randperm', lambda n: torch.arange(n).flip(0))
    augments = dict(augments=dict(type='Mixup', alpha=1.0))
    model = build(KINDS[kind], train_cfg=augments).eval()
    plain = build(KINDS[kind]).eval()
    data, targets = batch(KINDS[kind])
    inputs = plain.data_preprocessor(batch(KINDS[kind])[0])['inputs']
    inputs = 0.25 * inputs + 0.75 * inputs.flip(0)
    targets = 0.25 * targets + 0.75 * targets.flip(0)
    mixed = model.data_preprocessor(data, training=True)
    assert_close(mixed['inputs'], inputs)
    losses = model(**mixed, mode='loss')
    expected = ((plain(inputs) - targets) / STD).square().mean()
    assert_close(losses['loss'], expected)


@pytest.mark.parametrize('place', ['model', 'data preprocessor'])
def test_mixup_is_refused_where_targets_need_bins(place):
    augments = dict(augments=dict(type='Mixup', alpha=1.0))
    head = dict(type='mmgeom.SRLHead', in_channels=10, num_bins=4)
    options = dict(head=head, train_cfg=augments)
    if place == 'data preprocessor':
        options = dict(
            head=head,
            data_preprocessor=ROWS['data_preprocessor']
            | dict(batch_augments=augments),
        )
    with (
        DefaultScope.overwrite_default_scope('mmpretrain'),
        pytest.raises(ValueError, match='SRLHead cannot place mixed targets'),
    ):
        MODELS.build(copy.deepcopy(ROWS) | options)


def test_test_time_augmentation_averages_numbers():
    model = build(ROWS).eval()
    one, two = batch(ROWS)[0], batch(ROWS)[0]
    two['inputs'] = two['inputs'] + 0.1
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        averaged = MODELS.build(dict(type='AverageClsScoreTTA', module=model))
    merged = averaged.test_step(
        dict(
            inputs=[one['inputs'], two['inputs']],
            data_samples=[one['data_samples'], two['data_samples']],
        )
    )
    scale = model.data_preprocessor.input_scale
    expected = sum(model(scale(x['inputs'])) for x in (one, two)) / 2
    assert_close(torch.stack([s.pred_score for s in merged]), expected)


def test_export():
    model = build(IMAGES).eval()
    inputs = model.data_preprocessor(batch(IMAGES)[0])['inputs']
    program = torch.export.export(model, (inputs,))
    assert_close(program.module()(inputs), model(inputs))


def test_defaults_of_the_host():
    model = build(IMAGES, data_preprocessor=None)
    assert type(model.data_preprocessor).__name__ == 'ClsDataPreprocessor'
    headless = copy.deepcopy(IMAGES)
    del headless['head']
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(headless)
    assert isinstance(model, ImageClassifier)
    assert isinstance(model, ImageRegressor)
    assert not model.with_head


def test_configs_are_left_alone():
    preprocessor = ConfigDict(ROWS['data_preprocessor'])
    before = copy.deepcopy(preprocessor)
    build(ROWS, data_preprocessor=preprocessor, train_cfg=None)
    assert preprocessor == before


def test_head_of_classes():
    head = dict(type='LinearClsHead', in_channels=16, num_classes=3)
    with pytest.raises(
        TypeError, match='regression head .* got LinearClsHead'
    ):
        build(IMAGES, head=head)
