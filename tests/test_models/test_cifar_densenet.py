# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy

import pytest
import torch
from mmengine.optim import OptimWrapper
from mmpretrain.structures import DataSample
from torch import nn
from torch.nn import functional as F

from mmgeom.models.backbones import CIFARDenseNet
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


def reference_forward(state, x, num_layers, training):
    """The network as a chain of functions of its state dict."""

    def norm(x, name):
        mean = state[f'{name}.running_mean']
        var = state[f'{name}.running_var']
        if training:
            mean = x.mean(dim=(0, 2, 3))
            var = ((x - mean[:, None, None]) ** 2).mean(dim=(0, 2, 3))
        x = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        weight, bias = state[f'{name}.weight'], state[f'{name}.bias']
        return (x * weight[:, None, None] + bias[:, None, None]).clamp(min=0)

    def halve(x):
        rows, columns = x.shape[2] // 2, x.shape[3] // 2
        out = x.new_zeros(*x.shape[:2], rows, columns)
        for row in range(rows):
            for column in range(columns):
                square = x[
                    :, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2
                ]
                out[:, :, row, column] = square.sum(dim=(2, 3)) / 4
        return out

    x = F.conv2d(x, state['conv1.weight'], padding=1)
    for block in (1, 2, 3):
        for i in range(num_layers):
            name = f'block{block}.{i}'
            weight = state[f'{name}.conv1.weight'][:, :, 0, 0]
            new = norm(x, f'{name}.norm1')
            new = torch.einsum('nchw,dc->ndhw', new, weight)
            new = norm(new, f'{name}.norm2')
            new = F.conv2d(new, state[f'{name}.conv2.weight'], padding=1)
            x = torch.cat([x, new], dim=1)
        if block < 3:
            name = f'transition{block}'
            weight = state[f'{name}.conv.weight'][:, :, 0, 0]
            x = norm(x, f'{name}.norm')
            x = halve(torch.einsum('nchw,dc->ndhw', x, weight))
    return norm(x, 'norm')


