# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy

import numpy as np
import pytest
import torch
from mmpretrain.structures import DataSample
from torch.testing import assert_close

from mmgeom.models.heads.regressor_head import RegressorHead
from mmgeom.models.losses.error_loss import ErrorLoss
from mmgeom.registry import MODELS

MEAN = torch.tensor([30.0, -2.0], dtype=torch.float64)
STD = torch.tensor([12.0, 0.5], dtype=torch.float64)


def build(targets=2, fit=True, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = MODELS.build(
            dict(
                type='mmgeom.RegressorHead',
                in_channels=6,
                num_targets=targets,
                **options,
            )
        )
        torch.nn.init.normal_(head.fc.weight)
    if fit:
        head.set_target_statistics(MEAN[:targets], STD[:targets])
    return head


def features(n=5):
    generator = torch.Generator().manual_seed(1)
    return (torch.zeros(1), torch.randn(n, 6, generator=generator))


def samples(targets=2, n=5):
    generator = torch.Generator().manual_seed(2)
    values = MEAN + STD * torch.randn(n, 2, generator=generator)
    values = values[:, :targets].float()
    return [DataSample().set_gt_score(row) for row in values], values


@pytest.mark.parametrize('targets', [1, 2])
@pytest.mark.parametrize('kind', ['mse', 'l1', 'huber'])
def test_loss_is_of_standardised_targets(targets, kind):
    loss = dict(type='mmgeom.ErrorLoss', kind=kind)
    head = build(targets, loss=loss)
    data, values = samples(targets)
    output = head.fc(features()[-1])
    mean, std = MEAN[:targets].float(), STD[:targets].float()
    losses = head.loss(features(), data)
    assert set(losses) == {'loss', 'mae'}
    expected = ErrorLoss(kind)(output, (values - mean) / std)
    assert_close(losses['loss'], expected)
    assert_close(losses['mae'], (output * std + mean - values).abs().mean())
    assert not losses['mae'].requires_grad
    feature = head.pre_logits(features())
    assert_close(head.regression_loss(feature, values), losses['loss'])
    losses['loss'].backward()
    assert head.fc.weight.grad.abs().sum() > 0


def test_original_units():
    head = build()
    data, _ = samples()
    expected = head.fc(features()[-1]) * STD.float() + MEAN.float()
    assert_close(head(features()), expected)
    for given in (None, data, [None, *data[1:]]):
        predictions = head.predict(features(), given)
        assert len(predictions) == 5
        for row, sample in zip(expected, predictions):
            assert_close(sample.pred_score, row)
            assert sample.pred_score.shape == (2,)
    assert all(a is b for a, b in zip(head.predict(features(), data), data))
    assert 'gt_score' in data[0]


@pytest.mark.parametrize(
    'options', [dict(fit=False), dict(scale_targets=False)]
)
def test_identity_without_statistics(options):
    head = build(**options)
    data, values = samples()
    output = head.fc(features()[-1])
    assert torch.equal(head(features()), output)
    losses = head.loss(features(), data)
    assert_close(losses['loss'], (output - values).square().mean())
    assert head.uses_target_statistics is options.get('scale_targets', True)


def test_loss_does_not_depend_on_the_unit():
    """Targets in months instead of years: the same step."""
    data, values = samples(1)
    years, months = build(1), build(1)
    months.set_target_statistics(12 * MEAN[:1], 12 * STD[:1])
    others = [DataSample().set_gt_score(12 * row) for row in values]
    one, two = years.loss(features(), data), months.loss(features(), others)
    assert_close(one['loss'], two['loss'])
    assert_close(12 * one['mae'], two['mae'])
    assert_close(12 * years(features()), months(features()))


def test_any_loss_of_predictions_and_targets():
    head = build(loss=torch.nn.SmoothL1Loss())
    data, values = samples()
    expected = torch.nn.functional.smooth_l1_loss(
        head.fc(features()[-1]), head.target_scale(values)
    )
    assert_close(head.loss(features(), data)['loss'], expected)
    weighted = build()
    weight = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])
    assert_close(
        weighted.loss(features(), data, weight=weight)['loss'],
        weighted.loss((features()[-1][2:3],), data[2:3])['loss'] / 5,
    )


def test_subclass_adds_terms():
    class Regularised(RegressorHead):
        def feature_loss(self, feature, target, **kwargs):
            losses = super().feature_loss(feature, target, **kwargs)
            return dict(losses, loss_norm=feature.square().mean())

    head = Regularised(6, 2)
    losses = head.loss(features(), samples()[0])
    assert set(losses) == {'loss', 'mae', 'loss_norm'}
    assert_close(losses['loss_norm'], features()[-1].square().mean())


