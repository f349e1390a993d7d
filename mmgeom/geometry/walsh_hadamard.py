# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Orthogonal transforms that need no matrix."""

import math

import torch
from torch import Tensor, nn

#: Largest Walsh-Hadamard factor that is applied as a small matrix; larger
#: transforms are Kronecker products of such factors.
_RADIX = 64


def walsh_hadamard(x: Tensor) -> Tensor:
    r"""Orthonormal Walsh-Hadamard transform of the last dimension.

    :math:`y = 2^{-m/2} H_{2^m} x` with Sylvester's matrix; symmetric and its
    own inverse. Computed as products with small matrices, one for each
    factor of 64, :math:`O(d \log d)` work and no stored matrix of size d.

    Args:
        x (Tensor): Shape ``(..., 2^m)``.

    Returns:
        Tensor: Same shape.

    Raises:
        ValueError: When the last dimension is no power of two.
    """
    size = int(x.shape[-1])
    if size & (size - 1):
        raise ValueError(
            f'the Walsh-Hadamard transform needs a power of two, got {size}.'
        )
    shape = x.shape
    right = 1
    while right < size:
        factor = min(_RADIX, size // right)
        matrix = _sylvester(factor, x)
        if right == 1:
            x = x.reshape(-1, factor) @ matrix
        else:
            x = matrix @ x.reshape(-1, factor, right)
        right *= factor
    return x.reshape(shape)


class RandomHadamard(nn.Module):
    r"""A random orthogonal map without a matrix.

    Random signs, a Walsh-Hadamard transform and a random permutation, each
    exactly orthogonal. Every direction it reads is dense, with entries
    :math:`\pm d^{-1/2}`. State: a vector of signs and one of indices.

    Args:
        dim (int): d, a power of two.
        seed (int): Of signs and permutation. Defaults to 0.

    Raises:
        ValueError: When ``dim`` is no power of two.
    """

    def __init__(self, dim: int, seed: int = 0) -> None:
        super().__init__()
        if dim < 1 or dim & (dim - 1):
            raise ValueError(
                "the 'hadamard' layout needs a feature whose width is a power "
                f'of two, got {dim}: expand it to the next one.'
            )
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, (dim,), generator=generator) * 2 - 1
        order = torch.randperm(dim, generator=generator)
        self.register_buffer('signs', signs.to(torch.int8))
        self.register_buffer('order', order)

    def forward(self, x: Tensor) -> Tensor:
        """Map vectors.

        Args:
            x (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Same shape and norms.
        """
        return walsh_hadamard(x * self.signs.to(x.dtype))[:, self.order]


def _sylvester(size: int, like: Tensor) -> Tensor:
    """Orthonormal Sylvester matrix, by doubling."""
    matrix = like.new_full((1, 1), 1 / math.sqrt(size))
    while len(matrix) < size:
        above = torch.cat([matrix, matrix], dim=1)
        below = torch.cat([matrix, -matrix], dim=1)
        matrix = torch.cat([above, below])
    return matrix
