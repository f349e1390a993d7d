# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
from scipy.integrate import cumulative_simpson, solve_bvp
from scipy.interpolate import CubicSpline

from mmgeom.datasets import operator_learning as module
from mmgeom.datasets.legendre import UnitLegendre
from mmgeom.datasets.operator_learning import (
    FORCE,
    LENGTH_SCALES,
    SIGMA,
    diffusion_solution,
    length_scale_series,
    linear_rows,
    mean_diffusion_solution,
    nonlinear_rows,
    select_locations,
)
from mmgeom.datasets.random_field import (
    DEGREE,
    GaussianField,
    karhunen_loeve_modes,
)

SERIES = UnitLegendre(DEGREE)
X = np.linspace(0, 1, 11)
FINE = np.linspace(0, 1, 2001)


@pytest.fixture(scope='module')
def scales():
    return length_scale_series()


def generator(seed=0):
    return np.random.default_rng(seed)


def evaluate(coefficients, x=X):
    return coefficients @ UnitLegendre.basis(x, coefficients.shape[-1]).T


# Linear --------------------------------------------------------------------
def test_linear_rows_of_known_functions(monkeypatch):
    """The field gives sines whose integrals are known."""
    rates = np.array([1.0, 5.0, 20.0])

    def sample(self, count, generator):
        return np.sin(rates[:, None] * self.series.nodes)

    monkeypatch.setattr(GaussianField, 'sample', sample)
    y = np.array([0.3, 1.0, 0.77])
    inputs, targets = linear_rows(y, generator())
    sensors = np.linspace(0, 1, 100)
    np.testing.assert_allclose(
        inputs[:, :-1], np.sin(rates[:, None] * sensors), atol=1e-6
    )
    np.testing.assert_allclose(inputs[:, -1], y, atol=1e-7)
    np.testing.assert_allclose(
        targets, (1 - np.cos(rates * y)) / rates, atol=1e-13
    )


def test_linear_target_is_the_integral_of_the_sensors():
    y = generator(1).random(50)
    inputs, targets = linear_rows(y, generator())
    assert inputs.shape == (50, 101)
    assert inputs.dtype == np.float32
    sensors = np.linspace(0, 1, 100)
    for row, location, target in zip(inputs, y, targets):
        spline = CubicSpline(sensors, row[:-1].astype(np.float64))
        # float32 sensors and the spline's error at the ends.
        assert spline.integrate(0, location) == pytest.approx(target, abs=2e-5)


# Nonlinear -----------------------------------------------------------------
@pytest.mark.parametrize('b', [0.0, -0.4, 1.5])
def test_constant_diffusion(b):
    solution = diffusion_solution(SERIES, np.full((1, 64), b), 10.0)
    expected = 10 * X * (1 - X) / 2 * np.exp(-b)
    np.testing.assert_allclose(evaluate(solution)[0], expected, atol=1e-13)


def test_exponential_diffusion():
    # b = x, whose two integrals are known.
    solution = diffusion_solution(SERIES, SERIES.nodes[None], 10.0)
    inverse = 1 - np.exp(-X)
    moment = 1 - (1 + X) * np.exp(-X)
    expected = 10 * (moment[-1] / inverse[-1] * inverse - moment)
    np.testing.assert_allclose(evaluate(solution)[0], expected, atol=1e-13)


def test_diffusion_against_a_general_solver():
    b = GaussianField(0.2).sample(3, generator())
    solutions = evaluate(diffusion_solution(SERIES, b, 10.0))
    fields = SERIES.coefficients(b)
    for field, solution in zip(fields, solutions):

        def slope(x, state, field=field):
            # state: u and the flux e^b u'.
            inverse = np.exp(-evaluate(field, x))
            return np.stack([state[1] * inverse, np.full_like(x, -10.0)])

        result = solve_bvp(
            slope,
            lambda left, right: np.array([left[0], right[0]]),
            np.linspace(0, 1, 101),
            np.zeros((2, 101)),
            tol=1e-6,
        )
        assert result.success
        np.testing.assert_allclose(result.sol(X)[0], solution, atol=1e-5)


def test_mean_solution_without_randomness():
    solution = mean_diffusion_solution(0.5, 0.0, 10.0)
    np.testing.assert_allclose(evaluate(solution), 5 * X * (1 - X), atol=1e-12)


