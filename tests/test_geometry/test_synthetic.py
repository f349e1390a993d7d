# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch

from mmgeom.geometry.angle_laws import SAMPLERS, sample_angles
from mmgeom.geometry.class_statistics import angle_between
from mmgeom.geometry.contrast import supervised_contrastive_loss
from mmgeom.geometry.orthonormal import simplex_etf
from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.reconstruction import simplex_half_angle
from mmgeom.geometry.synthetic import fill_numbers, sample_confidence_support
from mmgeom.geometry.theory import supervised_contrastive_bound

RIGHT = math.pi / 2


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def uniforms(number, seed=0):
    """The numbers that an angle law turns into angles."""
    return torch.rand(number, generator=generator(seed), dtype=torch.float64)


def angles_of(cap, dim=3, number=500, **options):
    labels = torch.zeros(number, dtype=torch.long)
    return sample_angles(labels, double(cap), dim, generator(), **options)


def supports(number=6, dim=5, dtype=torch.float64):
    mean = torch.randn(number, dim, generator=generator(7), dtype=dtype)
    return dict(
        mean=mean,
        cap=torch.linspace(0.1, 0.8, number, dtype=dtype),
        numbers=torch.tensor([3, 0, 5, 1, 40, 2])[:number],
        angle_mean=torch.linspace(0.6, 0.0, number, dtype=dtype),
        angle_std=torch.linspace(0.0, 0.3, number, dtype=dtype),
    )


# Laws of the angle.


@pytest.mark.parametrize('cap', [0.01, 0.8, RIGHT])
@pytest.mark.parametrize(
    'dim, area',
    [
        (2, lambda x: x),
        (3, lambda x: 2 * (x / 2).sin() ** 2),
        (4, lambda x: (2 * x - (2 * x).sin()) / 4),
        (5, lambda x: 2 / 3 - x.cos() + x.cos() ** 3 / 3),
    ],
)
def test_uniform_caps_invert_their_area(dim, area, cap):
    angle = angles_of(cap, dim, sampler='uniform_cap')
    share = area(angle) / area(double(cap))
    torch.testing.assert_close(share, uniforms(500), atol=1e-6, rtol=1e-6)
    assert (angle >= 0).all() and (angle <= cap).all()


@pytest.mark.parametrize('dim', [2, 3, 16, 1024])
def test_small_uniform_caps_are_flat(dim):
    angle = angles_of(1e-9, dim, sampler='uniform_cap')
    expected = 1e-9 * uniforms(500) ** (1 / (dim - 1))
    torch.testing.assert_close(angle, expected, atol=0, rtol=1e-12)


@pytest.mark.parametrize('dim', [16, 128, 1024])
@pytest.mark.parametrize('cap', [0.05, 0.8, RIGHT])
def test_uniform_caps_in_high_dimension(cap, dim):
    # Relative to the density at the rim, integrated on a fine grid.
    angle = angles_of(cap, dim, sampler='uniform_cap')
    grid = torch.linspace(0, cap, 200_001, dtype=torch.float64)
    density = (grid.sin() / math.sin(cap)) ** (dim - 2)
    area = torch.cumulative_trapezoid(density, grid)
    area = torch.cat([area.new_zeros(1), area]) / area[-1]
    nearest = (angle / cap * 200_000).round().long()
    assert (area[nearest] - uniforms(500)).abs().max() < 5e-3
    assert torch.isfinite(angle).all()


@pytest.mark.parametrize(
    'dim, degrees', [(3, 29.68), (16, 41.73), (128, 44.56), (1024, 44.94)]
)
def test_mean_angle_of_a_uniform_cap(dim, degrees):
    angle = angles_of(math.pi / 4, dim, 40_000, sampler='uniform_cap')
    error = angle.std() / 200
    assert abs(angle.mean() - math.radians(degrees)) < 5 * error + 1e-4


def test_uniform_angles():
    angle = angles_of(0.7, sampler='uniform_angle')
    torch.testing.assert_close(angle, 0.7 * uniforms(500))


