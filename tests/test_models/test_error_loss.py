# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
from torch.testing import assert_close

from mmgeom.models.losses.error_loss import ErrorLoss
from mmgeom.registry import MODELS

KINDS = ['mse', 'l1', 'huber', 'smooth_l1']


def pair(dtype=torch.float64, rows=5, columns=3):
    generator = torch.Generator().manual_seed(0)
    shape = (2, rows, columns)
    pred, target = 2 * torch.randn(shape, generator=generator).to(dtype)
    return pred, target


def plain(kind, error, delta):
    """Loss of one number, from the definition."""
    size = abs(error)
    if kind == 'mse':
        return size**2
    if kind == 'l1':
        return size
    huber = size**2 / 2 if size <= delta else delta * (size - delta / 2)
    return huber if kind == 'huber' else huber / delta


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('delta', [0.3, 1.0, 2.5])
@pytest.mark.parametrize('columns', [1, 3])
def test_value(kind, delta, columns):
    options = dict(delta=delta) if kind in ('huber', 'smooth_l1') else {}
    pred, target = pair(columns=columns)
    rows = torch.tensor(
        [
            sum(plain(kind, e, delta) for e in row.tolist()) / columns
            for row in pred - target
        ],
        dtype=torch.float64,
    )
    loss = ErrorLoss(kind, **options, loss_weight=2.0)
    assert_close(loss(pred, target), 2 * rows.mean())
    assert_close(loss(pred, target, reduction_override='sum'), 2 * rows.sum())
    assert_close(loss(pred, target, reduction_override='none'), 2 * rows)
    none = ErrorLoss(kind, **options, reduction='none')
    assert_close(none(pred, target), rows)
    assert_close(loss(pred, target, avg_factor=7), 2 * rows.sum() / 7)
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 3.0], dtype=torch.float64)
    assert_close(loss(pred, target, weight=weight), 2 * (weight * rows).mean())
    assert_close(
        loss(pred, target, weight=weight, avg_factor=float(weight.sum())),
        2 * (weight * rows).sum() / 6.5,
    )


@pytest.mark.parametrize('kind', KINDS)
def test_gradient_is_that_of_differences(kind):
    pred, target = pair()
    pred.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda value: ErrorLoss(kind)(value, target), (pred,)
    )


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype):
    """The square of 300 is beyond the range of float16."""
    pred = torch.full((2, 1), 300.0, dtype=dtype, requires_grad=True)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        loss = ErrorLoss()(pred, torch.zeros(2, 1, dtype=dtype))
    assert loss.dtype == torch.float32
    assert loss.item() == 90000.0
    loss.backward()
    assert torch.isfinite(pred.grad).all()


def test_built_by_name():
    loss = MODELS.build(dict(type='mmgeom.ErrorLoss', kind='l1'))
    assert isinstance(loss, ErrorLoss)
    assert loss.kind == 'l1'


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(kind='mae'), r"kind must be one of .* got 'mae'"),
        (
            dict(kind='huber', delta=0.0),
            'delta must be positive and finite, got 0.0',
        ),
        (dict(delta=0.5), "delta=0.5 means nothing to kind='mse'"),
        (dict(kind='huber', delta=float('nan')), 'delta must be positive'),
        (dict(reduction='max'), "reduction must be .* got 'max'"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        ErrorLoss(**options)


def test_wrong_shapes():
    pred, target = pair(columns=1)
    with pytest.raises(ValueError, match=r'got \(5, 1\) and \(5,\)'):
        ErrorLoss()(pred, target[:, 0])
    with pytest.raises(ValueError, match=r'got \(5,\) and \(5,\)'):
        ErrorLoss()(pred[:, 0], target[:, 0])
    with pytest.raises(ValueError, match=r'shape \(5,\), got \(5, 1\)'):
        ErrorLoss()(pred, target, weight=target)
    with pytest.raises(ValueError, match="got 'batchmean'"):
        ErrorLoss()(pred, target, reduction_override='batchmean')
