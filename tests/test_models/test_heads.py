# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.model import ExponentialMovingAverage
from mmengine.optim import OptimWrapper
from mmpretrain.models.heads import LinearClsHead
from mmpretrain.registry import MODELS as HOST_MODELS
from mmpretrain.structures import DataSample

from mmgeom.distribution import LabelDistribution
from mmgeom.models import CosineHead, LinearHead, LogitAdjustedLoss
from mmgeom.models.heads.prior_head import with_num_classes
from mmgeom.registry import MODELS

COUNTS = [500, 50, 5]
HEADS = ['mmgeom.LinearHead', 'mmgeom.CosineHead']
ADJUSTED = dict(type='mmgeom.LogitAdjustedLoss')


def build(type='mmgeom.LinearHead', **kwargs):
    config = dict(type=type, num_classes=3, in_channels=6) | kwargs
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = MODELS.build(config)
        head.init_weights()
    return head


def features(n=5, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(n, 6, generator=generator),)


def samples(labels=(0, 1, 2, 2, 1)):
    return [DataSample().set_gt_label(label) for label in labels]


# Both heads -----------------------------------------------------------------
@pytest.mark.parametrize('type', HEADS)
def test_loss_and_predict(type):
    head = build(type, cal_acc=True, topk=(1, 2))
    scores = head(features())
    losses = head.loss(features(), samples())
    labels = torch.tensor([0, 1, 2, 2, 1])
    torch.testing.assert_close(losses['loss'], F.cross_entropy(scores, labels))
    assert set(losses) == {'loss', 'accuracy_top-1', 'accuracy_top-2'}
    predictions = head.predict(features())
    assert len(predictions) == 5
    for row, sample in zip(scores, predictions):
        torch.testing.assert_close(sample.pred_score, row.softmax(0))
        assert sample.pred_label.tolist() == [int(row.argmax())]
    given = samples()
    kept = head.predict(features(), given)
    assert all(a is b for a, b in zip(kept, given))
    assert kept[2].gt_label.tolist() == [2]
    mixed = head.predict(features(), [None, *given[1:]])
    assert mixed[0].pred_label.tolist() == predictions[0].pred_label.tolist()


@pytest.mark.parametrize('type', HEADS)
def test_pre_logits_is_the_feature_of_the_last_stage(type):
    head = build(type)
    first, last = features(seed=1)[0], features()[0]
    assert head.pre_logits((first, last)) is last
    assert torch.equal(head((first, last)), head((last,)))


@pytest.mark.parametrize('type', HEADS)
@pytest.mark.parametrize('tau', [0.5, 1.0, 3.0])
def test_post_hoc_adjustment_changes_only_predictions(type, tau):
    plain, adjusted = build(type), build(type, post_hoc_tau=tau)
    adjusted.set_label_distribution(LabelDistribution(COUNTS))
    feats = features(50)
    scores = plain(feats)
    assert torch.equal(adjusted(feats), scores)
    given = samples([0, 1, 2, 2, 1] * 10)
    assert torch.equal(
        adjusted.loss(feats, given)['loss'], plain.loss(feats, given)['loss']
    )
    shifted = scores - tau * torch.tensor(
        [np.log(n / 555) for n in COUNTS], dtype=torch.float32
    )
    for row, sample in zip(shifted, adjusted.predict(feats)):
        assert sample.pred_label.item() == row.argmax()
        torch.testing.assert_close(sample.pred_score, row.softmax(0))
    if tau == 3.0:
        changed = shifted.argmax(1) != scores.argmax(1)
        assert changed.any()


@pytest.mark.parametrize('type', HEADS)
def test_post_hoc_needs_priors_and_training_does_not(type):
    head = build(type, post_hoc_tau=1.0)
    assert torch.isfinite(head.loss(features(), samples())['loss'])
    with pytest.raises(RuntimeError, match='class priors are not set'):
        head.predict(features())
    build(type).predict(features())  # no adjustment, no priors needed
    source = build(type)
    source.set_label_distribution(LabelDistribution(COUNTS))
    head.load_state_dict(source.state_dict())
    assert len(head.predict(features())) == 5


@pytest.mark.parametrize('type', HEADS)
@pytest.mark.parametrize('update_buffers', [True, False])
def test_moving_average(type, update_buffers):
    head = build(type, post_hoc_tau=1.0, loss=ADJUSTED)
    average = ExponentialMovingAverage(head, update_buffers=update_buffers)
    for module in head.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(LabelDistribution(COUNTS))
    for _ in range(3):
        average.update_parameters(head)
    for name, value in average.module.state_dict().items():
        assert torch.isfinite(value).all(), name
    torch.testing.assert_close(
        average.module.loss(features(), samples())['loss'],
        head.loss(features(), samples())['loss'],
    )
    assert [s.pred_label for s in average.module.predict(features())] == [
        s.pred_label for s in head.predict(features())
    ]


