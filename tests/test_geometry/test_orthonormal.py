# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch

from mmgeom.geometry import (
    RandomHadamard,
    orthonormal_rows,
    simplex_etf,
    simplex_vertices,
    walsh_hadamard,
)


@pytest.mark.parametrize(
    ('num_classes', 'dim'), [(4, 4), (10, 64), (100, 128), (2, 1), (5, 4)]
)
def test_simplex(num_classes, dim):
    etf = simplex_etf(num_classes, dim, seed=3, dtype=torch.float64)
    gram = etf @ etf.T
    k = num_classes
    expected = (torch.eye(k).double() * k - 1) / (k - 1)
    assert torch.allclose(gram, expected, rtol=0, atol=5e-15)
    assert etf.sum(0).abs().max() < 5e-15


def test_simplex_vertices_span_their_space():
    vertices = simplex_vertices(7)
    assert vertices.shape == (7, 6)
    moment = vertices.T @ vertices
    expected = torch.eye(6).double() * 7 / 6
    assert torch.allclose(moment, expected, rtol=0, atol=1e-14)


def test_orthonormal_rows_depend_on_the_seed_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = orthonormal_rows(5, 9, 0, torch.float64)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(first, orthonormal_rows(5, 9, 0, torch.float64))
    assert not torch.equal(first, orthonormal_rows(5, 9, 1, torch.float64))
    eye = torch.eye(5).double()
    assert torch.allclose(first @ first.T, eye, rtol=0, atol=1e-14)


def test_rows_are_uniform_over_seeds():
    """Signs are fixed by R, so no orthant is preferred."""
    first = torch.stack([orthonormal_rows(1, 3, s)[0] for s in range(2000)])
    assert first.mean(0).abs().max() < 4 / (3 * 2000) ** 0.5
    assert (first.square().mean(0) - 1 / 3).abs().max() < 0.03


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: orthonormal_rows(5, 4), '5 orthonormal vectors do not fit'),
        (lambda: simplex_etf(5, 3), 'needs .* dimension 4, got dimension 3'),
        (lambda: simplex_etf(1, 3), 'at least 2 classes'),
        (lambda: walsh_hadamard(torch.ones(6)), 'power of two, got 6'),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize('size', [1, 2, 8, 64, 128, 4096])
def test_walsh_hadamard_equals_the_matrix(size):
    index = torch.arange(size)
    parity = (
        torch.tensor(
            [
                bin(int(v)).count('1') % 2
                for v in (index[:, None] & index).ravel()
            ]
        )
        if size <= 128
        else None
    )
    x = torch.randn(3, size, dtype=torch.float64)
    y = walsh_hadamard(x)
    if parity is not None:
        matrix = (1 - 2 * parity.reshape(size, size)).double() / size**0.5
        assert torch.allclose(y, x @ matrix, rtol=0, atol=1e-12)
    assert torch.allclose(walsh_hadamard(y), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize('dim', [1, 2, 4, 64, 128])
def test_random_hadamard_is_orthogonal(dim):
    rotation = RandomHadamard(dim, seed=1).double()
    matrix = rotation(torch.eye(dim).double())
    eye = torch.eye(dim).double()
    assert torch.allclose(matrix @ matrix.T, eye, rtol=0, atol=1e-12)
    assert torch.equal(matrix, RandomHadamard(dim, 1)(torch.eye(dim).double()))
    if dim > 3:
        other = RandomHadamard(dim, 2)(torch.eye(dim).double())
        assert not torch.allclose(matrix, other)


def test_random_hadamard_directions_are_dense():
    matrix = RandomHadamard(64, seed=0)(torch.eye(64).double())
    expected = torch.full((64, 64), 1 / 8).double()
    assert torch.allclose(matrix.abs(), expected, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match='a power of two, got 100'):
        RandomHadamard(100)