@pytest.mark.parametrize('memory_efficient', [True, False])
@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize(
    ('kwargs', 'num_layers', 'size'),
    [
        (dict(depth=10), 1, (8, 8)),
        (dict(depth=16, growth_rate=3, in_channels=1), 2, (8, 8)),
        (dict(depth=18, growth_rate=4, reduction=0.7), 2, (9, 11)),
        (dict(depth=22, growth_rate=2, reduction=1.0), 3, (4, 7)),
    ],
)
def test_forward_equals_reference(
    kwargs, num_layers, size, training, memory_efficient
):
    backbone = CIFARDenseNet(**kwargs, memory_efficient=memory_efficient)
    backbone = randomize(backbone).double().train(training)
    x = images(3, kwargs.get('in_channels', 3), *size).double()
    state = {k: v.clone() for k, v in backbone.state_dict().items()}
    outs = backbone(x)
    assert isinstance(outs, tuple) and len(outs) == 1
    expected = reference_forward(state, x, num_layers, training)
    torch.testing.assert_close(outs[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ('depth', 'growth_rate', 'reduction', 'channels'),
    [
        (150, 12, 0.5, 510),
        (150, 32, 0.5, 1360),
        (100, 12, 0.5, 342),
        (40, 12, 1.0, 24 + 3 * 6 * 12),
        # floor(0.5 * 9) = 4, floor(0.5 * 7) = 3
        (10, 3, 0.5, 6),
    ],
)
def test_number_of_channels(depth, growth_rate, reduction, channels):
    with torch.device('meta'):
        backbone = CIFARDenseNet(depth, growth_rate, reduction)
    assert backbone.out_channels == channels
    assert backbone.norm.num_features == channels


@pytest.mark.parametrize('size', [(8, 8), (9, 13), (32, 30)])
def test_shape_of_the_output(size):
    backbone = CIFARDenseNet(depth=10, growth_rate=2).eval()
    (out,) = backbone(images(2, 3, *size))
    shape = (2, backbone.out_channels, size[0] // 4, size[1] // 4)
    assert out.shape == shape


@pytest.mark.parametrize('depth', [10, 22, 40, 100, 150])
@pytest.mark.parametrize(
    ('k', 'reduction', 'in_channels'), [(12, 0.5, 3), (5, 0.4, 1)]
)
def test_number_of_parameters(depth, k, reduction, in_channels):
    with torch.device('meta'):
        backbone = CIFARDenseNet(depth, k, reduction, in_channels)
    n = (depth - 4) // 6
    expected = 9 * in_channels * 2 * k
    width = 2 * k
    for block in range(3):
        # Of n layers: the sum of their input widths w, each with 2 w for a
        # norm and 4 k w for a convolution, then 8 k and 36 k^2.
        inputs = n * width + k * n * (n - 1) // 2
        expected += inputs * (2 + 4 * k) + n * (8 * k + 36 * k * k)
        width += n * k
        expected += 2 * width
        if block < 2:
            reduced = int(width * reduction)
            expected += width * reduced
            width = reduced
    assert sum(p.numel() for p in backbone.parameters()) == expected


@pytest.mark.parametrize(
    ('depth', 'growth_rate', 'millions'),
    [(100, 12, 0.8), (250, 24, 15.3), (190, 40, 25.6)],
)
def test_size_of_the_published_networks(depth, growth_rate, millions):
    # Table 2 of the paper, with a linear classifier of ten classes.
    with torch.device('meta'):
        backbone = CIFARDenseNet(depth, growth_rate)
    number = sum(p.numel() for p in backbone.parameters())
    number += 10 * backbone.out_channels + 10
    assert round(number / 1e6, 1) == millions


@pytest.mark.parametrize(
    ('depth', 'layers'), [(100, 100), (190, 190), (150, 148)]
)
def test_layers_with_weights(depth, layers):
    with torch.device('meta'):
        backbone = CIFARDenseNet(depth)
    convolutions = [m for m in backbone.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) + 1 == layers  # the classifier


@pytest.mark.parametrize('norm', ['BN', 'GN'])
def test_memory_efficient_training_is_the_same(norm):
    norm_cfg = dict(type='BN')
    if norm == 'GN':
        norm_cfg = dict(type='GN', num_groups=2)
    plain = randomize(
        CIFARDenseNet(depth=18, growth_rate=4, norm_cfg=norm_cfg)
    )
    efficient = CIFARDenseNet(
        depth=18, growth_rate=4, norm_cfg=norm_cfg, memory_efficient=True
    )
    efficient.load_state_dict(plain.state_dict())
    results = []
    for backbone in (plain, efficient):
        x = images(4, 3, 8, 8).requires_grad_()
        for _ in range(2):
            backbone(x)[0].square().sum().backward()
        gradients = [p.grad for p in backbone.parameters()]
        results.append((x.grad, gradients, backbone.state_dict()))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    if norm == 'BN':
        norms = efficient.modules()
        norms = [m for m in norms if isinstance(m, nn.BatchNorm2d)]
        assert all(m.num_batches_tracked == 2 for m in norms)
        assert all(m.track_running_stats for m in norms)


def test_memory_efficient_keeps_fewer_tensors():
    def stored(backbone):
        kept = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            # The tensor stays in the dict, so that no address is used twice.
            kept[storage.data_ptr()] = storage.nbytes(), tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            backbone(images(2, 3, 8, 8))
        weights = {p.data_ptr() for p in backbone.parameters()}
        return sum(
            size for key, (size, _) in kept.items() if key not in weights
        )

    plain = stored(CIFARDenseNet(depth=100, growth_rate=4))
    efficient = stored(
        CIFARDenseNet(depth=100, growth_rate=4, memory_efficient=True)
    )
    assert efficient < plain / 2


@pytest.mark.parametrize('memory_efficient', [True, False])
def test_gradients_reach_every_parameter_and_the_image(memory_efficient):
    backbone = randomize(
        CIFARDenseNet(
            depth=16, growth_rate=4, memory_efficient=memory_efficient
        )
    )
    x = images(4, 3, 8, 8).requires_grad_()
    backbone(x)[0].square().mean().backward()
    for name, parameter in backbone.named_parameters():
        assert parameter.grad.abs().sum() > 0, name
    assert x.grad.abs().sum() > 0


def test_frozen_stem_trains_the_rest():
    # The inputs of the first checkpoint need no gradient then.
    backbone = randomize(
        CIFARDenseNet(depth=10, growth_rate=4, memory_efficient=True)
    )
    backbone.conv1.requires_grad_(False)
    backbone(images(2, 3, 8, 8))[0].square().mean().backward()
    assert backbone.block1[0].conv1.weight.grad.abs().sum() > 0


def test_default_initialisation():
    backbone = CIFARDenseNet(depth=22)
    # Spoil the values that norm layers have from their construction.
    for parameter in backbone.parameters():
        nn.init.constant_(parameter, 7.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone.init_weights()
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            weight = module.weight.detach()
            fan_out = module.kernel_size[0] ** 2 * module.out_channels
            std = (2 / fan_out) ** 0.5
            # Five standard errors of a mean and of a standard deviation.
            error = 5 * std / weight.numel() ** 0.5
            assert abs(weight.mean()) < error
            assert abs(weight.std() - std) < error / 2**0.5
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_group_norm_treats_each_image_on_its_own():
    backbone = CIFARDenseNet(
        depth=10, growth_rate=8, norm_cfg=dict(type='GN', num_groups=2)
    )
    x = images(3, 3, 8, 8)
    torch.testing.assert_close(backbone(x)[0][:1], backbone(x[:1])[0])


def test_export_with_dynamic_batch():
    backbone = randomize(CIFARDenseNet(depth=10, growth_rate=4)).eval()
    exported = torch.export.export(
        backbone,
        (images(2, 3, 8, 8),),
        dynamic_shapes=({0: torch.export.Dim('batch')},),
    )
    x = images(5, 3, 8, 8, seed=2)
    torch.testing.assert_close(exported.module()(x)[0], backbone(x)[0])


def test_deep_copy():
    backbone = randomize(CIFARDenseNet(depth=10, growth_rate=4)).eval()
    x = images(2, 3, 8, 8)
    assert torch.equal(copy.deepcopy(backbone)(x)[0], backbone(x)[0])


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(depth=9), 'depth must be at least 10, .* got 9'),
        (dict(growth_rate=0), 'growth_rate must be at least 1, got 0'),
        (dict(in_channels=0), 'in_channels must be at least 1, got 0'),
        (dict(reduction=0.0), r'must lie in \(0, 1\], got 0.0'),
        (dict(reduction=1.1), r'must lie in \(0, 1\], got 1.1'),
        (
            dict(depth=10, growth_rate=1, reduction=0.3),
            'reduction=0.3 leaves none of 3 channels',
        ),
    ],
)
def test_argument_errors(kwargs, match):
    with pytest.raises(ValueError, match=match):
        CIFARDenseNet(**kwargs)


