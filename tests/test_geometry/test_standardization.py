# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
from mmengine.model import ExponentialMovingAverage

from mmgeom.geometry.standardization import Standardizer

MEAN = torch.tensor([2.0, -3.0], dtype=torch.float64)
STD = torch.tensor([0.5, 4.0], dtype=torch.float64)


def fitted():
    scale = Standardizer(2)
    scale.set_statistics(MEAN, STD)
    return scale


def test_identity_until_fitted():
    scale = Standardizer(2)
    values = torch.tensor([[1.5, -2.0], [0.0, 7.0]])
    assert not scale.is_fitted
    assert torch.equal(scale(values), values)
    assert torch.equal(scale.inverse(values), values)


def test_values():
    scale = fitted()
    assert scale.is_fitted
    values = torch.tensor([[2.5, 1.0], [2.0, -3.0]])
    expected = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert torch.equal(scale(values), expected)
    assert torch.equal(scale.inverse(expected), values)


@pytest.mark.parametrize(
    'given, expected',
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_precision(given, expected):
    scale = fitted()
    values = torch.tensor([[2.5, 1.0]], dtype=given)
    assert scale(values).dtype == expected
    assert scale.inverse(values).dtype == expected


def test_state_dict_round_trip():
    other = Standardizer(2)
    other.load_state_dict(fitted().state_dict())
    assert other.is_fitted
    assert torch.equal(other.mean, MEAN.float())
    assert torch.equal(other.std, STD.float())
    assert set(other.state_dict()) == {'mean', 'std', 'fitted'}


@pytest.mark.parametrize('update_buffers', [False, True])
def test_average_of_models_keeps_the_statistics(update_buffers):
    """Averages of equal numbers are those numbers, bit for bit."""
    scale = Standardizer(2)
    scale.set_statistics(MEAN / 3, STD / 3)
    average = ExponentialMovingAverage(
        scale, momentum=0.3, update_buffers=update_buffers
    )
    for _ in range(5):
        average.update_parameters(scale)
    for name, value in scale.state_dict().items():
        assert torch.equal(average.module.state_dict()[name], value)


@pytest.mark.parametrize(
    'mean, std, message',
    [
        ([0.0], [1.0, 1.0], r'the mean of 2 columns must have shape \(2,\)'),
        ([0.0, 1.0], [1.0], r'the std of 2 columns must have shape \(2,\)'),
        ([0.0, float('nan')], [1.0, 1.0], 'mean must be finite, got .*nan'),
        ([0.0, 1.0], [1.0, float('inf')], 'std must be finite, got .*inf'),
        ([0.0, 1.0], [1.0, 0.0], 'std must be positive.*give 1'),
        ([0.0, 1.0], [1.0, 1e-60], 'std must be positive.*give 1'),
    ],
)
def test_wrong_statistics(mean, std, message):
    scale = Standardizer(2)
    with pytest.raises(ValueError, match=message):
        scale.set_statistics(
            torch.tensor(mean), torch.tensor(std, dtype=torch.float64)
        )
    assert not scale.is_fitted


def test_wrong_number_of_columns():
    with pytest.raises(ValueError, match='must be positive, got 0'):
        Standardizer(0)
