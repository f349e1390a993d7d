# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Gaussian random functions on [0, 1]."""

import numpy as np

from .legendre import UnitLegendre

#: Degree of the series: resolves length scales from 0.1 on.
DEGREE = 63


def rbf_kernel(x: np.ndarray, length_scale: float) -> np.ndarray:
    r"""Covariance :math:`\exp(-(x_i - x_j)^2 / (2 \ell^2))`.

    Args:
        x (np.ndarray): Points, shape ``(M,)``.
        length_scale (float): :math:`\ell > 0`.

    Returns:
        np.ndarray: Shape ``(M, M)``.
    """
    return np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2)


class GaussianField:
    """Gaussian random functions on [0, 1] of mean 0 and variance 1.

    The covariance is :func:`rbf_kernel`. A function is drawn at the Gauss
    nodes of a Legendre series of degree 63, which then is the function:
    what differs from the field itself is below 1e-6.

    Args:
        length_scale (float): Of the kernel, at least 0.1, since shorter ones
            would need a higher degree.

    Raises:
        ValueError: When the length scale is too small.
    """

    def __init__(self, length_scale: float) -> None:
        if not 0.1 <= length_scale < np.inf:
            raise ValueError(
                'the length scale of a random function must be a number of '
                f'at least 0.1, got {length_scale!r}.'
            )
        self.series = UnitLegendre(DEGREE)
        kernel = rbf_kernel(self.series.nodes, length_scale)
        values, vectors = np.linalg.eigh(kernel)
        # The symmetric root, which no choice of eigenvectors changes.
        scale = np.sqrt(values.clip(min=0))
        self._root = (vectors * scale) @ vectors.T

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw functions.

        Args:
            count (int): Number N of functions.
            generator (np.random.Generator): Source of randomness.

        Returns:
            np.ndarray: Values at the nodes of :attr:`series`, shape
            ``(N, 64)``.
        """
        noise = generator.standard_normal((count, len(self._root)))
        return noise @ self._root


def karhunen_loeve_modes(
    length_scale: float, num_modes: int, points: np.ndarray
) -> np.ndarray:
    r"""Scaled modes :math:`\sqrt{\lambda_k}\, e_k(x)` of a random field.

    :math:`\lambda_k` and :math:`e_k` are the largest eigenvalues and the
    orthonormal eigenfunctions of the covariance operator on [0, 1], by
    Nyström's method at Gauss nodes. Each is positive at 0.

    Args:
        length_scale (float): Of the field, at least 0.1.
        num_modes (int): Number M of modes.
        points (np.ndarray): Points in [0, 1], shape ``(P,)``.

    Returns:
        np.ndarray: Shape ``(M, P)``.
    """
    series = UnitLegendre(DEGREE)
    root = np.sqrt(series.weights)
    kernel = rbf_kernel(series.nodes, length_scale)
    values, vectors = np.linalg.eigh(root[:, None] * kernel * root)
    largest = slice(-1, -num_modes - 1, -1)
    scale = np.sqrt(values[largest].clip(min=0))
    modes = (vectors[:, largest] / root[:, None] * scale).T
    coefficients = series.coefficients(modes)
    first = coefficients @ series.basis(np.zeros(1), DEGREE + 1).T
    signs = np.where(first < 0, -1.0, 1.0)
    return signs * (coefficients @ series.basis(points, DEGREE + 1).T)
