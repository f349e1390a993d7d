# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The operators of OL-DIR, applied to random functions.

The linear operator is the antiderivative, the nonlinear one takes the
covariance of a random diffusion coefficient to the mean solution of the
diffusion equation; both are from Lu et al., "Learning nonlinear operators via
DeepONet", Nature Machine Intelligence 3, 2021, with the constants below.
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import chebyshev

from .legendre import UnitLegendre
from .random_field import DEGREE, GaussianField, karhunen_loeve_modes

#: Sensors of u, and the length scale of its covariance.
LINEAR_SENSORS = 100
LINEAR_LENGTH_SCALE = 0.2

#: Points at which the modes of the coefficient are given, and their number:
#: 30 * 8 = 240 inputs.
MODE_POINTS = 30
NUM_MODES = 8
#: Range of the uniformly drawn length scale, the standard deviation of b, and
#: the constant right-hand side.
LENGTH_SCALES = (0.2, 2.0)
SIGMA = 0.1
FORCE = 10.0
#: Draws of the diffusion coefficient, each used with both signs, behind a
#: mean solution; their seed is part of the definition of the data.
MEAN_DRAWS = 10000
MEAN_SEED = 0
#: Nodes of the interpolation in the length scale.
SCALE_NODES = 24

#: Functions evaluated at once.
CHUNK = 10000


def diffusion_solution(
    series: UnitLegendre, b: np.ndarray, force: float
) -> np.ndarray:
    r"""Solve :math:`-(e^b u')' = f`, :math:`u(0) = u(1) = 0`.

    Integrating twice,

    .. math::
        u(y) = \int_0^y (C - f t)\, e^{-b(t)}\, dt, \quad
        C = f\, \frac{\int_0^1 t\, e^{-b(t)}\, dt}
                     {\int_0^1 e^{-b(t)}\, dt}.

    Args:
        series (UnitLegendre): Of the functions.
        b (np.ndarray): Logarithms of the diffusion coefficient at the
            nodes, shape ``(N, L)``.
        force (float): The constant f.

    Returns:
        np.ndarray: Coefficients of the solutions, shape ``(N, L + 1)``.
    """
    inverse = np.exp(-b)
    mass = inverse @ series.weights
    moment = (inverse * series.nodes) @ series.weights
    constant = force * moment / mass
    slope = (constant[:, None] - force * series.nodes) * inverse
    return series.antiderivative(slope)


def mean_diffusion_solution(
    length_scale: float, sigma: float, force: float
) -> np.ndarray:
    r"""Mean of :func:`diffusion_solution` over random coefficients.

    :math:`b = \sigma g` with a
    :class:`~mmgeom.datasets.random_field.GaussianField` g. Each draw is used
    with both signs, which takes the terms of odd order out of the error;
    with :math:`\sigma = 0.1` a standard error below 1e-4 remains.

    Args:
        length_scale (float): Of the field.
        sigma (float): Standard deviation of b.
        force (float): The constant f.

    Returns:
        np.ndarray: Coefficients of the mean solution, shape ``(65,)``.
    """
    field = GaussianField(length_scale)
    generator = np.random.default_rng(MEAN_SEED)
    b = sigma * field.sample(MEAN_DRAWS, generator)
    pair = [
        diffusion_solution(field.series, sign * b, force).mean(axis=0)
        for sign in (1, -1)
    ]
    return (pair[0] + pair[1]) / 2


