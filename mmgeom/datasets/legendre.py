# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Smooth functions on [0, 1] as Legendre series."""

import numpy as np
from numpy.polynomial import legendre


class UnitLegendre:
    r"""Legendre series :math:`f(x) = \sum_k c_k P_k(2x - 1)` on [0, 1].

    A function is given by its values at the Gauss nodes; integrals of the
    series are exact, so for functions that the degree resolves everything
    here is exact to rounding.

    Args:
        degree (int): Largest k.
    """

    def __init__(self, degree: int) -> None:
        self.degree = degree
        nodes, weights = legendre.leggauss(degree + 1)
        #: Gauss nodes in (0, 1), shape (degree + 1,).
        self.nodes = (nodes + 1) / 2
        #: Weights of the nodes, which sum to 1.
        self.weights = weights / 2
        norms = 2 * np.arange(degree + 1) + 1
        basis = legendre.legvander(nodes, degree)
        self._analysis = self.weights[:, None] * basis * norms
        identity = np.eye(degree + 1)
        self._integral = legendre.legint(identity, lbnd=-1, axis=1) / 2

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """Series of functions given by their values.

        Args:
            values (np.ndarray): Values at the nodes, shape
                ``(..., degree + 1)``.

        Returns:
            np.ndarray: Coefficients, of the same shape.
        """
        return values @ self._analysis

    def antiderivative(self, values: np.ndarray) -> np.ndarray:
        r"""Series of :math:`\int_0^x f`.

        Args:
            values (np.ndarray): Values of f at the nodes, shape
                ``(..., degree + 1)``.

        Returns:
            np.ndarray: Coefficients, shape ``(..., degree + 2)``.
        """
        return self.coefficients(values) @ self._integral

    @staticmethod
    def basis(x: np.ndarray, length: int) -> np.ndarray:
        """Values of the basis functions.

        Args:
            x (np.ndarray): Points in [0, 1], shape ``(M,)``.
            length (int): Number of basis functions.

        Returns:
            np.ndarray: Shape ``(M, length)``; ``c @ basis.T`` evaluates
            series c at all points.
        """
        return legendre.legvander(2 * np.asarray(x) - 1, length - 1)

    @classmethod
    def at(cls, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Value of each series at a point of its own.

        Args:
            coefficients (np.ndarray): Shape ``(N, L)``.
            x (np.ndarray): Points in [0, 1], shape ``(N,)``.

        Returns:
            np.ndarray: Shape ``(N,)``.
        """
        basis = cls.basis(x, coefficients.shape[1])
        return np.einsum('nl,nl->n', coefficients, basis)
