# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.sphere import (
    few_shot_share,
    nearest_vectors,
    sample_span,
    uniform_points,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def unit(*shape, seed=0):
    normal = torch.randn(*shape, generator=generator(seed)).double()
    return unit_vectors(normal)


def largest_gap(first, second):
    """Two-sample Kolmogorov-Smirnov statistic, times its scale."""
    first, second = first.sort().values, second.sort().values
    both = torch.cat([first, second])
    below = torch.searchsorted(first, both, right=True) / len(first)
    other = torch.searchsorted(second, both, right=True) / len(second)
    scale = math.sqrt(len(first) * len(second) / len(both))
    return scale * float((below - other).abs().max())


class Memory(TorchDispatchMode):
    """Bytes of all memory that results of operations live in.

    Memory that is given back and taken again counts twice.
    """

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.storages[storage.data_ptr()] = storage
        return result

    def total(self):
        return sum(s.nbytes() for s in self.storages.values())


@pytest.mark.parametrize('dim', [1, 2, 3, 128])
def test_uniform_points_have_the_moments_of_the_sphere(dim):
    number = 20_000
    points = uniform_points(number, dim, 0, torch.float64)
    torch.testing.assert_close(
        points.norm(dim=1), torch.ones(number, dtype=torch.float64)
    )
    sigma = math.sqrt(1 / (dim * number))
    assert points.mean(0).abs().max() < 6 * sigma
    second = points.T @ points / number
    # Variance of p_i p_j is at most E p_1^4 = 3 / (n (n + 2)).
    sigma = math.sqrt(3 / (dim * (dim + 2) * number))
    eye = torch.eye(dim, dtype=torch.float64)
    assert (second - eye / dim).abs().max() <= 6 * sigma + 1e-12


def test_points_come_from_their_own_generator():
    before = torch.random.get_rng_state()
    seeded = uniform_points(5, 3, 7)
    assert torch.equal(seeded, uniform_points(5, 3, generator(7)))
    assert not torch.equal(seeded, uniform_points(5, 3, 8))
    running = generator(7)
    first = uniform_points(5, 3, running)
    assert torch.equal(first, seeded)
    assert not torch.equal(first, uniform_points(5, 3, running))
    sample = sample_span(unit(2, 5), 4, 7)
    again = sample_span(unit(2, 5), 4, generator(7))
    assert torch.equal(sample.points, again.points)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert seeded.dtype == torch.float32


SPANS = {
    'few vectors': unit(4, 9),
    'one vector': unit(1, 5),
    'one less than the dimension': unit(4, 5),
    'as many as the dimension': unit(5, 5),
    'more than the dimension': unit(9, 4),
    'equal rows': unit(3, 6)[[0, 1, 0, 2, 2]],
    'opposite rows': torch.cat([unit(2, 7), -unit(2, 7)]),
    'rows of zeros': torch.cat([unit(2, 6), torch.zeros(2, 6).double()]),
    'not unit': 3 * unit(3, 6) + 1,
}


@pytest.mark.parametrize('vectors', SPANS.values(), ids=SPANS)
def test_products_in_the_span_have_the_law_of_whole_points(vectors):
    number = 20_000
    count, dim = vectors.shape
    points, inside = sample_span(vectors, number, 3)
    assert points.shape == (number, min(count, dim))
    assert inside.shape == (count, min(count, dim))
    assert points.norm(dim=1).max() <= 1 + 1e-12
    torch.testing.assert_close(inside @ inside.T, vectors @ vectors.T)
    products = points @ inside.T
    whole = uniform_points(number, dim, 4, torch.float64) @ vectors.T
    # Probability of a larger statistic for equal laws: 2 exp(-2 * 2.7^2).
    for statistic in (
        lambda p: p[:, 0],
        lambda p: p.max(1).values,
        lambda p: p.min(1).values,
        lambda p: p.square().sum(1),
        lambda p: p @ torch.arange(count).double(),
    ):
        assert largest_gap(statistic(products), statistic(whole)) < 2.7
    # Moments in closed form.
    second = products.T @ products / number
    scale = vectors.square().sum(1).max()
    sigma = scale * math.sqrt(3 / (dim * (dim + 2) * number))
    assert (second - vectors @ vectors.T / dim).abs().max() < 6 * sigma
    fourth = products.pow(4).mean(0)
    closed = 3 * vectors.norm(dim=1).pow(4) / (dim * (dim + 2))
    torch.testing.assert_close(fourth, closed, rtol=0.15, atol=1e-9)


