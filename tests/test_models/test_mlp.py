# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
from mmpretrain.registry import MODELS as HOST_MODELS
from torch.testing import assert_close

from mmgeom.models.backbones.mlp import MLP
from mmgeom.registry import MODELS


def rows(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def build(**options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS.build(dict(type='mmgeom.MLP', in_channels=6) | options)
        model.init_weights()
    return model


def plain(model, x):
    """The formula, layer by layer."""
    state = model.state_dict()
    for index in range(0, len(state), 2):
        weight = state[f'layers.{index}.weight']
        x = (x @ weight.T + state[f'layers.{index}.bias']).clamp(min=0)
    return x


@pytest.mark.parametrize('hidden', [(20, 30, 10), (7,), (5, 5, 5, 5)])
def test_value(hidden):
    model = build(hidden_channels=hidden)
    feats = model(rows(4, 6))
    assert isinstance(feats, tuple) and len(feats) == 1
    assert feats[0].shape == (4, hidden[-1])
    assert model.out_channels == hidden[-1]
    assert_close(feats[0], plain(model, rows(4, 6)))
    widths = (6, *hidden)
    count = sum((a + 1) * b for a, b in zip(widths, hidden))
    assert sum(p.numel() for p in model.parameters()) == count


def test_defaults_are_those_of_the_paper():
    assert build().state_dict()['layers.4.weight'].shape == (10, 30)


def test_without_hidden_layers_the_row_is_the_feature():
    model = build(hidden_channels=())
    assert model.out_channels == 6
    assert torch.equal(model(rows(4, 6))[0], rows(4, 6))


def test_inputs_of_any_shape():
    model = build()
    images = rows(4, 1, 2, 3)
    assert torch.equal(model(images)[0], model(images.reshape(4, 6))[0])


def test_other_activation():
    model = build(hidden_channels=(3,), act_cfg=dict(type='Tanh'))
    linear = model.layers[0]
    assert_close(model(rows(4, 6))[0], linear(rows(4, 6)).tanh())


def test_initial_weights():
    model = build(hidden_channels=(200, 200), weight_std=0.001)
    for index in (0, 2):
        layer = model.layers[index]
        assert 0.0009 < layer.weight.std() < 0.0011
        assert not layer.bias.any()
    plain_model = build(hidden_channels=(200,))
    assert plain_model.layers[0].weight.abs().max() <= 6**-0.5
    assert plain_model.layers[0].weight.std() > 0.2
    constant = dict(type='Constant', layer='Linear', val=0.5)
    assert (build(init_cfg=constant).layers[0].weight == 0.5).all()


def test_known_to_the_host():
    model = HOST_MODELS.build(dict(type='mmgeom.MLP', in_channels=3))
    assert isinstance(model, MLP)


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(in_channels=0), r'must be positive, got 0 and \(20, 30, 10\)'),
        (dict(hidden_channels=(3, 0)), r'must be positive, got 6 and \(3, 0'),
        (dict(weight_std=0.0), 'weight_std must be positive, got 0.0'),
        (
            dict(weight_std=0.1, init_cfg=dict(type='Normal')),
            'both say how weights start: give one',
        ),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        MLP(**dict(in_channels=6) | options)


def test_wrong_width():
    with pytest.raises(
        ValueError, match=r'shape \(2, 4\) holds 8 numbers .* in_channels=8'
    ):
        build()(rows(3, 2, 4))
