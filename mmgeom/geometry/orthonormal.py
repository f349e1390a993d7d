# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Orthonormal frames and simplex equiangular tight frames."""

import math

import torch
from torch import Tensor


def orthonormal_rows(
    number: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Random orthonormal vectors, uniformly distributed.

    QR of a Gaussian matrix in float64 with the signs fixed by the diagonal
    of R, from a generator of its own, so that the same seed gives the same
    vectors everywhere, up to rounding of the factorisation.

    Args:
        number (int): Number of vectors, at most ``dim``.
        dim (int): Their dimension.
        seed (int): Defaults to 0.
        dtype (torch.dtype): Of the result. Defaults to float32.

    Returns:
        Tensor: Shape ``(number, dim)``, orthonormal rows.

    Raises:
        ValueError: When the vectors do not fit into the dimension.
    """
    if not 1 <= number <= dim:
        raise ValueError(
            f'{number} orthonormal vectors do not fit into dimension {dim}: '
            'raise the dimension or take fewer vectors.'
        )
    generator = torch.Generator().manual_seed(seed)
    gaussian = torch.randn(
        dim, number, dtype=torch.float64, generator=generator
    )
    q, r = torch.linalg.qr(gaussian)
    signs = torch.where(r.diagonal() < 0, -1.0, 1.0).to(q.dtype)
    return (q * signs).T.contiguous().to(dtype)


def simplex_etf(
    num_classes: int, dim: int, seed: int = 0, dtype=torch.float32
) -> Tensor:
    r"""Vertices of a regular simplex in a random orientation.

    Unit vectors with pairwise inner product :math:`-1/(K-1)` and sum zero,
    the simplex equiangular tight frame. They span :math:`K-1` dimensions.

    Source: *Prevalence of neural collapse* (PNAS 2020), Definition 1.

    Args:
        num_classes (int): K, at least 2.
        dim (int): At least K - 1.
        seed (int): Of the orientation. Defaults to 0.
        dtype (torch.dtype): Of the result. Defaults to float32.

    Returns:
        Tensor: Shape ``(K, dim)``.

    Raises:
        ValueError: When the simplex does not fit into the dimension.
    """
    if num_classes < 2 or dim < num_classes - 1:
        raise ValueError(
            f'a simplex of {num_classes} classes needs at least 2 classes '
            f'and dimension {max(num_classes - 1, 1)}, got dimension {dim}.'
        )
    vertices = simplex_vertices(num_classes)
    basis = orthonormal_rows(num_classes - 1, dim, seed, torch.float64)
    return (vertices @ basis).to(dtype)


def simplex_vertices(num_classes: int) -> Tensor:
    r"""The simplex in :math:`K-1` dimensions, without a random orientation.

    The rows of :math:`\sqrt{K/(K-1)}\,U`, where the columns of ``U`` are an
    orthonormal basis of the complement of the all-ones vector.

    Args:
        num_classes (int): K, at least 2.

    Returns:
        Tensor: Shape ``(K, K - 1)``, float64.
    """
    k = num_classes
    # Helmert's basis: column j compares class j + 1 with all before it.
    basis = torch.zeros(k, k - 1, dtype=torch.float64)
    column = torch.arange(1, k, dtype=torch.float64)
    norm = (column * (column + 1)).sqrt()
    above = torch.arange(k)[:, None] < torch.arange(1, k)[None]
    basis += above * (1 / norm)
    basis[torch.arange(1, k), torch.arange(k - 1)] = -column / norm
    return basis * math.sqrt(k / (k - 1))
