# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Norms and a few chosen coordinates of long vectors."""

from typing import Any

import torch
from torch import Tensor

from .value_checks import values_are_at_hand

#: Norms below are treated as zero.
EPS = 1e-8


class _NormAndCoordinates(torch.autograd.Function):
    """Norms and gathered coordinates whose gradient is one dense pass.

    Left to autograd, each of the two would produce a dense gradient of its
    own, filled, scattered into and added: several passes over a batch that
    may be the largest tensor of the model.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        norm = torch.linalg.vector_norm(x, dim=1)
        ctx.save_for_backward(x, index, norm)
        return norm, x.gather(1, index)

    @staticmethod
    def backward(ctx: Any, grad_norm: Tensor, grad_chosen: Tensor) -> tuple:
        x, index, norm = ctx.saved_tensors
        radial = torch.where(norm > EPS, grad_norm / norm.clamp(min=EPS), 0)
        grad = x * radial[:, None]
        return grad.scatter_add_(1, index, grad_chosen), None


def norm_and_coordinates(x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Euclidean norms and chosen coordinates of each row.

    Differentiable once. An index may occur several times in a row.

    Args:
        x (Tensor): Shape ``(B, d)``, float32 or wider.
        index (Tensor): Coordinates of each row, int64, shape ``(B, m)``.

    Returns:
        tuple[Tensor, Tensor]: Norms ``(B,)`` and values ``(B, m)``.
    """
    return _NormAndCoordinates.apply(x, index)


def chosen_products(
    x: Tensor, matrix: Tensor, index: Tensor, used: Tensor
) -> Tensor:
    """Inner products of each row with a few chosen rows of a matrix.

    In main memory only the rows of the matrix that some sample uses are
    multiplied with: a batch of long-tailed data holds few of the classes
    with many centres. Elsewhere the whole matrix is, since to know how many
    rows there are would mean to wait for the device, and so it is in a
    compiled graph, whose shapes may not depend on values.

    Args:
        x (Tensor): Shape ``(B, d)``.
        matrix (Tensor): Shape ``(R, d)``, of the same type.
        index (Tensor): Rows of the matrix for each sample, int64, shape
            ``(B, m)``.
        used (Tensor): Which of the products matter, bool, shape ``(B, m)``;
            others are finite but may be wrong.

    Returns:
        Tensor: Shape ``(B, m)``.
    """
    if not values_are_at_hand(x):
        return (x @ matrix.T).gather(1, index)
    needed = torch.zeros(len(matrix), dtype=torch.bool)
    needed[index[used]] = True
    place = (needed.cumsum(0) - 1).clamp_(min=0)
    return (x @ matrix[needed].T).gather(1, place[index])