@pytest.mark.parametrize('type', HEADS)
def test_half_precision_features(type):
    head = build(type, loss=ADJUSTED)
    head.loss_module.set_label_distribution(LabelDistribution(COUNTS))
    with torch.autocast('cpu', torch.bfloat16):
        feats = (features(scale=1e4)[0].to(torch.bfloat16),)
        loss = head.loss(feats, samples())['loss']
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)
    loss.backward()
    for parameter in head.parameters():
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize('type', HEADS)
@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(num_classes=0), 'num_classes must be positive, got 0'),
        (dict(in_channels=0), 'in_channels must be positive, got 0'),
        (dict(post_hoc_tau=-1), 'post_hoc_tau must not be negative, got -1'),
    ],
)
def test_argument_errors(type, kwargs, match):
    with pytest.raises(ValueError, match=match):
        build(type, **kwargs)


@pytest.mark.parametrize('type', HEADS)
def test_other_number_of_classes_in_the_data(type):
    with pytest.raises(ValueError, match='num_classes=3 but .* 2 classes'):
        build(type).set_label_distribution(LabelDistribution([1, 2]))


@pytest.mark.parametrize('type', HEADS)
def test_traceable(type):
    head = build(type).eval()
    traced = torch.jit.trace(head, (features(),))
    torch.testing.assert_close(traced(features(9, 1)), head(features(9, 1)))


# The loss's number of classes -----------------------------------------------
def test_losses_that_ask_for_the_number_of_classes_get_it():
    assert build(loss=ADJUSTED).loss_module.log_prior.value.shape == (3,)
    smooth = build(loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1))
    assert smooth.loss_module.num_classes == 3
    assert torch.isfinite(smooth.loss(features(), samples())['loss'])
    seesaw = build(loss=dict(type='SeesawLoss'))
    assert len(seesaw.loss_module.cum_samples) == 3
    same = build(loss=ADJUSTED | dict(num_classes=3))
    assert same.loss_module.log_prior.value.shape == (3,)
    scoped = build(
        loss=dict(
            type='mmpretrain.LabelSmoothLoss',
            label_smooth_val=0.1,
            num_classes=None,
        )
    )
    assert scoped.loss_module.num_classes == 3
    by_class = build(loss=dict(type=LogitAdjustedLoss))
    assert by_class.loss_module.log_prior.value.shape == (3,)
    module = LogitAdjustedLoss(num_classes=3)
    assert build(loss=module).loss_module is module


def test_other_losses_are_left_alone():
    config = dict(type='CrossEntropyLoss', loss_weight=2.0)
    assert with_num_classes(config, 3) is config
    unknown = dict(type='NoSuchLoss')
    assert with_num_classes(unknown, 3) is unknown
    with pytest.raises(KeyError, match='NoSuchLoss is not in'):
        build(loss=unknown)
    adjusted = copy.deepcopy(ADJUSTED)
    build(loss=adjusted)
    assert adjusted == ADJUSTED


def test_conflicting_number_of_classes():
    for loss in (ADJUSTED, dict(type='SeesawLoss')):
        with pytest.raises(
            ValueError, match='num_classes=3 but its loss has num_classes=7'
        ):
            build(loss=loss | dict(num_classes=7))


# LinearHead -----------------------------------------------------------------
def test_linear_head_equals_the_hosts():
    head = build()
    host = LinearClsHead(num_classes=3, in_channels=6)
    host.load_state_dict(head.state_dict(), strict=False)
    assert torch.equal(head(features()), host(features()))
    assert torch.equal(
        head.loss(features(), samples())['loss'],
        host.loss(features(), samples())['loss'],
    )
    assert head.fc.weight.std() < 0.02
    assert (head.fc.bias == 0).all()
    missing = set(head.state_dict()) - set(host.state_dict())
    assert missing == {'log_prior.value'}


# CosineHead -----------------------------------------------------------------
def test_cosines_by_a_loop():
    head = build('mmgeom.CosineHead', scale=7.0)
    for i, feature in enumerate(features()[0]):
        for k, center in enumerate(head.weight):
            cosine = feature @ center / feature.norm() / center.norm()
            assert head(features())[i, k].item() == pytest.approx(
                7 * cosine.item(), abs=1e-5
            )


@pytest.mark.parametrize('factor', [1e-4, 1e4])
def test_norms_do_not_matter(factor):
    head = build('mmgeom.CosineHead')
    expected = head(features())
    torch.testing.assert_close(head(features(scale=factor)), expected)
    with torch.no_grad():
        head.weight[1] *= factor
    torch.testing.assert_close(head(features()), expected)


@pytest.mark.parametrize(
    'dtype', [torch.float32, torch.bfloat16, torch.float16]
)
def test_zero_feature_is_finite(dtype):
    head = build('mmgeom.CosineHead')
    feature = torch.zeros(2, 6, dtype=dtype, requires_grad=True)
    scores = head((feature,))
    assert (scores == 0).all()
    loss = head.loss((feature,), samples([0, 1]))['loss']
    loss.backward()
    assert (feature.grad == 0).all()
    assert torch.isfinite(head.weight.grad).all()


