# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch

from mmgeom.geometry.class_temperature import (
    class_temperature,
    kukleva_schedule,
)

CIFAR10 = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
GOLDEN = [
    *(1, 0.682796, 0.349147, 0.192253, 0.131706),
    *(0.110254, 0.102999, 0.100718, 0.100099, 0.1),
]


def test_golden_fixture():
    tau = class_temperature(torch.tensor(CIFAR10), 0.1, 1.0)
    assert tau.dtype == torch.float32
    torch.testing.assert_close(tau, torch.tensor(GOLDEN), atol=6e-7, rtol=0)


def test_ends_and_middle():
    counts = torch.tensor([500, 252.5, 5], dtype=torch.float64)
    tau = class_temperature(counts, 0.1, 1.0)
    expected = torch.tensor([1, 0.55, 0.1], dtype=torch.float64)
    torch.testing.assert_close(tau, expected, atol=1e-12, rtol=0)


def test_equal_to_the_printed_formula():
    counts = torch.tensor([37, 4, 1, 0, 90, 12])
    tau = class_temperature(counts, 0.07, 0.6).tolist()
    for count, value in zip(counts.tolist(), tau, strict=True):
        wave = 0.5 * (1 + math.cos(math.pi * count / 90))
        expected = (1 - wave) * (0.6 - 0.07) + 0.07
        assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize('counts', [[7], [3, 3, 3], [0, 0]])
def test_equal_counts_get_the_lower_temperature(counts):
    tau = class_temperature(torch.tensor(counts), 0.1, 1.0)
    torch.testing.assert_close(tau, torch.full((len(counts),), 0.1))


def test_equal_temperatures_are_one_temperature():
    tau = class_temperature(torch.tensor(CIFAR10), 0.2, 0.2)
    torch.testing.assert_close(tau, torch.full((10,), 0.2))


def test_permutation():
    counts = torch.tensor(CIFAR10)
    order = torch.tensor([3, 1, 9, 0, 2, 8, 7, 5, 4, 6])
    assert torch.equal(
        class_temperature(counts[order]), class_temperature(counts)[order]
    )


@pytest.mark.parametrize(
    'epoch, expected',
    [
        (0, 1),
        (50, 0.8682),
        (100, 0.55),
        (150, 0.2318),
        (200, 0.1),
        (300, 0.55),
        (400, 1),
    ],
)
def test_schedule(epoch, expected):
    tau = kukleva_schedule(epoch, 0.1, 1.0, 200)
    assert tau == pytest.approx(expected, abs=5e-5)


def test_schedule_with_defaults_starts_high():
    assert kukleva_schedule(0) == 1
    assert kukleva_schedule(200) == pytest.approx(0.1, abs=1e-15)
    assert kukleva_schedule(0.5, period=1) == pytest.approx(0.55)


@pytest.mark.parametrize('value', [0, -0.1, math.inf, math.nan])
@pytest.mark.parametrize('name', ['tau_minus', 'tau_plus'])
def test_wrong_class_temperatures(name, value):
    message = f'{name} must be positive and finite, got {value}'
    with pytest.raises(ValueError, match=message):
        class_temperature(torch.tensor([3, 1]), **{name: value})


@pytest.mark.parametrize('name', ['tau_min', 'tau_max', 'period'])
def test_wrong_schedules(name):
    with pytest.raises(ValueError, match=f'{name} must be positive'):
        kukleva_schedule(1, **{name: 0})


def test_wrong_epoch():
    with pytest.raises(ValueError, match='not negative, got -1'):
        kukleva_schedule(-1)


def test_wrong_counts():
    with pytest.raises(ValueError, match='not negative, got -3'):
        class_temperature(torch.tensor([1, -3]))
    with pytest.raises(ValueError, match='not negative, got nan'):
        class_temperature(torch.tensor([1, math.nan]))
    with pytest.raises(ValueError, match=r'shape \(K,\).*got \(2, 1\)'):
        class_temperature(torch.ones(2, 1))
    with pytest.raises(ValueError, match=r'shape \(K,\).*got \(0,\)'):
        class_temperature(torch.ones(0))
