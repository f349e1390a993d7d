# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""FeatRecon: temperatures, statistics, synthetic features, resuming."""

import pytest
import torch
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.structures import DataSample

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import (
    ClassStatistics,
    class_temperature,
    reconstruct,
    supervised_contrastive_loss,
    unit_vectors,
)
from mmgeom.models.heads import FeatReconHead, SupConHead

COUNTS = [160, 40, 12, 3]
LABELS = torch.tensor([0, 0, 0, 1, 2, 0, 1, 3])


@pytest.fixture(autouse=True)
def _scope():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


def make(**options):
    torch.manual_seed(0)
    options = dict(hidden_channels=10, out_channels=6) | options
    cls = options.pop('cls', FeatReconHead)
    head = cls(4, 8, **options)
    for module in head.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(LabelDistribution(COUNTS))
    return head


def batch(seed=1, labels=LABELS):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3 * len(labels), 8, generator=generator)
    return (x,), [DataSample().set_gt_label(int(y)) for y in labels]


def trained(epochs=2, **options):
    """A head after some epochs of two batches each, in the next epoch."""
    head = make(**options)
    for epoch in range(epochs):
        head.before_epoch(epoch, 10)
        for seed in (1, 2):
            head.loss(*batch(seed))
        head.after_epoch(epoch)
    head.before_epoch(epochs, 10)
    return head


def test_first_epoch_has_real_features_only():
    head = make(tau_schedule='constant')
    head.before_epoch(0, 10)
    feats, samples = batch()
    losses = head.loss(feats, samples)
    assert set(losses) == {'loss_classification', 'loss_contrast'}
    z = head.projector(feats[0][len(LABELS) :])
    tau = class_temperature(torch.tensor(COUNTS).float(), 0.1, 1.0)
    expected = supervised_contrastive_loss(z, LABELS.repeat(2), tau)
    assert losses['loss_contrast'].item() == pytest.approx(
        0.6 * expected.item(), rel=1e-5
    )


def test_batch_is_filled_up():
    head = trained(groups=dict(by='count', many=100, few=10))
    losses = head.loss(*batch())
    # Class 0 is the largest with 8 of the 16 features; many 0, few 3.
    assert losses['synthetic_many'] == 0
    assert losses['synthetic_medium'] == (8 - 4) + (8 - 2)
    assert losses['synthetic_few'] == 8 - 2
    assert losses['clipped_caps'] >= 0
    assert 0 < losses['angle'] < 180
    assert not any('loss' in n for n in losses if n[:4] != 'loss')


def test_statistics_are_those_of_the_first_contrasted_view():
    head = make(feature_store='exact')
    expected = ClassStatistics(4, 6)
    head.before_epoch(0, 10)
    for seed in (1, 2):
        feats, samples = batch(seed)
        head.loss(feats, samples)
    head.after_epoch(0)
    fresh = make()
    for seed in (1, 2):
        feats, _ = batch(seed)
        z = fresh.projector(feats[0][len(LABELS) :])
        expected.accumulate(z[: len(LABELS)], LABELS)
    expected.update()
    for name, value in expected.state_dict().items():
        own = head.statistics.state_dict()[name]
        assert torch.allclose(own, value, atol=1e-6), name


def test_space_is_the_reconstruction():
    head = trained(q=1, gamma=0.3)
    own = head.statistics
    expected = reconstruct(
        own.mean,
        own.angle,
        own.angle_mean,
        own.angle_std,
        torch.tensor(COUNTS),
        torch.tensor([True, False, False, False]),
        own.valid,
        q=1,
        gamma=0.3,
    )
    for value, other in zip(expected, head._space, strict=True):
        assert torch.equal(value, other)


@pytest.mark.parametrize('sampler', ['truncnorm', 'uniform_cap'])
def test_synthetic_features_lie_in_the_caps(sampler):
    head = trained(sampler=sampler)
    keys, labels, _ = head._synthesize(LABELS.repeat(2))
    space = head._space
    cosine = (keys * unit_vectors(space.mean)[labels]).sum(1)
    assert len(keys) == 4 + 6 + 6
    assert (cosine >= space.cap[labels].cos() - 1e-5).all()
    assert not keys.requires_grad
    # Another step draws others.
    again, _, _ = head._synthesize(LABELS.repeat(2))
    assert not torch.allclose(keys, again)