@pytest.mark.parametrize(
    'mean, std, cap',
    [
        (0.3, 0.1, 0.7),
        (0.05, 0.3, 0.78),
        (0.3, 0.01, 0.78),
        (0.7, 1e-5, 0.78),
        (0.0, 0.2, RIGHT),
        (0.9, 0.05, 0.78),
        # So far beyond the cap that probabilities are zero in float64.
        (1.2, 0.05, 0.78),
        (1.4, 0.02, 0.78),
        (1.3, 0.001, 0.78),
        (1.0, 0.03, 0.001),
    ],
)
def test_truncated_normal_inverts_its_distribution(mean, std, cap):
    angle = angles_of(cap, angle_mean=double(mean), angle_std=double(std))
    assert (angle >= 0).all() and (angle <= cap).all()
    # Integrate from the largest density, where it is not negligible.
    mode = min(mean, cap)
    scale = min(std, std**2 / max(mean - cap, std))
    low, high = max(0.0, mode - 40 * scale), min(cap, mode + 40 * scale)
    grid = torch.linspace(low, high, 400_001, dtype=torch.float64)
    logs = -((grid - mean) ** 2 - (mode - mean) ** 2) / (2 * std**2)
    share = torch.cumulative_trapezoid(logs.exp(), grid)
    share = torch.cat([share.new_zeros(1), share]) / share[-1]
    index = torch.searchsorted(grid, angle).clamp(1, 400_000)
    step = (angle - grid[index - 1]) / (grid[index] - grid[index - 1])
    own = torch.lerp(share[index - 1], share[index], step.clamp(0, 1))
    tail = (mean - cap) / std
    # The asymptote is exact to the inverse square of its distance.
    tolerance = 2 / tail**2 if tail > 30 else 1e-6
    assert (own - uniforms(500)).abs().max() < tolerance


@pytest.mark.parametrize('std', [0.0, 1e-7])
@pytest.mark.parametrize('mean, expected', [(0.3, 0.3), (0.9, 0.5)])
def test_truncated_normal_without_spread(mean, expected, std):
    angle = angles_of(0.5, angle_mean=double(mean), angle_std=double(std))
    assert torch.equal(angle, torch.full_like(angle, expected))


@pytest.mark.parametrize('sampler', SAMPLERS)
def test_a_cap_of_zero_is_a_point(sampler):
    moments = dict(angle_mean=double(0.2), angle_std=double(0.1))
    angle = angles_of(0.0, sampler=sampler, **moments)
    assert not angle.any()


# Features.


@pytest.mark.parametrize('sampler', SAMPLERS)
@pytest.mark.parametrize('dim', [2, 3, 128, 1024])
def test_features_are_unit_and_at_their_angles(dim, sampler):
    mean = torch.randn(3, dim, generator=generator(1), dtype=torch.float64)
    cap = double(0.2, 0.785, RIGHT)
    moments = dict(
        angle_mean=double(0.1, 0.9, 0.5), angle_std=double(0.1, 0.1, 0.4)
    )
    numbers = torch.tensor([70, 80, 60])
    features, labels = sample_confidence_support(
        mean, cap, numbers, generator(), sampler=sampler, **moments
    )
    assert labels.tolist() == [0] * 70 + [1] * 80 + [2] * 60
    assert (features.norm(dim=1) - 1).abs().max() < 1e-12
    expected = sample_angles(
        labels, cap, dim, generator(), sampler=sampler, **moments
    )
    own = angle_between(features, unit_vectors(mean)[labels])
    assert (own - expected).abs().max() < 1e-11
    assert (own <= cap[labels] + 1e-11).all()


@pytest.mark.parametrize('dim', [2, 3, 16])
def test_tangents_are_uniform(dim):
    number = 20_000
    mean = torch.zeros(1, dim, dtype=torch.float64)
    mean[0, 0] = 0.3
    features, _ = sample_confidence_support(
        mean,
        double(0.5),
        torch.tensor([number]),
        generator(),
        angle_mean=double(0.5),
        angle_std=double(0.0),
    )
    tangent = features[:, 1:] / math.sin(0.5)
    assert tangent.mean(0).abs().max() < 6 / math.sqrt(number)
    second = tangent.T @ tangent / number
    expected = torch.eye(dim - 1, dtype=torch.float64) / (dim - 1)
    assert (second - expected).abs().max() < 6 / math.sqrt(number)


@pytest.mark.parametrize('sampler', SAMPLERS)
def test_seeds(sampler):
    stats = supports()
    first = sample_confidence_support(
        **stats, generator=generator(3), sampler=sampler
    )
    same = sample_confidence_support(
        **stats, generator=generator(3), sampler=sampler, total=51
    )
    other = sample_confidence_support(
        **stats, generator=generator(4), sampler=sampler
    )
    assert torch.equal(first[0], same[0])
    assert torch.equal(first[1], same[1])
    assert torch.equal(first[1], other[1])
    assert (first[0] != other[0]).any(1).all()