def test_state_dict_is_enough():
    head, other = build(), build(fit=False)
    assert set(head.state_dict()) == {
        'fc.weight',
        'fc.bias',
        'target_scale.mean',
        'target_scale.std',
        'target_scale.fitted',
    }
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(features()), head(features()))


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_full_precision_under_autocast(dtype):
    head = build()
    data, _ = samples()
    half = (features()[-1].to(dtype),)
    wide = (half[0].float(),)
    with torch.autocast('cpu', dtype=dtype):
        losses = head.loss(half, data)
        predictions = head.predict(half)
    assert losses['loss'].dtype == torch.float32
    assert_close(losses['loss'], head.loss(wide, data)['loss'])
    assert predictions[0].pred_score.dtype == torch.float32
    assert_close(predictions[0].pred_score, head(wide)[0])


def test_initial_prediction_is_about_the_mean():
    head = MODELS.build(dict(type='mmgeom.RegressorHead', in_channels=6))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head.init_weights()
    assert head.fc.weight.std() < 0.03
    head.set_target_statistics(MEAN[:1], STD[:1])
    assert ((head(features()) - 30).abs() < 3).all()


def test_integer_targets_become_floats():
    data = [DataSample().set_gt_score(torch.tensor([i])) for i in range(5)]
    target = build(1).targets(data)
    assert target.dtype == torch.float32
    assert target[:, 0].tolist() == [0, 1, 2, 3, 4]
    wide = [DataSample().set_gt_score(torch.tensor([0.1]).double())]
    assert build(1).targets(wide).dtype == torch.float64


def test_feature_maps_of_one_pixel_are_flattened():
    head = build()
    maps = (features()[-1][:, :, None, None],)
    assert torch.equal(head.pre_logits(maps), features()[-1])


def test_export():
    head = build().eval()
    program = torch.export.export(head, (features(),))
    assert_close(program.module()(features()), head(features()))


# Errors ----------------------------------------------------------------------
@pytest.mark.parametrize('value', [float('nan'), float('inf')])
@pytest.mark.parametrize(
    'metainfo, name',
    [
        (dict(sample_idx=17), 'sample 17'),
        (dict(sample_idx=17, img_path='a/b.jpg'), "'a/b.jpg'"),
        ({}, 'the sample at position 3 of the batch'),
    ],
)
def test_target_that_is_no_number(value, metainfo, name):
    head = build()
    data, _ = samples()
    head.loss(features(), data)  # Not only the first batch is looked at.
    data[3].set_gt_score(np.array([1.0, value]))
    data[3].set_metainfo(metainfo)
    with pytest.raises(
        ValueError, match=rf'the target of {name} is \[1.0, {value}\]'
    ):
        head.loss(features(), data)


def test_missing_target():
    data, _ = samples()
    data[2] = DataSample(metainfo=dict(sample_idx=9)).set_gt_label(1)
    with pytest.raises(
        ValueError, match=r"sample 9 has no gt_score: .*results\['gt_score'\]"
    ):
        build().loss(features(), data)


@pytest.mark.parametrize('wrong', [slice(0, 5), slice(4, 5)])
def test_wrong_number_of_targets(wrong):
    data, _ = samples()
    for index in range(*wrong.indices(5)):
        data[index] = DataSample().set_gt_score([1.0, 2.0, 3.0])
    with pytest.raises(
        ValueError,
        match=rf'position {wrong.start} of the batch has shape \(3,\) '
        r'instead of \(2,\): set num_targets',
    ):
        build().loss(features(), data)


def test_wrong_width_of_the_feature():
    with pytest.raises(
        ValueError, match='width 54 .* in_channels=6.*GlobalAveragePooling'
    ):
        build()((torch.zeros(2, 6, 3, 3),))


def test_wrong_arguments():
    with pytest.raises(ValueError, match='in_channels must be positive'):
        RegressorHead(0)
    with pytest.raises(ValueError, match='num_targets must be positive'):
        RegressorHead(6, num_targets=0)
    with pytest.raises(
        ValueError, match='num_targets=2 .* 3 targets .* num_targets=3'
    ):
        build().set_target_statistics(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match='num_targets=2 .* 1 targets'):
        build(scale_targets=False).set_target_statistics(
            torch.zeros(1), torch.ones(1)
        )


def test_copies_are_independent():
    head = build()
    other = copy.deepcopy(head)
    other.set_target_statistics(MEAN + 1, STD)
    assert_close(other(features()) - head(features()), torch.ones(5, 2))