def test_synthetic_features_are_constants():
    head = trained()
    before = {n: v.clone() for n, v in head.named_buffers()}
    losses = head.loss(*batch())
    sum(v for n, v in losses.items() if 'loss' in n).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad.isfinite().all(), name
    for name in ('statistics.mean', 'statistics.angle'):
        assert torch.equal(before[name], dict(head.named_buffers())[name])


def test_classes_absent_from_the_batch_get_keys():
    head = trained()
    labels = torch.zeros(4, dtype=torch.int64)
    losses = head.loss(*batch(3, labels))
    assert losses['synthetic_medium'] + losses['synthetic_few'] == 24


def test_ablation_without_both_parts_is_supcon():
    """No synthetic features and equal temperatures."""
    head = make(gen_mode='none', tau_plus=0.1)
    plain = make(cls=SupConHead)
    plain.load_state_dict(head.state_dict(), strict=False)
    for epoch in range(2):
        head.before_epoch(epoch, 10)
        ours, theirs = head.loss(*batch()), plain.loss(*batch())
        assert set(ours) == set(theirs)
        for name in ours:
            assert torch.allclose(ours[name], theirs[name], rtol=1e-5)
        head.after_epoch(epoch)
    assert not head.statistics.valid.any()


@pytest.mark.parametrize(
    'options, numbers',
    [
        (dict(gen_mode='const', gen_number=3), [3, 3, 3, 3]),
        (dict(gen_mode='const'), [8, 8, 8, 8]),
        (dict(gen_cap=5), [0, 4, 5, 5]),
        (
            dict(gen_classes='tail', gen_mode='const', gen_number=2),
            [0, 2, 2, 2],
        ),
    ],
)
def test_numbers_of_synthetic_features(options, numbers):
    head = trained(**options)
    _, labels, _ = head._synthesize(LABELS.repeat(2))
    assert torch.bincount(labels, minlength=4).tolist() == numbers


def test_memory_guard():
    head = trained(gen_mode='const', gen_number=6, max_gen=9)
    _, labels, monitored = head._synthesize(LABELS)
    assert len(labels) == 9
    assert sum(monitored[f'synthetic_{g}'] for g in ('many', 'medium')) <= 9