def test_the_global_generator_is_not_touched():
    before = torch.random.get_rng_state()
    sample_confidence_support(**supports(), generator=generator())
    counts = torch.tensor([3, 1])
    fill_numbers(counts, counts > 0, generator())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_successive_draws_differ():
    running = generator()
    first, _ = sample_confidence_support(**supports(), generator=running)
    second, _ = sample_confidence_support(**supports(), generator=running)
    assert (first != second).any(1).all()


@pytest.mark.parametrize('sampler', SAMPLERS)
def test_single_precision(sampler):
    stats = supports(dtype=torch.float32)
    features, labels = sample_confidence_support(
        **stats, generator=generator(), sampler=sampler
    )
    assert features.dtype == torch.float32
    assert not features.requires_grad
    assert (features.norm(dim=1) - 1).abs().max() < 1e-6
    own = angle_between(features, unit_vectors(stats['mean'])[labels])
    assert (own <= stats['cap'][labels] + 1e-6).all()


def test_half_precision_under_autocast():
    stats = supports(dtype=torch.float32)
    stats['mean'] = stats['mean'].half()
    wide = {**stats, 'mean': stats['mean'].float()}
    with torch.autocast('cpu', torch.bfloat16):
        features, _ = sample_confidence_support(**stats, generator=generator())
    expected, _ = sample_confidence_support(**wide, generator=generator())
    assert features.dtype == torch.float32
    assert torch.equal(features, expected)


def test_two_classes_in_a_plane():
    cap = torch.full((2,), simplex_half_angle(2))
    features, labels = sample_confidence_support(
        torch.tensor([[1.0, 0], [-1, 0]]),
        cap,
        torch.tensor([200, 200]),
        generator(),
        sampler='uniform_cap',
    )
    assert (features[labels == 0, 0] > -1e-6).all()
    assert (features[labels == 1, 0] < 1e-6).all()
    # Both directions, and nearly the whole half circle.
    assert features[labels == 0, 1].min() < -0.98
    assert features[labels == 0, 1].max() > 0.98


def test_no_feature_at_all():
    stats = supports()
    stats['numbers'] = torch.zeros(6, dtype=torch.long)
    stats['mean'][2] = 0
    features, labels = sample_confidence_support(
        **stats, generator=generator(), total=0
    )
    assert features.shape == (0, 5)
    assert labels.shape == (0,)


def test_a_class_of_one_sample_is_its_own_feature():
    mean = unit_vectors(torch.randn(1, 8, generator=generator()).double())
    features, _ = sample_confidence_support(
        mean,
        double(0.0),
        torch.tensor([4]),
        generator(),
        angle_mean=double(0.0),
        angle_std=double(0.0),
    )
    torch.testing.assert_close(features, mean.expand(4, -1))


@pytest.mark.parametrize(
    'tau, bound', [(1.0, 2.7830434741), (0.1, 1.9459271850)]
)
def test_filled_batches_on_the_simplex_reach_the_bound(tau, bound):
    number, each = 5, 8
    vertices = simplex_etf(number, 6, dtype=torch.float64)
    labels = torch.arange(number).repeat_interleave(
        torch.tensor([8, 5, 3, 2, 2])
    )
    counts = torch.bincount(labels, minlength=number)
    valid = torch.ones(number, dtype=torch.bool)
    numbers = fill_numbers(counts, valid, generator())
    assert (counts + numbers).tolist() == [each] * number
    zeros = torch.zeros(number, dtype=torch.float64)
    keys, classes = sample_confidence_support(
        vertices * 0.7,
        zeros + simplex_half_angle(number),
        numbers,
        generator(),
        angle_mean=zeros,
        angle_std=zeros,
    )
    loss = supervised_contrastive_loss(
        vertices[labels], labels, tau, keys, classes
    )
    assert loss.item() == pytest.approx(bound, abs=1e-9)
    expected = supervised_contrastive_bound(
        number, number * each, tau, reduction='mean'
    )
    assert loss.item() == pytest.approx(expected, abs=1e-12)