class LengthScaleSeries:
    """What depends on the length scale, interpolated over its range.

    Modes and mean solutions are smooth in the length scale, so 24 Chebyshev
    nodes of its logarithm give all of them to about 1e-7.
    """

    def __init__(self) -> None:
        angles = np.pi * (np.arange(SCALE_NODES) + 0.5) / SCALE_NODES
        nodes = np.cos(angles)
        low, high = np.log(LENGTH_SCALES)
        scales = np.exp(low + (nodes + 1) / 2 * (high - low))
        points = np.linspace(0, 1, MODE_POINTS)
        modes = [karhunen_loeve_modes(x, NUM_MODES, points) for x in scales]
        means = [mean_diffusion_solution(x, SIGMA, FORCE) for x in scales]
        basis = chebyshev.chebvander(nodes, SCALE_NODES - 1)
        columns = np.stack([mode.reshape(-1) for mode in modes])
        self._modes = np.linalg.solve(basis, columns)
        self._means = np.linalg.solve(basis, np.stack(means))

    def __call__(self, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Modes and mean solutions.

        Args:
            scales (np.ndarray): Length scales in the range, shape ``(N,)``.

        Returns:
            tuple[np.ndarray, np.ndarray]: Values of the modes at the points,
            mode by mode, shape ``(N, 240)``, and the coefficients of the
            solutions, shape ``(N, 65)``.
        """
        low, high = np.log(LENGTH_SCALES)
        nodes = 2 * (np.log(scales) - low) / (high - low) - 1
        basis = chebyshev.chebvander(nodes, SCALE_NODES - 1)
        return basis @ self._modes, basis @ self._means


@functools.cache
def length_scale_series() -> LengthScaleSeries:
    """The series, made once a process.

    Returns:
        LengthScaleSeries: It depends on nothing but this module's constants.
    """
    return LengthScaleSeries()


def linear_rows(
    locations: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Rows of :math:`G(u)(y) = \int_0^y u(t)\, dt`, a new u for each y.

    Args:
        locations (np.ndarray): y in [0, 1], shape ``(N,)``.
        generator (np.random.Generator): Source of the functions.

    Returns:
        tuple[np.ndarray, np.ndarray]: Inputs
        :math:`[u(x_1), \dots, u(x_{100}), y]` with equidistant sensors from
        0 to 1, float32 of shape ``(N, 101)``, and targets, float64 of shape
        ``(N,)``.
    """
    field = GaussianField(LINEAR_LENGTH_SCALE)
    series = field.series
    sensors = np.linspace(0, 1, LINEAR_SENSORS)
    basis = series.basis(sensors, DEGREE + 1)
    inputs = np.empty((len(locations), LINEAR_SENSORS + 1), dtype=np.float32)
    targets = np.empty(len(locations))
    for start in range(0, len(locations), CHUNK):
        part = slice(start, start + CHUNK)
        u = field.sample(len(locations[part]), generator)
        inputs[part, :-1] = series.coefficients(u) @ basis.T
        targets[part] = series.at(series.antiderivative(u), locations[part])
    inputs[:, -1] = locations
    return inputs, targets


def nonlinear_rows(
    locations: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Rows of the mean solution of a random diffusion, one for each y.

    With :math:`b \sim \mathcal{GP}(0, \sigma^2 k_\ell)`,
    :math:`\sigma = 0.1`, a covariance :math:`k_\ell` as of
    :func:`~mmgeom.datasets.random_field.rbf_kernel` and :math:`\ell` uniform
    in [0.2, 2],

    .. math::
        -(e^{b} u')' = 10, \quad u(0) = u(1) = 0, \qquad
        G(k_\ell)(y) = \mathbb{E}_b\, u(y).

    Args:
        locations (np.ndarray): y in [0, 1], shape ``(N,)``.
        generator (np.random.Generator): Source of the length scales.

    Returns:
        tuple[np.ndarray, np.ndarray]: Inputs, the 8 largest
        :func:`~mmgeom.datasets.random_field.karhunen_loeve_modes` of
        :math:`k_\ell` at 30 equidistant points, mode by mode, and y, float32
        of shape ``(N, 241)``; and targets, float64 of shape ``(N,)``.
    """
    solve = length_scale_series()
    scales = generator.uniform(*LENGTH_SCALES, len(locations))
    width = MODE_POINTS * NUM_MODES + 1
    inputs = np.empty((len(locations), width), dtype=np.float32)
    targets = np.empty(len(locations))
    for start in range(0, len(locations), CHUNK):
        part = slice(start, start + CHUNK)
        inputs[part, :-1], solutions = solve(scales[part])
        targets[part] = UnitLegendre.at(solutions, locations[part])
    inputs[:, -1] = locations
    return inputs, targets


def select_locations(
    locations: np.ndarray,
    count: int,
    edges: Sequence[float],
    weights: Sequence[float],
    generator: np.random.Generator,
) -> np.ndarray:
    """Keep some locations, drawn without replacement by weight.

    A location that lies in the interval ``[edges[i], edges[i + 1])`` is drawn
    with a probability that is proportional to ``weights[i]`` among those
    left. The draw takes the smallest of exponential times whose rates are
    the weights, which is the same in one step.

    Args:
        locations (np.ndarray): Shape ``(N,)``.
        count (int): Number to keep, at most N.
        edges (Sequence[float]): Increasing, one more than weights; the last
            interval holds its right edge too.
        weights (Sequence[float]): Positive.
        generator (np.random.Generator): Source of randomness.

    Returns:
        np.ndarray: Those kept, in their order, shape ``(count,)``.
    """
    index = np.searchsorted(edges[1:-1], locations, side='right')
    rates = np.asarray(weights, dtype=np.float64)[index]
    times = generator.exponential(size=len(locations)) / rates
    kept = np.argsort(times, kind='stable')[:count]
    return locations[np.sort(kept)]
