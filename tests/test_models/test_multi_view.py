# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The classifier of several views of a sample."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.dataset import COLLATE_FUNCTIONS
from mmengine.model import BaseDataPreprocessor
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from mmpretrain import ImageClassificationInferencer, get_model
from mmpretrain.engine.hooks.precise_bn_hook import update_bn_stats
from mmpretrain.models import AverageClsScoreTTA
from torch import nn

from mmgeom.models.classifiers.multi_view_classifier import (
    MultiViewClassifier,
)
from mmgeom.models.data_preprocessors.multi_view_data_preprocessor import (
    MultiViewDataPreprocessor,
)
from mmgeom.models.heads.linear_head import LinearHead
from mmgeom.registry import MODELS, TRANSFORMS

COLLATES = ('default_collate', 'pseudo_collate')
MIXUP = dict(augments=dict(type='Mixup', alpha=1.0))
# Each view of a digit is moved by its own random offset.
THREE_VIEWS = dict(
    type='MultiView',
    num_views=[1, 2],
    transforms=[
        [dict(type='RandomCrop', crop_size=8, padding=1)],
        [dict(type='RandomCrop', crop_size=8, padding=3)],
    ],
)


@MODELS.register_module(force=True)
class ThreeViewHead(LinearHead):
    """Classifies view 0 and draws the features of views 1 and 2 together."""

    num_views = 3

    def loss(self, feats, data_samples, **kwargs):
        feature = self.pre_logits(feats)
        first, second, third = feature.chunk(3)
        labels = torch.cat([sample.gt_label for sample in data_samples])
        return dict(
            loss_ce=F.cross_entropy(self.fc(first), labels),
            loss_views=F.mse_loss(second, third),
        )


@pytest.fixture(autouse=True)
def _scope():
    DefaultScope.get_instance('multi_view', scope_name='mmpretrain')


@pytest.fixture
def images():
    """Four grey images."""
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (4, 8, 8), dtype=np.uint8)


def model_config(channels=1, **changes):
    return dict(
        type='mmgeom.MultiViewClassifier',
        backbone=dict(
            type='mmgeom.CIFARResNet',
            depth=8,
            base_channels=4,
            in_channels=channels,
        ),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='mmgeom.ThreeViewHead', num_classes=4, in_channels=16),
        data_preprocessor=dict(mean=[127.5] * channels, std=[60] * channels),
        **changes,
    )


def build(**changes):
    torch.manual_seed(0)
    return MODELS.build(model_config(**changes))


def packed(images, views=THREE_VIEWS):
    """Samples as they leave the pipeline."""
    steps = ([views] if views else []) + [dict(type='PackInputs')]
    pipeline = [TRANSFORMS.build(step) for step in steps]
    samples = []
    for label, image in enumerate(images):
        sample = dict(img=image, gt_label=label)
        for step in pipeline:
            sample = step(sample)
        samples.append(sample)
    return samples


def batch(images, collate='default_collate', **kwargs):
    return COLLATE_FUNCTIONS.get(collate)(packed(images, **kwargs))


