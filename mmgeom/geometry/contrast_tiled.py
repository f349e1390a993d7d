# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Log partition of contrastive logits, tile by tile in linear memory."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .contrast_dense import KeyWeights


def tiled_log_partition(
    anchors: Tensor,
    others: Tensor,
    inverse_temperature: float | Tensor,
    weights: KeyWeights | None = None,
    tile: int | None = None,
) -> Tensor:
    r"""Log partition function of each anchor over all other keys.

    Values and gradients of :func:`~.contrast_dense.dense_log_partition` in
    memory :math:`O((M + G) h)` and a few tiles; the backward pass computes
    the exponentials again. A tile of similarities between two blocks of
    anchors serves the rows of both. So do its exponentials where all
    temperatures are equal and no exponential leaves the range of the type.
    Differentiable once.

    Args:
        anchors (Tensor): Shape ``(M, h)``, float32 or wider.
        others (Tensor): Shape ``(G, h)``.
        inverse_temperature (float | Tensor): :math:`1/\tau`, one number or
            one for each anchor, shape ``(M,)``.
        weights (KeyWeights | None): :math:`\omega`. Defaults to None, all 1.
        tile (int | None): Edge of a tile. Defaults to None: 512 on a CPU,
            whose cache holds a few of these, and 2048 elsewhere.

    Returns:
        Tensor: Shape ``(M,)``.
    """
    on_cpu = anchors.device.type == 'cpu'
    tile = tile or (512 if on_cpu else 2048)
    bounded = False
    # Reading a number back from another device would make the host wait.
    if on_cpu:
        low, high = _range(inverse_temperature)
        bounded = _needs_no_shift(anchors, others, high)
        if bounded and low == high:
            root = math.sqrt(low)
            return _SharedTiles.apply(
                anchors * root, others * root, weights, tile
            )
    if not isinstance(inverse_temperature, Tensor):
        inverse_temperature = anchors.new_full(
            (len(anchors),), inverse_temperature
        )
    return _RowTiles.apply(
        anchors, others, inverse_temperature, weights, tile, bounded
    )