def test_other_laws_are_told_apart():
    number = 20_000
    vectors = unit(4, 9)
    points, inside = sample_span(vectors, number, 3)
    whole = uniform_points(number, 9, 4, torch.float64) @ vectors.T
    # On the sphere of the span instead of inside it.
    wrong = unit_vectors(points) @ inside.T
    assert largest_gap(wrong.max(1).values, whole.max(1).values) > 2.7


def test_gradient_in_the_span_is_that_of_the_expectation():
    r"""E max(p.a, p.b) = |a - b| / 2 E|p_1|, for any two vectors."""
    dim, number, draws = 12, 500, 200
    vectors = unit(2, dim).requires_grad_()
    spread = vectors[0] - vectors[1]
    moment = math.gamma(dim / 2) / (
        math.sqrt(math.pi) * math.gamma((dim + 1) / 2)
    )
    closed = moment / 2 * spread.norm()
    (expected,) = torch.autograd.grad(closed, vectors)
    rng = generator(5)
    collected = {'span': [], 'whole': []}
    for _ in range(draws):
        points, inside = sample_span(vectors, number, rng)
        value = (points @ inside.T).max(1).values.mean()
        collected['span'].append(torch.autograd.grad(value, vectors)[0])
        points = uniform_points(number, dim, rng, torch.float64)
        value = (points @ vectors.T).max(1).values.mean()
        collected['whole'].append(torch.autograd.grad(value, vectors)[0])
    noise = {}
    for name, gradients in collected.items():
        gradients = torch.stack(gradients)
        sigma = gradients.std(0) / math.sqrt(draws)
        assert ((gradients.mean(0) - expected).abs() < 5 * sigma).all()
        noise[name] = gradients.var(0).sum()
    assert noise['span'] < noise['whole'] / 3
    # The expectation depends on the vectors only, so its gradient lies in
    # their span, and so does each one that is drawn.
    basis = torch.linalg.qr(vectors.detach().T).Q
    outside = collected['span'][0] - collected['span'][0] @ basis @ basis.T
    assert outside.abs().max() < 1e-15


def test_gradient_of_dependent_vectors_is_finite():
    vectors = unit(3, 6)[[0, 1, 0, 2]].requires_grad_()
    points, inside = sample_span(vectors, 50)
    (points @ inside.T).max(1).values.sum().backward()
    # Each point moves a vector by no more than its own length.
    assert vectors.grad.norm(dim=1).sum() <= 50
    assert vectors.grad.any()


@pytest.mark.parametrize('entries', [1, 7, 40, 1 << 22])
def test_nearest_vectors_in_parts(monkeypatch, entries):
    monkeypatch.setattr('mmgeom.geometry.sphere._MAX_ENTRIES', entries)
    points, vectors = unit(23, 5, seed=1), unit(6, 5, seed=2)
    available = torch.tensor([True, False, True, True, False, True])
    for mask in (None, available):
        keep = torch.arange(6) if mask is None else mask.nonzero().flatten()
        cosine, index = nearest_vectors(points, vectors, mask)
        expected = (points @ vectors[keep].T).max(1)
        torch.testing.assert_close(cosine, expected.values)
        assert torch.equal(index, keep[expected.indices])