@pytest.mark.parametrize('memory_efficient', [True, False])
def test_train_step_in_an_image_classifier(memory_efficient):
    backbone = dict(
        type='mmgeom.CIFARDenseNet',
        depth=10,
        growth_rate=4,
        memory_efficient=memory_efficient,
    )
    classifier = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=backbone,
            neck=dict(type='GlobalAveragePooling'),
            head=dict(
                type='mmgeom.MultiCenterHead',
                num_classes=3,
                in_channels=9,
                f=3,
                center_mode='average',
            ),
        )
    )
    assert isinstance(classifier.backbone, CIFARDenseNet)
    assert classifier.backbone.out_channels == 9
    classifier.init_weights()
    before = {k: v.clone() for k, v in classifier.named_parameters()}
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    data = dict(
        inputs=images(6, 3, 8, 8),
        data_samples=[DataSample().set_gt_label(i % 3) for i in range(6)],
    )
    classifier.train()
    log = classifier.train_step(data, OptimWrapper(optimizer))
    assert torch.isfinite(log['loss'])
    changed = [
        name
        for name, parameter in classifier.named_parameters()
        if not torch.equal(parameter, before[name])
        # a linear map before a batch norm has no use for a bias
        or name == 'head.expansion.bias'
    ]
    assert len(changed) == len(before)

    classifier.eval()
    predictions = classifier.test_step(data)
    assert predictions[0].pred_score.shape == (3,)