def test_wrong_supports():
    stats = supports()

    def draw(**changes):
        sample_confidence_support(
            **{**stats, **changes}, generator=generator()
        )

    with pytest.raises(ValueError, match="got 'gauss'"):
        draw(sampler='gauss')
    with pytest.raises(ValueError, match='needs angle_mean and angle_std'):
        draw(angle_std=None)
    with pytest.raises(ValueError, match='h at least 2, got'):
        draw(mean=stats['mean'][:, :1])
    with pytest.raises(ValueError, match='from dimension 2 on, got 1'):
        angles_of(0.3, dim=1, sampler='uniform_cap')
    for name in ('cap', 'numbers', 'angle_mean', 'angle_std'):
        message = rf'{name} must have shape \(6,\).*got \(5,\)'
        with pytest.raises(ValueError, match=message):
            draw(**{name: stats[name][:5]})
    with pytest.raises(ValueError, match='must not be negative, got -1'):
        draw(numbers=torch.tensor([3, 0, 5, -1, 4, 2]))
    with pytest.raises(ValueError, match='total is 50, but .* sum to 51'):
        draw(total=50)
    with pytest.raises(ValueError, match=r'cap must lie in \[0, pi/2\]'):
        draw(cap=stats['cap'] * 4)
    mean = stats['mean'].clone()
    mean[2] = 0
    with pytest.raises(ValueError, match='class 2 has a mean without'):
        draw(mean=mean)


# Numbers.


def numbers_of(counts, **options):
    counts = torch.tensor(counts)
    valid = options.pop('valid', [True] * len(counts))
    options = {
        name: torch.tensor(value) if isinstance(value, list) else value
        for name, value in options.items()
    }
    seed = options.pop('seed', 0)
    return fill_numbers(
        counts, torch.tensor(valid), generator(seed), **options
    ).tolist()


def test_every_class_is_filled_up_to_the_largest():
    assert numbers_of([5, 0, 3, 5]) == [0, 5, 2, 0]
    assert numbers_of([5, 0, 3, 5], cap=3) == [0, 3, 2, 0]
    assert numbers_of([5, 0, 3, 5], cap=0) == [0, 0, 0, 0]
    assert numbers_of([0, 0]) == [0, 0]


def test_only_valid_and_eligible_classes_are_filled():
    valid, eligible = [True, True, False, True], [False, True, True, True]
    assert numbers_of([5, 1, 3, 2], valid=valid) == [0, 4, 0, 3]
    # A class without statistics still is the largest.
    assert numbers_of([2, 1, 9, 2], valid=valid) == [7, 8, 0, 7]
    assert numbers_of([2, 1, 9, 2], valid=valid, eligible=eligible) == [
        *(0, 8, 0, 7)
    ]


def test_constant_numbers():
    assert numbers_of([5, 0], mode='const', number=3) == [3, 3]
    assert numbers_of([5, 0], mode='const', number=3, cap=2) == [2, 2]
    assert numbers_of([5, 0], mode='const', valid=[True, False]) == [8, 0]
    assert numbers_of([1] * 999, mode='const') == [8] * 999
    assert numbers_of([1] * 1000, mode='const') == [1] * 1000


@pytest.mark.parametrize('limit', [0, 1, 9, 10, 99, 199, 200, 500])
def test_limit_of_the_total(limit):
    result = numbers_of([0] * 20, mode='const', number=10, max_total=limit)
    assert sum(result) == min(limit, 200)
    # Classes are whole but for one.
    assert sum(value not in (0, 10) for value in result) <= 1


def test_classes_are_left_out_at_random():
    options = dict(mode='const', number=10, max_total=50)
    runs = [numbers_of([0] * 20, seed=s, **options) for s in range(200)]
    assert runs[0] == numbers_of([0] * 20, seed=0, **options)
    assert runs[0] != runs[1]
    kept = (torch.tensor(runs) == 10).double().mean(0)
    # A quarter each, with a standard error of three per cent.
    assert (kept - 0.25).abs().max() < 0.15


def test_numbers_are_integers_for_any_counts():
    counts = torch.tensor([3, 1], dtype=torch.int32)
    numbers = fill_numbers(counts, counts > 0, generator())
    assert numbers.dtype == torch.int64


def test_wrong_numbers():
    with pytest.raises(ValueError, match="'fill' or 'const', got 'all'"):
        numbers_of([1, 2], mode='all')
    with pytest.raises(ValueError, match='number=3 means nothing in mode'):
        numbers_of([1, 2], number=3)
    for name in ('cap', 'max_total', 'number'):
        message = f'{name} must not be negative, got -1'
        with pytest.raises(ValueError, match=message):
            numbers_of([1, 2], mode='const', **{name: -1})
    with pytest.raises(ValueError, match='must not be negative, got -2'):
        numbers_of([1, -2])
    with pytest.raises(ValueError, match='integers of shape'):
        numbers_of([1.0, 2.0])
    with pytest.raises(ValueError, match=r'valid must have shape \(2,\)'):
        numbers_of([1, 2], valid=[True])
    with pytest.raises(ValueError, match=r'eligible must have shape \(2,\)'):
        numbers_of([1, 2], eligible=[True])