def test_rows_that_are_not_available_never_win():
    # All real cosines are negative: zeros would win.
    points = torch.tensor([[1.0, 0.0]])
    vectors = torch.tensor([[0.0, 0.0], [-0.6, 0.8], [math.nan, 9.0]])
    mask = torch.tensor([False, True, False])
    cosine, index = nearest_vectors(points, vectors, mask)
    assert cosine.tolist() == pytest.approx([-0.6])
    assert index.tolist() == [1]
    none = nearest_vectors(points, vectors, torch.zeros(3, dtype=torch.bool))
    assert none.cosine.tolist() == [-math.inf]


def test_many_points_and_vectors_fit():
    points = uniform_points(20_000, 4)
    vectors = uniform_points(1000, 4, 1)
    own = 4 * (points.numel() + vectors.numel()) + 12 * len(points)
    with Memory() as memory:
        nearest_vectors(points, vectors)
    assert memory.total() < 4 * (1 << 22) + own + 1e5
    with Memory() as dense:
        points @ vectors.T
    assert dense.total() >= 4 * 20_000 * 1000


def test_few_shot_share():
    points = uniform_points(20_000, 3)
    # The octants' axes: a sixth of the sphere each.
    vectors = torch.cat([torch.eye(3), -torch.eye(3)])
    few = torch.tensor([True, False, False, True, False, False])
    sigma = math.sqrt(1 / 3 * 2 / 3 / 20_000)
    share = few_shot_share(points, vectors, few)
    assert share.item() == pytest.approx(1 / 3, abs=5 * sigma)
    # The share of one that is missing goes to the four around it, none of
    # which is few-shot.
    available = torch.tensor([True, True, True, False, True, True])
    share = few_shot_share(points, vectors, few, available)
    assert share.item() == pytest.approx(1 / 6, abs=5 * sigma)
    nobody = torch.zeros(6, dtype=torch.bool)
    assert few_shot_share(points, vectors, few, nobody) == 0
    assert few_shot_share(points, vectors, ~nobody) == 1
    assert few_shot_share(points, vectors, nobody) == 0


def test_half_precision_is_widened():
    points = uniform_points(50, 8)
    vectors = uniform_points(4, 8, 1)
    expected = nearest_vectors(points, vectors)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert (points @ vectors.T).dtype == torch.bfloat16
        result = nearest_vectors(points, vectors)
        sample = sample_span(vectors, 50, 3)
    assert result.cosine.dtype == torch.float32
    assert torch.equal(result.cosine, expected.cosine)
    assert torch.equal(sample.vectors, sample_span(vectors, 50, 3).vectors)
    low = nearest_vectors(points.half(), vectors.half())
    assert low.cosine.dtype == torch.float32
    assert sample_span(vectors.half(), 5).points.dtype == torch.float32


def test_bad_arguments():
    with pytest.raises(ValueError, match='positive num_points, got 0'):
        uniform_points(0, 3)
    with pytest.raises(ValueError, match='positive dim, got -1'):
        uniform_points(3, -1)
    with pytest.raises(ValueError, match='positive num_points, got 0'):
        sample_span(unit(2, 3), 0)
    with pytest.raises(ValueError, match='positive K, got 0'):
        sample_span(torch.zeros(0, 3), 5)
    with pytest.raises(ValueError, match=r'got \(4, 3\) and \(2, 5\)'):
        nearest_vectors(unit(4, 3), unit(2, 5))
    with pytest.raises(ValueError, match=r'got \(0, 3\) and \(2, 3\)'):
        nearest_vectors(torch.zeros(0, 3), unit(2, 3))
    with pytest.raises(ValueError, match=r'mask of shape \(2,\).*\(3,\)'):
        nearest_vectors(unit(4, 3), unit(2, 3), torch.ones(3).bool())
    with pytest.raises(ValueError, match=r'few must be a mask of shape'):
        few_shot_share(unit(4, 3), unit(2, 3), torch.ones(3).bool())
