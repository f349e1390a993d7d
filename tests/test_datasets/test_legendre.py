# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest

from mmgeom.datasets.legendre import UnitLegendre

SERIES = UnitLegendre(40)
X = np.linspace(0, 1, 7)


def evaluate(coefficients, x=X):
    return coefficients @ SERIES.basis(x, coefficients.shape[-1]).T


def test_weights_integrate_powers():
    for power in (0, 1, 5, 80):
        integral = SERIES.nodes**power @ SERIES.weights
        assert integral == pytest.approx(1 / (power + 1), rel=1e-12)


@pytest.mark.parametrize(
    ('function', 'primitive'),
    [
        (lambda x: np.sin(9 * x), lambda x: (1 - np.cos(9 * x)) / 9),
        (lambda x: np.exp(-2 * x), lambda x: (1 - np.exp(-2 * x)) / 2),
        (lambda x: 4 * x**3 - 1, lambda x: x**4 - x),
    ],
)
def test_value_and_integral(function, primitive):
    values = function(SERIES.nodes)
    np.testing.assert_allclose(
        evaluate(SERIES.coefficients(values)), function(X), atol=1e-13
    )
    integral = SERIES.antiderivative(values)
    np.testing.assert_allclose(evaluate(integral), primitive(X), atol=1e-13)


def test_rows_at_points_of_their_own():
    coefficients = np.random.default_rng(0).normal(size=(7, 5))
    table = evaluate(coefficients)
    np.testing.assert_allclose(
        SERIES.at(coefficients, X), np.diag(table), atol=1e-13
    )