@pytest.mark.parametrize('collate', COLLATES)
def test_training_step(images, collate):
    """Of the classifier, against its parts called one by one."""
    np.random.seed(0)
    data = batch(images, collate)
    model = build()
    assert type(model) is MultiViewClassifier
    assert type(model.data_preprocessor) is MultiViewDataPreprocessor
    model.train()

    reference = copy.deepcopy(model)
    views = torch.cat(
        [torch.stack(tuple(view)) for view in data['inputs']]
    ).float()
    feature = reference.neck(reference.backbone((views - 127.5) / 60))[0]
    logits = reference.head.fc(feature[:4])
    expected = dict(
        loss_ce=F.cross_entropy(logits, torch.arange(4)),
        loss_views=F.mse_loss(feature[4:8], feature[8:]),
    )

    optimizer = dict(type='SGD', lr=0.1)
    optim_wrapper = build_optim_wrapper(model, dict(optimizer=optimizer))
    before = copy.deepcopy(model.state_dict())
    losses = model.train_step(data, optim_wrapper)
    for name, value in expected.items():
        assert value > 0
        assert losses[name].item() == pytest.approx(value.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        assert not torch.equal(parameter, before[name]), name
    # Batch normalisation has seen all views at once.
    for name, buffer in reference.backbone.named_buffers():
        assert torch.allclose(buffer, model.backbone.get_buffer(name)), name


def test_views_of_a_sample_are_independent(images):
    np.random.seed(0)
    first, second, third = batch(images)['inputs']
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    # Of all offsets of views 1 and 2 one in 49 agrees.
    data = batch(np.repeat(images[:1], 400, axis=0))['inputs']
    same = [torch.equal(*pair) for pair in zip(data[1], data[2])]
    assert np.mean(same) == pytest.approx(1 / 49, abs=0.02)


def test_training_and_prediction_by_a_runner(tmp_path, train, evaluate):
    options = {
        'model.type': 'mmgeom.MultiViewClassifier',
        'model.head': dict(
            _delete_=True,
            type='mmgeom.ThreeViewHead',
            num_classes=10,
            in_channels=16,
        ),
        'data_preprocessor.type': 'mmgeom.MultiViewDataPreprocessor',
        'train_dataloader.dataset.dataset.pipeline': [
            THREE_VIEWS,
            dict(type='PackInputs'),
        ],
        'train_cfg.max_epochs': 1,
    }
    runner = train(tmp_path / 'train', options, batched=False)
    assert runner.iter > 1
    checkpoint = tmp_path / 'train' / 'epoch_1.pth'
    metrics, _ = evaluate(
        tmp_path / 'test', checkpoint, options, batched=False
    )
    assert 0 <= metrics['shot/accuracy'] <= 100


@pytest.mark.parametrize('collate', COLLATES)
def test_prediction_takes_one_view(images, collate):
    model = build().eval()
    with torch.no_grad():
        results = model.test_step(batch(images, collate, views=None))
        inputs = (torch.from_numpy(images)[:, None].float() - 127.5) / 60
        expected = model(inputs).softmax(dim=1)
        feature = model.extract_feat(inputs, stage='pre_logits')
        assert len(model.predict(inputs)) == 4
    scores = torch.stack([result.pred_score for result in results])
    assert torch.allclose(scores, expected, atol=1e-6)
    assert feature.shape == (4, 16)


def test_test_time_augmentation(images):
    model = build().eval()
    single = batch(images, 'pseudo_collate', views=None)
    twice = {key: [value, value] for key, value in single.items()}
    with torch.no_grad():
        results = AverageClsScoreTTA(module=model).test_step(twice)
        expected = model.test_step(batch(images, views=None))
    for result, plain in zip(results, expected):
        assert torch.allclose(result.pred_score, plain.pred_score, atol=1e-6)


def test_precise_statistics_are_those_of_all_views(images):
    """The host's PreciseBNHook feeds training data as if for a test."""
    model = build().train()
    data = packed(images)
    seen = []
    norm = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    loader = torch.utils.data.DataLoader(
        data,
        batch_size=4,
        collate_fn=COLLATE_FUNCTIONS.get('default_collate'),
    )
    update_bn_stats(model, loader, num_samples=4, logger='silent')
    assert [len(features) for features in seen] == [12]
    mean = seen[0].mean(dim=(0, 2, 3))
    assert torch.allclose(norm.running_mean, mean, atol=1e-6)


def test_the_host_predicts_with_it():
    config = Config(
        dict(
            model=model_config(channels=3),
            test_dataloader=dict(
                dataset=dict(
                    type='CIFAR10', pipeline=[dict(type='PackInputs')]
                )
            ),
        )
    )
    inferencer = ImageClassificationInferencer(get_model(config))
    (result,) = inferencer(np.zeros((8, 8, 3), dtype=np.uint8))
    assert result['pred_scores'].shape == (4,)


def test_data_preprocessor_may_be_named_or_built(images):
    config = model_config()
    given = copy.deepcopy(config['data_preprocessor'])
    MODELS.build(config)
    assert config['data_preprocessor'] == given
    config['data_preprocessor'] = None
    model = MODELS.build(config)
    assert type(model.data_preprocessor) is MultiViewDataPreprocessor
    for own in (MultiViewDataPreprocessor(), BaseDataPreprocessor()):
        config['data_preprocessor'] = own
        assert MODELS.build(config).data_preprocessor is own


@pytest.mark.parametrize('views', [None, 2, 4])
def test_pipeline_with_another_number_of_views(images, views):
    if views:
        views = dict(type='MultiView', num_views=[views], transforms=[[]])
    model = build()
    data = model.data_preprocessor(batch(images, views=views), training=True)
    message = (
        'ThreeViewHead takes 3 views of each of the 4 samples, but got '
        rf'{len(data["inputs"])} images: .*MultiView.* with 3 views in all'
    )
    with pytest.raises(ValueError, match=message):
        model(**data, mode='loss')


def test_prediction_with_several_views(images):
    message = 'one view of each of the 4 samples, but got 12 images'
    with pytest.raises(ValueError, match=message):
        build().test_step(batch(images))


def test_train_cfg_is_refused():
    with pytest.raises(ValueError, match='hard labels, .*train_cfg=.*Mixup'):
        build(train_cfg=MIXUP)
    build(train_cfg=None)
    build(train_cfg={})


def test_train_cfg_reaches_the_preprocessor_in_the_hosts_classifier():
    with pytest.raises(ValueError, match='takes no batch augmentations'):
        MODELS.build(
            dict(
                model_config(train_cfg=MIXUP),
                type='ImageClassifier',
                data_preprocessor=dict(
                    type='mmgeom.MultiViewDataPreprocessor', num_classes=4
                ),
            )
        )


@pytest.mark.parametrize('num_views', [None, 0, True, 3.0])
def test_head_without_views(num_views, monkeypatch):
    monkeypatch.setattr(ThreeViewHead, 'num_views', num_views)
    message = f'ThreeViewHead has num_views={num_views}: use ImageClassifier'
    with pytest.raises(ValueError, match=message):
        build()


def test_heads_of_the_host_and_none():
    config = model_config()
    config['head'] = dict(type='LinearClsHead', num_classes=4, in_channels=16)
    with pytest.raises(ValueError, match='LinearClsHead has num_views=None'):
        MODELS.build(config)
    config['head'] = None
    with pytest.raises(ValueError, match='NoneType has num_views=None'):
        MODELS.build(config)


@pytest.mark.parametrize('batch_augments', [None, MIXUP])
def test_data_preprocessor_of_the_host(batch_augments):
    config = model_config()
    config['data_preprocessor'] = dict(
        type='ClsDataPreprocessor',
        num_classes=4,
        batch_augments=batch_augments,
    )
    message = 'several views by ClsDataPreprocessor: leave out the type'
    with pytest.raises(ValueError, match=message):
        MODELS.build(config)
