# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.reconstruction import (
    head_weights,
    reconstruct,
    simplex_half_angle,
)

# Statistics of two head classes and a tail class, with 4, 3 and 2 samples.
GOLDEN = dict(
    mean=[
        (0.941188613737, 0.063008395228, 0.136200900699),
        (0.095782628522, 0.962100992035, 0.123796892118),
        (0.691087217474, 0.689604521268, 0.187534798089),
    ],
    angle=[0.417796870977, 0.269845596720, 0.108261165628],
    counts=[4, 3, 2],
)
GOLDEN_WEIGHTS = [0.560266903709, 0.439733096291]
GOLDEN_MEAN = [0.630261419855, 0.573986843971, 0.159140622844]
GOLDEN_ANGLE = 0.230499482338


class Sizes(TorchDispatchMode):
    """The largest number of entries of any result."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, torch.Tensor):
                self.largest = max(self.largest, value.numel())
        return result


def statistics(number=12, dim=5, heads=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.rand(*shape, generator=generator, dtype=dtype)

    mean = unit_vectors(random(number, dim) - 0.3) * random(number, 1)
    counts = torch.arange(number, 0, -1) ** 2
    return dict(
        mean=mean,
        angle=random(number) * 1.5,
        angle_mean=random(number) / 2,
        angle_std=random(number) / 10,
        counts=counts,
        head_mask=torch.arange(number) < heads,
        valid=torch.ones(number, dtype=torch.bool),
    )


def golden(dtype=torch.float64):
    angle = torch.tensor(GOLDEN['angle'], dtype=dtype)
    return dict(
        mean=torch.tensor(GOLDEN['mean'], dtype=dtype),
        angle=angle,
        angle_mean=angle / 2,
        angle_std=angle / 4,
        counts=torch.tensor(GOLDEN['counts']),
        head_mask=torch.tensor([True, True, False]),
        valid=torch.ones(3, dtype=torch.bool),
    )


def slow(stats, q=3, gamma=0.5):
    """Plain loops over classes."""
    mean, counts = stats['mean'], stats['counts'].double()
    values = [stats[name] for name in ('angle', 'angle_mean', 'angle_std')]
    new_mean = mean.clone()
    new_values = [value.clone() for value in values]
    heads = [
        k
        for k in range(len(mean))
        if stats['head_mask'][k] and stats['valid'][k]
    ]
    for k in range(len(mean)):
        if stats['head_mask'][k] or not stats['valid'][k]:
            continue
        near = sorted(heads, key=lambda c: -float(mean[k] @ mean[c]))[:q]
        weights = {
            c: counts[c] * max(float(mean[k] @ mean[c]), 0) for c in near
        }
        total = sum(weights.values())
        if total < 1e-8:
            continue
        mixed = sum(w / total * mean[c] for c, w in weights.items())
        new_mean[k] = (1 - gamma) * mixed + gamma * mean[k]
        for new, old in zip(new_values, values, strict=True):
            mixed = sum(w / total * old[c] for c, w in weights.items())
            new[k] = (1 - gamma) * mixed + gamma * old[k]
    return new_mean, *new_values


def assert_equal_to_loop(result, expected):
    own = result.mean, result.angle, result.angle_mean, result.angle_std
    for value, other in zip(own, expected, strict=True):
        torch.testing.assert_close(value, other, atol=1e-14, rtol=1e-13)


@pytest.mark.parametrize(
    'number, degrees',
    [
        (2, 90),
        (3, 60),
        (10, 48.19),
        (100, 45.29),
        (1000, 45.03),
        (8142, 45.004),
    ],
)
def test_half_angle_of_the_simplex(number, degrees):
    angle = math.degrees(simplex_half_angle(number))
    assert angle == pytest.approx(degrees, abs=5e-3)


def test_half_angle_of_two_classes_is_a_right_one():
    assert simplex_half_angle(2) == math.pi / 2


def test_golden_fixture():
    stats = golden()
    mean = stats['mean']
    weights, similar = head_weights(
        mean[2:], mean[:2], stats['counts'][:2].double(), 2
    )
    expected = torch.tensor([GOLDEN_WEIGHTS], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=2e-12, rtol=0)
    assert similar.tolist() == [True]
    result = reconstruct(**stats, q=2, gamma=0.5)
    expected = torch.tensor(GOLDEN_MEAN, dtype=torch.float64)
    torch.testing.assert_close(result.mean[2], expected, atol=2e-12, rtol=0)
    assert result.angle[2].item() == pytest.approx(GOLDEN_ANGLE, abs=2e-12)
    assert torch.equal(result.cap, result.angle)
    assert not result.clipped.any()
    torch.testing.assert_close(result.angle_mean, result.angle / 2)
    torch.testing.assert_close(result.angle_std, result.angle / 4)
    for name in ('mean', 'angle', 'angle_mean', 'angle_std'):
        assert torch.equal(getattr(result, name)[:2], stats[name][:2]), name


def test_golden_fixture_in_single_precision():
    result = reconstruct(**golden(torch.float32), q=2)
    assert result.mean.dtype == torch.float32
    torch.testing.assert_close(result.mean[2], torch.tensor(GOLDEN_MEAN))
    torch.testing.assert_close(result.angle[2], torch.tensor(GOLDEN_ANGLE))


@pytest.mark.parametrize('gamma', [0.0, 0.3, 1.0])
@pytest.mark.parametrize('q', [1, 3, 4, 50])
@pytest.mark.parametrize('seed', range(3))
def test_equal_to_plain_loops(seed, q, gamma):
    stats = statistics(seed=seed)
    stats['valid'][[1, 7]] = False
    result = reconstruct(**stats, q=q, gamma=gamma)
    assert_equal_to_loop(result, slow(stats, q, gamma))
    assert torch.equal(result.valid, stats['valid'])


def test_weights_sum_to_one():
    stats = statistics(40, heads=15)
    mean, heads = stats['mean'], stats['head_mask']
    counts = stats['counts'][heads].double()
    weights, similar = head_weights(mean[~heads], mean[heads], counts, 3)
    assert (weights >= 0).all()
    assert (weights != 0).sum(1).max() == 3
    torch.testing.assert_close(weights.sum(1), similar.double())


def test_equal_angles_of_heads_are_kept():
    stats = statistics()
    stats['angle'][:4] = 0.6
    result = reconstruct(**stats, gamma=0.0)
    similar = head_weights(
        stats['mean'][4:], stats['mean'][:4], stats['counts'][:4].double(), 3
    )[1]
    assert similar.sum() > 3
    angle = result.angle[4:][similar]
    torch.testing.assert_close(angle, torch.full_like(angle, 0.6))


def test_gamma_of_one_ignores_heads():
    stats = statistics()
    result = reconstruct(**stats, gamma=1.0)
    for name in ('mean', 'angle', 'angle_mean', 'angle_std'):
        assert torch.equal(getattr(result, name), stats[name]), name
    half = simplex_half_angle(12)
    assert torch.equal(result.cap, stats['angle'].clamp(max=half))
    assert torch.equal(result.clipped, stats['angle'] > half)
    assert 0 < result.clipped.sum() < 12


def test_more_samples_of_a_head_weigh_more():
    mean = torch.tensor([[1.0, 0], [0, 1], [0.5, 0.5]]).double()
    counts = torch.tensor([30.0, 10]).double()
    weights, _ = head_weights(mean[2:], mean[:2], counts, 2)
    expected = torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(weights, expected)


def test_heads_on_the_other_side_have_no_weight():
    stats = golden()
    stats['mean'][1] = -stats['mean'][1]
    result = reconstruct(**stats, q=2)
    expected = (stats['mean'][0] + stats['mean'][2]) / 2
    torch.testing.assert_close(result.mean[2], expected)


@pytest.mark.parametrize('case', ['opposite', 'orthogonal', 'invalid', 'none'])
def test_without_similar_heads_a_class_keeps_its_own(case):
    stats = golden()
    if case == 'opposite':
        stats['mean'][:2] = -stats['mean'][:2]
    elif case == 'orthogonal':
        stats['mean'][2] = torch.linalg.cross(*stats['mean'][:2])
    elif case == 'invalid':
        stats['valid'][:2] = False
    else:
        stats['head_mask'][:] = False
    result = reconstruct(**stats)
    assert torch.equal(result.mean, stats['mean'])
    assert torch.equal(result.angle, stats['angle'])
    assert torch.equal(result.valid, stats['valid'])


def test_no_tail():
    stats = golden()
    stats['head_mask'][:] = True
    result = reconstruct(**stats)
    assert torch.equal(result.mean, stats['mean'])


def test_absent_classes_are_no_neighbours_and_stay_invalid():
    stats = statistics()
    absent = torch.tensor([0, 6])
    stats['valid'][absent] = False
    for name in ('mean', 'angle', 'angle_mean', 'angle_std'):
        stats[name][absent] = 0
    result = reconstruct(**stats)
    assert_equal_to_loop(result, slow(stats))
    assert not result.valid[absent].any()
    assert not result.clipped[absent].any()
    assert not result.mean[absent].any()


def test_a_mean_that_cancels_is_not_valid():
    stats = golden()
    # The nearest head is at a right angle but for rounding.
    stats['mean'][2] = stats['mean'][0] * -1e-7
    stats['valid'][1] = False
    result = reconstruct(**stats)
    assert result.valid.tolist() == [True, False, False]


def test_two_classes():
    stats = {name: value[1:] for name, value in golden().items()}
    stats['angle'] = torch.tensor([1.0, 3.0], dtype=torch.float64)
    result = reconstruct(**stats)
    assert result.angle[1] == 2
    assert result.cap.tolist() == [1, math.pi / 2]
    assert result.clipped.tolist() == [False, True]


def test_classes_may_be_renumbered():
    stats = statistics()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    plain = reconstruct(**stats)
    other = reconstruct(**{n: value[order] for n, value in stats.items()})
    for value, expected in zip(other, plain, strict=True):
        torch.testing.assert_close(value, expected[order])


def test_half_precision_under_autocast():
    stats = statistics(dtype=torch.float32)
    stats['mean'] = stats['mean'].half()
    stats['angle'] = stats['angle'].half()
    wide = {**stats, 'mean': stats['mean'].float()}
    with torch.autocast('cpu', torch.bfloat16):
        result = reconstruct(**stats)
    for value, expected in zip(result, reconstruct(**wide), strict=True):
        assert value.dtype == expected.dtype
        assert torch.equal(value, expected)


def test_inputs_are_left_alone():
    stats = statistics()
    before = {name: value.clone() for name, value in stats.items()}
    result = reconstruct(**stats)
    assert not torch.equal(result.mean, stats['mean'])
    for name, value in before.items():
        assert torch.equal(stats[name], value), name


def test_memory_is_that_of_two_matrices():
    # All heads as neighbours: their means must not be copied for each tail.
    stats = statistics(200, 32, heads=100, dtype=torch.float32)
    with Sizes() as sizes:
        reconstruct(**stats, q=100)
    assert sizes.largest <= 200 * (32 + 3) + 100 * 100


def test_wrong_arguments():
    stats = golden()
    with pytest.raises(ValueError, match='q is a number .* got 0'):
        reconstruct(**stats, q=0)
    for gamma in (-0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf'\[0, 1\], got {gamma}'):
            reconstruct(**stats, gamma=gamma)
    with pytest.raises(ValueError, match=r'shape \(K, h\), got \(3,\)'):
        reconstruct(**{**stats, 'mean': stats['angle']})
    for name in list(stats)[1:]:
        wrong = {**stats, name: stats[name][:2]}
        message = rf'{name} must have shape \(3,\).*got \(2,\)'
        with pytest.raises(ValueError, match=message):
            reconstruct(**wrong)
    with pytest.raises(ValueError, match='head_mask must be a bool mask'):
        reconstruct(**{**stats, 'head_mask': stats['counts']})
    with pytest.raises(ValueError, match='at least 2 for a simplex, got 1'):
        simplex_half_angle(1)
