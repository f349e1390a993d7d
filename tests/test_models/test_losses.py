# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch
import torch.nn.functional as F
from mmpretrain.models.losses import CrossEntropyLoss

from mmgeom.distribution import LabelDistribution
from mmgeom.registry import MODELS

COUNTS = [500, 50, 5, 1]
LABELS = torch.tensor([0, 1, 2, 3, 0, 2])


def build(counts=COUNTS, dtype=torch.float64, **kwargs):
    kwargs.setdefault('type', 'mmgeom.LogitAdjustedLoss')
    loss = MODELS.build(dict(num_classes=len(counts), **kwargs)).to(dtype)
    loss.set_label_distribution(LabelDistribution(counts))
    return loss


def scores(n=6, k=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return 4 * torch.randn(n, k, generator=generator, dtype=dtype)


def plain_losses(logits, labels, counts, tau=1.0):
    """Balanced softmax of each sample by a loop."""
    losses = []
    for row, y in zip(logits.tolist(), labels.tolist()):
        total = math.fsum(n**tau * math.exp(s) for n, s in zip(counts, row))
        losses.append(math.log(total) - tau * math.log(counts[y]) - row[y])
    return torch.tensor(losses, dtype=torch.float64)


@pytest.mark.parametrize('tau', [0.3, 1.0, 2.5])
@pytest.mark.parametrize('name', ['LogitAdjustedLoss', 'BalancedSoftmaxLoss'])
def test_equals_the_loop(name, tau):
    loss = build(type=f'mmgeom.{name}', tau=tau, reduction='none')
    torch.testing.assert_close(
        loss(scores(), LABELS),
        plain_losses(scores(), LABELS, COUNTS, tau),
        atol=1e-12,
        rtol=1e-12,
    )


def test_gradient_is_softmax_minus_label():
    logits = scores().requires_grad_()
    loss = build()
    loss(logits, LABELS).backward()
    weighted = torch.tensor(COUNTS) * logits.detach().exp()
    posterior = weighted / weighted.sum(1, keepdim=True)
    expected = (posterior - F.one_hot(LABELS, 4)) / len(LABELS)
    torch.testing.assert_close(logits.grad, expected, atol=1e-12, rtol=1e-10)


def test_zero_temperature_is_cross_entropy_and_needs_no_priors():
    loss = MODELS.build(
        dict(type='mmgeom.LogitAdjustedLoss', num_classes=4, tau=0.0)
    )
    logits = scores(dtype=torch.float32)
    torch.testing.assert_close(
        loss(logits, LABELS), F.cross_entropy(logits, LABELS)
    )
    torch.testing.assert_close(
        loss(logits, LABELS, avg_factor=6),
        CrossEntropyLoss()(logits, LABELS, avg_factor=6),
    )


def test_balanced_data_give_the_hosts_cross_entropy():
    loss = build([7] * 4, dtype=torch.float32, loss_weight=0.5)
    host = CrossEntropyLoss(loss_weight=0.5)
    soft = CrossEntropyLoss(use_soft=True, loss_weight=0.5)
    logits = scores(dtype=torch.float32)
    target = scores(seed=1, dtype=torch.float32).softmax(1)
    for kwargs in (
        dict(),
        dict(weight=torch.rand(6, generator=torch.Generator())),
        dict(avg_factor=3),
        dict(reduction_override='sum'),
        dict(reduction_override='none'),
    ):
        torch.testing.assert_close(
            loss(logits, LABELS, **kwargs), host(logits, LABELS, **kwargs)
        )
        torch.testing.assert_close(
            loss(logits, target, **kwargs), soft(logits, target, **kwargs)
        )


@pytest.mark.parametrize('lam', [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize('tau', [0.0, 1.0, 1.7])
def test_mixed_label_is_the_mixture_of_the_losses(tau, lam):
    loss = build(tau=tau, reduction='none')
    one, other = LABELS, LABELS.flip(0)
    mixed = lam * F.one_hot(one, 4) + (1 - lam) * F.one_hot(other, 4)
    separate = lam * loss(scores(), one) + (1 - lam) * loss(scores(), other)
    torch.testing.assert_close(
        loss(scores(), mixed), separate, atol=1e-12, rtol=1e-12
    )


def test_reductions():
    each = plain_losses(scores(), LABELS, COUNTS)
    weight = torch.tensor([1.0, 0.0, 2.0, 0.5, 3.0, 1.0]).double()
    loss = build(loss_weight=3.0)
    torch.testing.assert_close(loss(scores(), LABELS), 3 * each.mean())
    torch.testing.assert_close(
        loss(scores(), LABELS, avg_factor=4), 3 * each.sum() / 4
    )
    torch.testing.assert_close(
        loss(scores(), LABELS, weight=weight), 3 * (weight * each).mean()
    )
    torch.testing.assert_close(
        loss(scores(), LABELS, weight=weight, avg_factor=2.5),
        3 * (weight * each).sum() / 2.5,
    )
    torch.testing.assert_close(
        loss(scores(), LABELS, reduction_override='none', avg_factor=2),
        3 * each,
    )
    torch.testing.assert_close(
        build(reduction='sum')(scores(), LABELS), each.sum()
    )
    with pytest.raises(ValueError, match='avg_factor can not be used'):
        build(reduction='sum')(scores(), LABELS, avg_factor=2)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('target', ['hard', 'soft'])
def test_half_precision_is_finite_and_fp32(dtype, target):
    loss = build(dtype=torch.float32)
    logits = (scores() * 1000).to(dtype).requires_grad_()
    label = LABELS if target == 'hard' else F.one_hot(LABELS, 4).to(dtype)
    value = loss(logits, label)
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    torch.testing.assert_close(
        value, loss(logits.float(), label.float() if label.ndim > 1 else label)
    )
    value.backward()
    assert torch.isfinite(logits.grad).all()


def test_under_autocast():
    loss = build(dtype=torch.float32)
    layer = torch.nn.Linear(8, 4)
    inputs = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast('cpu', torch.bfloat16):
        logits = layer(inputs)
        assert logits.dtype == torch.bfloat16
        value = loss(logits, LABELS)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(logits.float(), LABELS))


@pytest.mark.parametrize('counts', [[5, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]])
def test_classes_of_no_or_one_sample_are_finite(counts):
    loss = build(counts, dtype=torch.float32, tau=3.0)
    logits = torch.zeros(6, 4, requires_grad=True)
    value = loss(logits, LABELS)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


def test_batch_of_one_and_two_classes():
    loss = build([9, 1])
    logits = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    assert loss(logits, torch.tensor([1])).item() == pytest.approx(
        math.log(10)
    )
    assert loss(logits, torch.tensor([0])).item() == pytest.approx(
        math.log(10 / 9)
    )


def test_unset_priors_are_an_error():
    loss = MODELS.build(dict(type='mmgeom.LogitAdjustedLoss', num_classes=4))
    with pytest.raises(RuntimeError, match='keep mmgeom.LabelDistribution'):
        loss(torch.zeros(6, 4), LABELS)


def test_state_dict_is_enough():
    loss = build(dtype=torch.float32)
    fresh = MODELS.build(dict(type='mmgeom.LogitAdjustedLoss', num_classes=4))
    fresh.load_state_dict(loss.state_dict())
    logits = scores(dtype=torch.float32)
    assert torch.equal(fresh(logits, LABELS), loss(logits, LABELS))
    assert list(loss.parameters()) == []


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(tau=-1), 'tau must not be negative, got -1'),
        (dict(tau=float('nan')), 'tau must not be negative, got nan'),
        (dict(reduction='avg'), "'none', 'mean' or 'sum', got 'avg'"),
        (dict(num_classes=0), 'num_classes must be positive, got 0'),
    ],
)
def test_argument_errors(kwargs, match):
    config = dict(type='mmgeom.LogitAdjustedLoss', num_classes=4) | kwargs
    with pytest.raises(ValueError, match=match):
        MODELS.build(config)


def test_other_number_of_classes():
    loss = build()
    with pytest.raises(ValueError, match='num_classes=4 but the .* 2 classes'):
        loss.set_label_distribution(LabelDistribution([1, 2]))
    with pytest.raises(ValueError, match='logits of 3 classes do not fit'):
        loss(scores(k=3), LABELS)
    with pytest.raises(ValueError, match='does not fit logits of shape'):
        loss(scores(), LABELS[:3])