def test_scale_is_fixed_unless_it_is_learned():
    fixed = build('mmgeom.CosineHead', scale=16.0)
    assert dict(fixed.named_parameters()).keys() == {'weight'}
    assert fixed.log_scale.exp().item() == pytest.approx(16)
    assert 'log_scale' in fixed.state_dict()
    learned = build('mmgeom.CosineHead', scale=16.0, learn_scale=True)
    assert dict(learned.named_parameters()).keys() == {'weight', 'log_scale'}
    torch.testing.assert_close(learned(features()), fixed(features()))
    learned.loss(features(), samples())['loss'].backward()
    assert learned.log_scale.grad.abs() > 0
    fixed.load_state_dict(learned.state_dict())


def test_class_vectors_start_on_the_sphere():
    head = CosineHead(num_classes=1000, in_channels=64)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(1000))
    # Uniform: the mean of 1000 unit vectors is about 1/sqrt(1000) long.
    assert head.weight.mean(0).norm() < 0.1


def test_scores_are_fp32_under_autocast():
    head = build('mmgeom.CosineHead')
    with torch.autocast('cpu', torch.bfloat16):
        scores = head(features())
        half = head((features()[0].to(torch.bfloat16),))
    assert scores.dtype == half.dtype == torch.float32
    assert torch.equal(scores, head(features()))
    assert head.double()((features()[0].double(),)).dtype == torch.float64


@pytest.mark.parametrize('scale', [0, -1.0, float('nan')])
def test_scale_must_be_positive(scale):
    with pytest.raises(
        ValueError, match=f'scale must be positive, got {scale}'
    ):
        build('mmgeom.CosineHead', scale=scale)


# In the host's classifier ---------------------------------------------------
AUGMENTS = {
    'none': None,
    'mixup': dict(type='Mixup', alpha=1.0),
    'cutmix': dict(type='CutMix', alpha=1.0),
    'both': [
        dict(type='Mixup', alpha=0.8),
        dict(type='CutMix', alpha=1.0),
    ],
}


def classifier(head, augments=None, registry=MODELS):
    model = registry.build(
        dict(
            type='ImageClassifier',
            backbone=dict(type='mmgeom.CIFARResNet', depth=8, base_channels=4),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(num_classes=3, in_channels=16, **head),
            data_preprocessor=dict(
                num_classes=3,
                mean=[127.0] * 3,
                std=[64.0] * 3,
                to_onehot=augments is None,
            ),
            train_cfg=dict(augments=augments),
        )
    )
    for module in model.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(LabelDistribution(COUNTS))
    return model


def batch(n=6):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 3, 8, 8), generator=generator)
    return dict(
        inputs=images.to(torch.uint8), data_samples=samples([0, 1, 2] * 2)
    )


@pytest.mark.parametrize('registry', [MODELS, HOST_MODELS])
@pytest.mark.parametrize('augments', AUGMENTS)
@pytest.mark.parametrize('type', HEADS)
def test_loss_of_a_mixed_batch_in_the_hosts_classifier(
    type, augments, registry
):
    model = classifier(
        dict(type=type, loss=ADJUSTED), AUGMENTS[augments], registry
    )
    np.random.seed(0)
    torch.manual_seed(0)
    data = model.data_preprocessor(batch(), training=True)
    target = torch.stack([s.gt_score for s in data['data_samples']])
    torch.testing.assert_close(target.sum(1), torch.ones(6))
    is_mixed = bool(((target > 0).sum(1) > 1).any())
    assert is_mixed == (augments != 'none')
    # BatchNorm uses the statistics of the batch, so both passes agree.
    losses = model(**data, mode='loss')
    logits = model.head(model.extract_feat(data['inputs']))
    prior = torch.tensor([np.log(n / 555) for n in COUNTS]).float()
    by_hand = -(target * (logits + prior).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(losses['loss'], by_hand)
    losses['loss'].backward()
    assert all(p.grad is not None for p in model.parameters())


def test_train_step_and_prediction():
    model = classifier(dict(type='mmgeom.CosineHead', post_hoc_tau=1.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    logs = model.train_step(batch(), OptimWrapper(optimizer))
    assert torch.isfinite(logs['loss'])
    assert not torch.equal(before['head.weight'], model.head.weight)
    assert torch.equal(
        before['head.log_prior.value'], model.head.log_prior.value
    )
    model.eval()
    results = model.test_step(batch())
    for sample in results:
        assert sample.pred_score.sum().item() == pytest.approx(1, abs=1e-5)


def test_pre_logits_by_the_public_feature_api():
    for type in HEADS:
        model = classifier(dict(type=type)).eval()
        inputs = batch()['inputs'].float()
        feature = model.extract_feat(inputs, stage='pre_logits')
        assert feature.shape == (6, 16)
        assert torch.equal(feature, model.extract_feat(inputs)[-1])
        assert torch.equal(model.head((feature,)), model(inputs))


def test_registered_types_are_the_exported_classes():
    assert MODELS.get('LinearHead') is LinearHead
    assert MODELS.get('mmgeom.CosineHead') is CosineHead
    assert MODELS.get('BalancedSoftmaxLoss') is LogitAdjustedLoss