def test_mean_solution_of_a_nearly_constant_coefficient():
    # As the length scale grows b becomes one number, and E e^-b is known.
    solution = mean_diffusion_solution(1e4, 0.1, 10.0)
    expected = 5 * X * (1 - X) * np.exp(0.1**2 / 2)
    np.testing.assert_allclose(evaluate(solution), expected, atol=1.5e-4)


def test_mean_solution_against_plain_sampling():
    solution = evaluate(mean_diffusion_solution(0.3, 0.1, 10.0))
    # Cumulated sums on a grid, with other draws.
    b = 0.1 * GaussianField(0.3).sample(2000, generator(7))
    inverse = np.exp(-evaluate(SERIES.coefficients(b), FINE[::10]))
    step = FINE[10]
    first = cumulative_simpson(inverse, dx=step, axis=1, initial=0)
    second = cumulative_simpson(
        FINE[::10] * inverse, dx=step, axis=1, initial=0
    )
    constant = second[:, -1:] / first[:, -1:]
    u = 10 * (constant * first - second)[:, ::20]
    error = u.std(axis=0) / np.sqrt(len(u))
    assert (abs(u.mean(axis=0) - solution) <= 4 * error + 1e-6).all()


def test_interpolation_in_the_length_scale(scales):
    # Between the nodes, and at the ends of the range.
    tried = np.array([LENGTH_SCALES[0], 0.31, 0.9, LENGTH_SCALES[1]])
    modes, means = scales(tried)
    points = np.linspace(0, 1, 30)
    for row, mean, scale in zip(modes, means, tried):
        exact = karhunen_loeve_modes(scale, 8, points).reshape(-1)
        np.testing.assert_allclose(row, exact, atol=1e-6)
        exact = mean_diffusion_solution(scale, SIGMA, FORCE)
        np.testing.assert_allclose(evaluate(mean), evaluate(exact), atol=1e-6)


def test_nonlinear_rows(scales):
    y = generator(1).random(6)
    inputs, targets = nonlinear_rows(y, generator())
    assert inputs.shape == (6, 241)
    assert inputs.dtype == np.float32
    drawn = generator().uniform(0.2, 2.0, 6)
    modes, means = scales(drawn)
    np.testing.assert_allclose(inputs[:, :-1], modes, atol=1e-6)
    np.testing.assert_allclose(inputs[:, -1], y, atol=1e-7)
    np.testing.assert_allclose(targets, np.diag(evaluate(means, y)))


# Both ----------------------------------------------------------------------
@pytest.mark.parametrize('rows', [linear_rows, nonlinear_rows])
def test_chunks_do_not_matter(rows, monkeypatch):
    y = generator(1).random(11)
    whole = rows(y, generator())
    monkeypatch.setattr(module, 'CHUNK', 4)
    for one, other in zip(whole, rows(y, generator())):
        np.testing.assert_allclose(one, other, atol=1e-12)


# Locations -----------------------------------------------------------------
def test_selection_is_a_part_in_order():
    pool = generator().random(200)
    kept = select_locations(pool, 120, [0, 0.5, 1], [1, 3], generator(1))
    assert len(kept) == len(set(kept)) == 120
    place = [pool.tolist().index(y) for y in kept]
    assert place == sorted(place)
    everything = select_locations(pool, 200, [0, 0.5, 1], [1, 3], generator(1))
    assert np.array_equal(everything, pool)


def test_selection_follows_the_weights():
    # Two locations, one kept: with odds of 3 to 1.
    rng = generator()
    kept = [
        select_locations(np.array([0.5, 0.2]), 1, [0, 0.5, 1], [1, 3], rng)[0]
        for _ in range(4000)
    ]
    # The standard deviation of the share is 0.007.
    assert np.mean(np.array(kept) == 0.5) == pytest.approx(0.75, abs=0.028)


def test_selection_is_without_replacement_by_weight():
    # The probability of being kept is 1 - exp(-w t) for one t, for many.
    pool = (np.arange(30000) + 0.5) / 30000
    edges, weights = [0, 0.2, 0.6, 1], [0.1, 0.5, 1.0]
    kept = select_locations(pool, 18000, edges, weights, generator())
    shares = np.histogram(kept, edges)[0] / np.histogram(pool, edges)[0]
    times = -np.log1p(-shares) / weights
    assert times == pytest.approx(times.mean(), rel=0.05)