def test_synthetic_anchors():
    head = trained(syn_as_anchor=True, lambda_c=1.0)
    other = trained(lambda_c=1.0)
    feats, samples = batch()
    loss = head.loss(feats, samples)['loss_contrast']
    z = other.projector(feats[0][len(LABELS) :])
    keys, key_labels, _ = other._synthesize(LABELS.repeat(2))
    expected = supervised_contrastive_loss(
        torch.cat([z, keys]),
        torch.cat([LABELS.repeat(2), key_labels]),
        other._temperature,
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_temperatures_follow_the_schedule():
    head = make(tau_T=10)
    counts = torch.tensor(COUNTS).float()
    for epoch, largest in ((0, 1.0), (5, 0.55), (10, 0.1)):
        head.before_epoch(epoch, 10)
        expected = class_temperature(counts, 0.1, largest)
        assert torch.allclose(head._temperature, expected)
    head = make(tau_T=None)
    head.before_epoch(15, 30)
    assert head._temperature.max() == pytest.approx(0.55)


def test_update_interval_and_start_epoch():
    head = make(update_interval=2, start_epoch=3)
    seen = []
    for epoch in range(4):
        head.before_epoch(epoch, 10)
        losses = head.loss(*batch())
        head.after_epoch(epoch)
        seen.append(
            (int(head.statistics.num_updates), 'synthetic_few' in losses)
        )
    assert seen == [(0, False), (1, False), (1, False), (2, True)]


def test_stream_store_starts_one_epoch_later():
    head = trained(epochs=1, feature_store='stream')
    assert 'synthetic_few' not in head.loss(*batch())
    head = trained(epochs=2, feature_store='stream')
    assert 'synthetic_few' in head.loss(*batch())


@pytest.mark.parametrize('store', ['exact', 'stream'])
def test_saved_and_loaded_head_goes_on(store):
    head = trained(feature_store=store)
    other = make(feature_store=store)
    other.load_state_dict(head.state_dict())
    other.before_epoch(2, 10)
    for seed in (3, 4):
        ours, theirs = head.loss(*batch(seed)), other.loss(*batch(seed))
        for name in ours:
            assert torch.equal(ours[name], theirs[name]), name


def test_new_training_forgets():
    head = trained()
    head.loss(*batch())
    assert head.statistics.valid.any() and head.generator.step > 0
    head.reset_epochs()
    assert not head.statistics.valid.any() and head.generator.step == 0


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(alpha=0.0), r'\(0, 1\]'),
        (dict(q=0), 'q must be a whole number of at least 1, got 0'),
        (dict(q=1.5), 'q must be a whole number of at least 1, got 1.5'),
        (dict(max_gen=None), 'max_gen must be a whole number .* got None'),
        (dict(tau_T=0), 'tau_T must be at least 1, got 0'),
        (dict(gamma=1.5), r'gamma must lie in \[0, 1\], got 1.5'),
        (dict(tau_minus=0.0), 'tau_minus must be positive'),
        (dict(tau_plus=0.05), 'must not be below tau_minus=0.1, got 0.05'),
        (dict(sampler='cap'), "sampler must be one of 'truncnorm'"),
        (dict(gen_mode='all'), "gen_mode must be one of 'fill'"),
        (dict(gen_number=3), "gen_number=3 is for gen_mode='const'"),
        (dict(start_epoch=0), 'start_epoch must be a whole number .* got 0'),
        (dict(feature_store='disk'), "store must be 'exact' or 'stream'"),
        (dict(stat_momentum=2.0), r'must lie in \[0, 1\], got 2.0'),
        (dict(head_rule='median'), 'median'),
        (dict(groups=dict(by='luck')), 'luck'),
        (
            dict(groups=dict(by='given', groups=dict(head=[0], few=[3]))),
            'named many, medium, few, got head, few: rename them',
        ),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_groups_of_the_log_may_leave_one_out():
    groups = dict(by='given', groups=dict(few=[2, 3], many=[0]))
    losses = trained(groups=groups).loss(*batch())
    # Both views: 8, 4, 2 and 2 features of the classes.
    used = [float(losses[f'synthetic_{g}']) for g in ('many', 'medium')]
    assert used == [0, 0]
    assert losses['synthetic_few'] == 6 + 6


def test_other_number_of_classes():
    head = make()
    with pytest.raises(ValueError, match='num_classes=4 .* has 2 classes'):
        head.set_label_distribution(LabelDistribution([5, 2]))


def test_order_of_calls():
    head = make()
    with pytest.raises(RuntimeError, match="type='mmgeom.EpochHook'"):
        head.loss(*batch())
    head = FeatReconHead(4, 8)
    with pytest.raises(RuntimeError, match='keep mmgeom.LabelDistribution'):
        head.before_epoch(0, 10)


RUN = {
    'model.type': 'mmgeom.MultiViewClassifier',
    'model.head': dict(
        _delete_=True,
        type='mmgeom.FeatReconHead',
        num_classes=10,
        in_channels=16,
        hidden_channels=12,
        out_channels=8,
    ),
    'data_preprocessor.views': [[], [], []],
    'param_scheduler.T_max': 8,
}


@pytest.mark.parametrize('store', ['exact', 'stream'])
def test_resumed_run_equals_an_uninterrupted_one(
    store, train, runner_config, tmp_path, load
):
    """2 + 2 epochs are 4 epochs, bit for bit."""
    options = {**RUN, 'model.head.feature_store': store}
    head = dict(RUN['model.head'], feature_store=store)
    options = {**RUN, 'model.head': head, 'train_cfg.max_epochs': 4}
    train(tmp_path / 'whole', options)
    train(tmp_path / 'parts', {**options, 'train_cfg.max_epochs': 2})
    cfg = runner_config(tmp_path / 'parts', options)
    cfg.resume = True
    Runner.from_cfg(cfg).train()
    whole, parts = (
        load(tmp_path / name / 'epoch_4.pth')['state_dict']
        for name in ('whole', 'parts')
    )
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        assert torch.equal(value, parts[name]), name
    assert whole['head.statistics.valid'].all()
    assert whole['head.generator.step'] > 0
