# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Orthogonal transforms that need no matrix."""

import math

import torch
from torch import Tensor, nn

#: Largest Walsh-Hadamard factor that is applied as a small matrix; larger
#: transforms are Kronecker products of such factors.
_RADIX = 16


def walsh_hadamard(x: Tensor, sylvester: Tensor | None = None) -> Tensor:
    r"""Orthonormal Walsh-Hadamard transform of the last dimension.

    :math:`y = 2^{-m/2} H_{2^m} x` with Sylvester's matrix; symmetric and its
    own inverse. Computed as products with small matrices, the Kronecker
    factors of H: :math:`O(d \log d)` work and no stored matrix of size d.

    Args:
        x (Tensor): Shape ``(..., 2^m)``.
        sylvester (Tensor, optional): Result of :func:`sylvester_factor`, to
            save making it. Defaults to None.

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
    if sylvester is None:
        sylvester = sylvester_factor(size)
    sylvester = sylvester.to(x)
    shape = x.shape
    right = 1
    while right < size:
        factor = min(_RADIX, size // right)
        # The leading block of Sylvester's matrix is a smaller one.
        matrix = sylvester[:factor, :factor] / math.sqrt(factor)
        if right == 1:
            x = x.reshape(-1, factor) @ matrix
        else:
            x = matrix @ x.reshape(-1, factor, right)
        right *= factor
    return x.reshape(shape)


def sylvester_factor(size: int) -> Tensor:
    """Sylvester's matrix of the largest factor a transform uses.

    Args:
        size (int): Length of the transform, a power of two.

    Returns:
        Tensor: Entries 1 and -1, float32, at most 16 rows.
    """
    matrix = torch.ones(1, 1)
    while len(matrix) < min(size, _RADIX):
        above = torch.cat([matrix, matrix], dim=1)
        below = torch.cat([matrix, -matrix], dim=1)
        matrix = torch.cat([above, below])
    return matrix


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
        self.register_buffer(
            'sylvester', sylvester_factor(dim), persistent=False
        )

    def mix(self, x: Tensor) -> Tensor:
        """The map without its permutation.

        Whoever needs a few coordinates only takes them from here by
        ``order``, which is cheaper than to permute a batch.

        Args:
            x (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Same shape and norms.
        """
        return walsh_hadamard(x * self.signs.to(x.dtype), self.sylvester)

    def forward(self, x: Tensor) -> Tensor:
        """Map vectors.

        Args:
            x (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Same shape and norms.
        """
        return self.mix(x).index_select(1, self.order)
