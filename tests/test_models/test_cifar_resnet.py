# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
from mmengine.optim import OptimWrapper
from mmpretrain.structures import DataSample
from torch import nn
from torch.nn import functional as F

from mmgeom.models.backbones import CIFARDenseNet, CIFARResNet
from mmgeom.registry import MODELS


def randomize(module, seed=0):
    """Fill parameters and running statistics, without the global RNG."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in module.state_dict().items():
        if name.endswith('num_batches_tracked'):
            continue
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim == 4:
            value.copy_(noise * (2 / value[0].numel()) ** 0.5)
        elif name.endswith(('weight', 'running_var')):
            value.copy_(1 + 0.2 * noise.clamp(-2, 2))
        else:
            value.copy_(0.2 * noise)
    return module


def images(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference_forward(state, x, num_blocks, training):
    """The network as a chain of functions of its state dict."""

    def norm(x, name):
        mean = state[f'{name}.running_mean']
        var = state[f'{name}.running_var']
        if training:
            mean = x.mean(dim=(0, 2, 3))
            var = ((x - mean[:, None, None]) ** 2).mean(dim=(0, 2, 3))
        x = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        weight, bias = state[f'{name}.weight'], state[f'{name}.bias']
        return x * weight[:, None, None] + bias[:, None, None]

    def block(x, name, stride):
        out = F.conv2d(x, state[f'{name}.conv1.weight'], None, stride, 1)
        out = norm(out, f'{name}.bn1').clamp(min=0)
        out = F.conv2d(out, state[f'{name}.conv2.weight'], None, 1, 1)
        out = norm(out, f'{name}.bn2')
        identity = torch.zeros_like(out)
        offset = (out.shape[1] - x.shape[1]) // 2
        for channel in range(x.shape[1]):
            for row in range(out.shape[2]):
                identity[:, offset + channel, row] = x[
                    :, channel, row * stride, 0::stride
                ]
        return (out + identity).clamp(min=0)

    x = norm(F.conv2d(x, state['conv1.weight'], None, 1, 1), 'bn1')
    x = x.clamp(min=0)
    outs = []
    for stage in (1, 2, 3):
        for i in range(num_blocks):
            stride = 2 if stage > 1 and i == 0 else 1
            x = block(x, f'layer{stage}.{i}', stride)
        outs.append(x)
    return outs


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize(
    ('kwargs', 'size'),
    [
        (dict(depth=14), 16),
        (dict(depth=8, in_channels=1), 8),
        (dict(depth=8), 33),
        (dict(depth=8, base_channels=5), (7, 10)),
    ],
)
def test_forward_equals_reference(kwargs, size, training):
    backbone = randomize(CIFARResNet(out_indices=(0, 1, 2), **kwargs))
    backbone = backbone.double().train(training)
    size = (size, size) if isinstance(size, int) else size
    x = images(3, kwargs.get('in_channels', 3), *size).double()
    state = {k: v.clone() for k, v in backbone.state_dict().items()}
    expected = reference_forward(
        state, x, (kwargs['depth'] - 2) // 6, training
    )
    outs = backbone(x)
    assert isinstance(outs, tuple) and len(outs) == 3
    for out, reference in zip(outs, expected, strict=True):
        torch.testing.assert_close(out, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize('depth', [20, 32, 44, 56, 110])
@pytest.mark.parametrize(('in_channels', 'base'), [(3, 16), (1, 8)])
def test_number_of_parameters(depth, in_channels, base):
    backbone = CIFARResNet(depth, in_channels, base)
    n = (depth - 2) // 6
    expected = 9 * in_channels * base + 2 * base
    for width, previous in (
        (base, base),
        (2 * base, base),
        (4 * base, 2 * base),
    ):
        convolutions = 9 * width * previous + (2 * n - 1) * 9 * width**2
        expected += convolutions + 2 * n * 2 * width
    assert sum(p.numel() for p in backbone.parameters()) == expected


def test_resnet32_has_464154_parameters_with_ten_classes():
    numel = sum(p.numel() for p in CIFARResNet().parameters())
    assert numel == 463504
    classifier = nn.Linear(64, 10)
    numel += sum(p.numel() for p in classifier.parameters())
    assert numel == 464154


def test_depth_counts_weighted_layers():
    backbone = CIFARResNet(depth=32)
    convolutions = [m for m in backbone.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 31  # and the classifier


@pytest.mark.parametrize(
    ('out_indices', 'expected'),
    [
        ((2,), [(64, 8)]),
        ((0, 2), [(16, 32), (64, 8)]),
        ([0, 1, 2], [(16, 32), (32, 16), (64, 8)]),
    ],
)
def test_out_indices(out_indices, expected):
    backbone = CIFARResNet(depth=8, out_indices=out_indices).eval()
    shapes = [tuple(x.shape) for x in backbone(images(2, 3, 32, 32))]
    assert shapes == [(2, c, s, s) for c, s in expected]


def test_gradients_reach_every_parameter_and_the_image():
    backbone = randomize(CIFARResNet(depth=20))
    x = images(4, 3, 16, 16).requires_grad_()
    backbone(x)[0].square().mean().backward()
    for name, parameter in backbone.named_parameters():
        assert parameter.grad.abs().sum() > 0, name
    assert x.grad.abs().sum() > 0


def test_default_initialisation():
    backbone = CIFARResNet(depth=14)
    # Spoil the values that norm layers have from their construction.
    for parameter in backbone.parameters():
        nn.init.constant_(parameter, 7.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone.init_weights()
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            weight = module.weight.detach()
            std = (2 / (9 * module.in_channels)) ** 0.5
            # Five standard errors of a mean and of a standard deviation.
            error = 5 * std / weight.numel() ** 0.5
            assert abs(weight.mean()) < error
            assert abs(weight.std() - std) < error / 2**0.5
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_norm_eval_keeps_running_statistics():
    frozen = CIFARResNet(depth=8, norm_eval=True)
    assert frozen.train() is frozen
    assert frozen.training
    norms = [m for m in frozen.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 7
    assert not any(norm.training for norm in norms)
    before = {k: v.clone() for k, v in frozen.named_buffers()}
    frozen(images(2, 3, 8, 8))
    for name, value in frozen.named_buffers():
        assert torch.equal(value, before[name]), name

    plain = CIFARResNet(depth=8).train()
    plain(images(2, 3, 8, 8))
    assert plain.bn1.num_batches_tracked == 1


def test_norm_cfg():
    backbone = CIFARResNet(depth=8, norm_cfg=dict(type='GN', num_groups=4))
    norms = [m for m in backbone.modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 7
    x = images(3, 3, 8, 8)
    # Group norm treats each image on its own.
    torch.testing.assert_close(backbone(x)[0][:1], backbone(x[:1])[0])


def test_trace_for_another_batch():
    backbone = randomize(CIFARResNet(depth=8, out_indices=(0, 2))).eval()
    traced = torch.jit.trace(backbone, images(1, 3, 8, 8))
    x = images(3, 3, 12, 9, seed=2)
    for out, expected in zip(traced(x), backbone(x), strict=True):
        torch.testing.assert_close(out, expected)


def test_export_with_dynamic_batch():
    backbone = randomize(CIFARResNet(depth=8)).eval()
    exported = torch.export.export(
        backbone,
        (images(2, 3, 8, 8),),
        dynamic_shapes=({0: torch.export.Dim('batch')},),
    )
    x = images(5, 3, 8, 8, seed=2)
    torch.testing.assert_close(exported.module()(x)[0], backbone(x)[0])


def test_channels_last():
    backbone = randomize(CIFARResNet(depth=8)).eval()
    x = images(2, 3, 16, 16)
    expected = backbone(x)[0]
    backbone = backbone.to(memory_format=torch.channels_last)
    out = backbone(x.to(memory_format=torch.channels_last))[0]
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ('kwargs', 'error', 'match'),
    [
        (dict(depth=18), ValueError, 'depth must be 6n .* got 18'),
        (dict(depth=2), ValueError, 'depth must be 6n .* got 2'),
        (dict(in_channels=0), ValueError, 'in_channels .* got 0'),
        (dict(base_channels=-1), ValueError, 'base_channels .* got -1'),
        (dict(out_indices=(3,)), ValueError, r'stages 0, 1, 2, got \(3,\)'),
        (dict(out_indices=()), ValueError, r'at least one .* got \(\)'),
        (dict(out_indices=2), TypeError, r'got 2; write \(2,\)'),
    ],
)
def test_argument_errors(kwargs, error, match):
    with pytest.raises(error, match=match):
        CIFARResNet(**kwargs)


def test_train_step_in_an_image_classifier():
    classifier = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=dict(type='mmgeom.CIFARResNet', depth=8),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(
                type='LinearClsHead',
                num_classes=10,
                in_channels=64,
                loss=dict(type='CrossEntropyLoss'),
            ),
        )
    )
    assert isinstance(classifier.backbone, CIFARResNet)
    classifier.init_weights()
    before = {k: v.clone() for k, v in classifier.named_parameters()}
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    data = dict(
        inputs=images(4, 3, 32, 32),
        data_samples=[DataSample().set_gt_label(i) for i in range(4)],
    )
    classifier.train()
    log = classifier.train_step(data, OptimWrapper(optimizer))
    assert torch.isfinite(log['loss'])
    changed = [
        name
        for name, parameter in classifier.named_parameters()
        if not torch.equal(parameter, before[name])
    ]
    assert len(changed) == len(before)

    classifier.eval()
    predictions = classifier.test_step(data)
    assert predictions[0].pred_score.shape == (10,)


@pytest.mark.parametrize('in_channels', [1, 3])
def test_maps_are_ordered_by_pixels_on_a_cpu(in_channels):
    (maps,) = CIFARResNet(8, in_channels)(images(2, in_channels, 16, 16))
    assert maps.is_contiguous(memory_format=torch.channels_last)
    assert not maps.is_contiguous()


def test_so_are_those_of_a_densenet():
    (maps,) = CIFARDenseNet(10, growth_rate=4)(images(2, 3, 16, 16))
    assert maps.is_contiguous(memory_format=torch.channels_last)
