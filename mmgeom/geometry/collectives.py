# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Sums and concatenations over the ranks of ``torch.distributed``.

All of them return at once in a single process. The differentiable ones add
up, in their backward pass, what each rank's loss says about a tensor, so
that with the mean over ranks which ``DistributedDataParallel`` takes of the
gradients, the mean of the ranks' losses is what is differentiated.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def world_size() -> int:
    """Number of ranks.

    Returns:
        int: 1 without a process group.
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return 1


def rank() -> int:
    """Index of this process.

    Returns:
        int: 0 without a process group.
    """
    return dist.get_rank() if world_size() > 1 else 0


def all_reduce_sum(tensor: Tensor) -> Tensor:
    r"""Sum over ranks, with gradient.

    .. math::
        y = \sum_r x_r, \qquad
        \bar x_r = \sum_{r'} \bar y_{r'}

    Args:
        tensor (Tensor): Of the same shape on all ranks.

    Returns:
        Tensor: The sum, the same on all ranks; ``tensor`` itself in a single
        process.
    """
    return tensor if world_size() == 1 else _AllReduceSum.apply(tensor)


def all_gather_rows(tensor: Tensor, sizes: list[int] | None = None) -> Tensor:
    """Concatenation of all ranks' rows in the order of ranks, with gradient.

    Args:
        tensor (Tensor): Shape ``(M_r, ...)``; the number of rows may differ
            between ranks and may be zero.
        sizes (list[int] | None): The numbers of rows, of
            :func:`row_counts`, to save the exchange of them. Defaults to
            None.

    Returns:
        Tensor: Shape ``(sum of M_r, ...)``, the same on all ranks;
        ``tensor`` itself in a single process.
    """
    if world_size() == 1:
        return tensor
    sizes = row_counts(tensor) if sizes is None else sizes
    return _AllGatherRows.apply(tensor, sizes)


def remote_rows(tensor: Tensor, sizes: list[int]) -> Tensor:
    """Rows of all other ranks in their order, with gradient.

    Args:
        tensor (Tensor): Shape ``(M_r, ...)``.
        sizes (list[int]): The numbers of rows, of :func:`row_counts`.

    Returns:
        Tensor: Shape ``(sum of the other M_r, ...)``; no row in a single
        process.
    """
    start = sum(sizes[: rank()])
    every = all_gather_rows(tensor, sizes)
    return torch.cat([every[:start], every[start + len(tensor) :]])


def row_counts(tensor: Tensor) -> list[int]:
    """Number of rows on each rank.

    Args:
        tensor (Tensor): Shape ``(M_r, ...)``.

    Returns:
        list[int]: In the order of ranks.
    """
    if world_size() == 1:
        return [len(tensor)]
    own = torch.tensor([len(tensor)], device=tensor.device)
    every = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(every, own)
    return torch.cat(every).tolist()


@torch.no_grad()
def reduce_sum_(*tensors: Tensor) -> None:
    """Replace tensors by their sums over ranks, without gradient.

    Args:
        *tensors (Tensor): Each of the same shape on all ranks.
    """
    if world_size() > 1:
        for tensor in tensors:
            dist.all_reduce(tensor)


@torch.no_grad()
def broadcast_(*tensors: Tensor, source: int = 0) -> None:
    """Replace tensors by those of one rank, without gradient.

    Args:
        *tensors (Tensor): Each of the same shape on all ranks.
        source (int): The rank. Defaults to 0.
    """
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, source)


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad


class _AllGatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: list[int]) -> Tensor:
        start = sum(sizes[: dist.get_rank()])
        ctx.rows = slice(start, start + len(tensor))
        # Not all backends gather unequal shapes.
        padded = tensor.new_zeros(max(sizes), *tensor.shape[1:])
        padded[: len(tensor)] = tensor.detach()
        every = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(every, padded)
        return torch.cat([t[:n] for t, n in zip(every, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad[ctx.rows], None
