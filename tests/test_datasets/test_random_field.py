# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest

from mmgeom.datasets.random_field import (
    DEGREE,
    GaussianField,
    karhunen_loeve_modes,
    rbf_kernel,
)

X = np.linspace(0, 1, 11)


@pytest.mark.parametrize('length_scale', [0.1, 0.2, 2.0])
def test_field_has_the_covariance(length_scale):
    field = GaussianField(length_scale)
    # Exactly at the nodes, and at other points by its smoothness.
    nodes = field.series.nodes
    np.testing.assert_allclose(
        field._root @ field._root, rbf_kernel(nodes, length_scale), atol=1e-12
    )
    spread = field.series.coefficients(field._root)
    values = spread @ field.series.basis(X, DEGREE + 1).T
    np.testing.assert_allclose(
        values.T @ values, rbf_kernel(X, length_scale), atol=1e-9
    )


def test_field_is_random():
    values = GaussianField(0.2).sample(4000, np.random.default_rng(0))
    assert values.shape == (4000, 64)
    assert abs(values.mean()) < 0.03
    assert values.var(axis=0) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize('length_scale', [0.09, -1, np.inf, np.nan])
def test_bad_length_scale(length_scale):
    with pytest.raises(ValueError, match=r'at least 0\.1, got'):
        GaussianField(length_scale)


@pytest.mark.parametrize('length_scale', [0.2, 0.7])
def test_modes(length_scale):
    # On a fine grid the covariance operator is a matrix.
    count = 401
    grid = (np.arange(count) + 0.5) / count
    values, vectors = np.linalg.eigh(rbf_kernel(grid, length_scale) / count)
    modes = karhunen_loeve_modes(length_scale, 4, grid)
    for mode in range(4):
        scale = np.sqrt(values[-1 - mode] * count)
        expected = scale * vectors[:, -1 - mode]
        expected *= np.sign(expected[0])
        np.testing.assert_allclose(modes[mode], expected, atol=1e-4)
    assert (karhunen_loeve_modes(length_scale, 8, X)[:, 0] > 0).all()


def test_modes_sum_to_the_kernel():
    modes = karhunen_loeve_modes(0.5, 20, X)
    np.testing.assert_allclose(modes.T @ modes, rbf_kernel(X, 0.5), atol=1e-9)