class _SharedTiles(torch.autograd.Function):
    """All temperatures 1, and exponentials that need no shift.

    Their matrix is symmetric: each serves two rows.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        others: Tensor,
        weights: KeyWeights | None,
        tile: int,
    ) -> Tensor:
        tiles = _Tiles(_keys(anchors, others), len(anchors), weights, tile)
        total = anchors.new_zeros(len(anchors))
        for a, b in tiles.pairs():
            exp = tiles.finish(tiles.similarity(a, b).exp_(), a, b)
            tiles.add_row_sums(total, exp, a)
            if a != b and tiles.are_anchors(b):
                tiles.add_row_sums(total, exp.T, b)
        total.mul_(tiles.inverse_weight).log_()
        ctx.save_for_backward(tiles.keys, total)
        ctx.options = weights, tile
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple:
        keys, total = ctx.saved_tensors
        tiles = _Tiles(keys, len(total), *ctx.options)
        gradient = torch.zeros_like(keys)
        # Keys that are no anchors have no partition function.
        pull = keys.new_zeros(len(keys))
        pull[: len(total)] = grad * total.neg().exp() * tiles.inverse_weight
        with torch.autocast(keys.device.type, enabled=False):
            for a, b in tiles.pairs():
                exp = tiles.finish(tiles.similarity(a, b).exp_(), a, b)
                pulls = tiles.buffer(1, a, b)
                torch.add(pull[a, None], pull[b], out=pulls)
                exp.mul_(pulls)
                tiles.add_gradient(gradient, exp, a, b, ctx.needs_input_grad)
        return *_split(ctx, gradient, len(total)), None, None


class _RowTiles(torch.autograd.Function):
    """Any temperatures and logits: each anchor has its own exponentials."""

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        others: Tensor,
        scale: Tensor,
        weights: KeyWeights | None,
        tile: int,
        bounded: bool,
    ) -> Tensor:
        tiles = _Tiles(_keys(anchors, others), len(anchors), weights, tile)
        shift = torch.zeros_like(scale)
        if not bounded:
            shift = scale * tiles.largest_similarity()
        total = torch.zeros_like(scale)
        for a, b in tiles.pairs():
            similarity, exp = tiles.similarity(a, b), tiles.buffer(1, a, b)
            _scaled_exp(similarity, scale[a, None], shift[a, None], exp)
            tiles.add_row_sums(total, tiles.finish(exp, a, b), a)
            if a != b and tiles.are_anchors(b):
                _scaled_exp(similarity, scale[b], shift[b], exp)
                tiles.add_row_sums(total, tiles.finish(exp, a, b).T, b)
        total.mul_(tiles.inverse_weight).log_().add_(shift)
        ctx.save_for_backward(tiles.keys, scale, total)
        ctx.options = weights, tile
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple:
        keys, scale, total = ctx.saved_tensors
        tiles = _Tiles(keys, len(total), *ctx.options)
        gradient = torch.zeros_like(keys)
        pull = grad * scale * tiles.inverse_weight
        with torch.autocast(keys.device.type, enabled=False):
            for a, b in tiles.pairs():
                similarity, exp = tiles.similarity(a, b), tiles.buffer(1, a, b)
                _scaled_exp(similarity, scale[a, None], total[a, None], exp)
                exp.mul_(pull[a, None])
                if tiles.are_anchors(b):
                    _scaled_exp(similarity, scale[b], total[b], similarity)
                    exp.add_(similarity.mul_(pull[b]))
                tiles.finish(exp, a, b)
                tiles.add_gradient(gradient, exp, a, b, ctx.needs_input_grad)
        return *_split(ctx, gradient, len(total)), None, None, None, None


class _Tiles:
    """Tiles of all pairs of an anchor and a key, in buffers used again.

    A tile belongs to two blocks of keys, which are slices; of two blocks of
    anchors there is one tile.
    """

    def __init__(
        self,
        keys: Tensor,
        num_anchors: int,
        weights: KeyWeights | None,
        size: int,
    ) -> None:
        size = min(size, len(keys))
        self.keys = keys
        self.num_anchors = num_anchors
        self.weights = weights
        self.inverse_weight: Tensor | float = 1.0
        if weights is not None:
            self.inverse_weight = 1 / weights.weight[:num_anchors]
        number = 2 if weights is None else 3
        self._buffers = keys.new_empty(number, size * size)
        self._ones = keys.new_ones(size)
        self._anchors = list(_blocks(0, num_anchors, size))
        self._others = list(_blocks(num_anchors, len(keys), size))

    def pairs(self) -> Iterator[tuple[slice, slice]]:
        """All pairs of blocks, first of anchors and second of keys."""
        for i, a in enumerate(self._anchors):
            for b in self._anchors[i:] + self._others:
                yield a, b

    def are_anchors(self, block: slice) -> bool:
        """Whether a block of keys is one of anchors."""
        return block.start < self.num_anchors

    def buffer(self, number: int, a: slice, b: slice) -> Tensor:
        """Memory for a tile."""
        rows, columns = a.stop - a.start, b.stop - b.start
        return self._buffers[number][: rows * columns].view(rows, columns)

    def similarity(self, a: slice, b: slice) -> Tensor:
        """Inner products, in buffer 0."""
        out = self.buffer(0, a, b)
        return torch.mm(self.keys[a], self.keys[b].T, out=out)

    def finish(self, exp: Tensor, a: slice, b: slice) -> Tensor:
        r"""Weigh the exponentials and leave out those of a key with itself.

        The factor :math:`\omega_{il} / |B_{y_i}|` is symmetric, as
        :math:`\omega_{il}` is not. It is built in buffer 2.
        """
        if self.weights is not None:
            weight, excess, classes = self.weights
            factor = self.buffer(2, a, b)
            torch.eq(classes[a, None], classes[b], out=factor)
            factor.mul_(excess[a, None]).add_(1)
            exp.mul_(factor.mul_(weight[a, None]).mul_(weight[b]))
        if a == b:
            exp.fill_diagonal_(0)
        return exp

    def add_row_sums(self, total: Tensor, tile: Tensor, a: slice) -> None:
        """Add the sums over columns."""
        total[a].addmv_(tile, self._ones[: tile.shape[1]])

    def add_gradient(
        self,
        gradient: Tensor,
        tile: Tensor,
        a: slice,
        b: slice,
        needed: tuple[bool, ...],
    ) -> None:
        """Add what the pairs of a tile give to the keys of both blocks."""
        gradient[a].addmm_(tile, self.keys[b])
        if a != b and needed[0 if self.are_anchors(b) else 1]:
            gradient[b].addmm_(tile.T, self.keys[a])

    def largest_similarity(self) -> Tensor:
        """Of each anchor with any other key, shape ``(M,)``."""
        largest = self.keys.new_full((self.num_anchors,), -math.inf)
        for a, b in self.pairs():
            tile = self.similarity(a, b)
            if a == b:
                tile.fill_diagonal_(-math.inf)
            torch.maximum(largest[a], tile.amax(1), out=largest[a])
            if a != b and self.are_anchors(b):
                torch.maximum(largest[b], tile.amax(0), out=largest[b])
        return largest


def _keys(anchors: Tensor, others: Tensor) -> Tensor:
    return torch.cat([anchors, others]) if len(others) else anchors


def _split(ctx: Any, gradient: Tensor, num_anchors: int) -> tuple:
    others = gradient[num_anchors:] if ctx.needs_input_grad[1] else None
    return gradient[:num_anchors], others


def _blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def _scaled_exp(
    similarity: Tensor, scale: Tensor, shift: Tensor, out: Tensor
) -> None:
    torch.mul(similarity, scale, out=out).sub_(shift).exp_()


def _range(value: float | Tensor) -> tuple[float, float]:
    """Smallest and largest entry; zero if there is none."""
    if not isinstance(value, Tensor):
        return value, value
    if len(value) == 0:
        return 0.0, 0.0
    low, high = value.aminmax()
    return low.item(), high.item()


def _needs_no_shift(anchors: Tensor, others: Tensor, scale: float) -> bool:
    """Whether sums of exponentials and their inverses stay in range."""
    if len(anchors) == 0:
        return True
    with torch.no_grad():
        norm = torch.linalg.vector_norm(anchors, dim=1).amax()
        longest = norm
        if len(others):
            other = torch.linalg.vector_norm(others, dim=1).amax()
            longest = torch.maximum(norm, other)
        bound = (scale * norm * longest).item()
    return bound < math.log(torch.finfo(anchors.dtype).max) / 2
