# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Tiles of a matrix of all pairs of anchors and keys."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from .contrast_dense import KeyWeights


class Tiles:
    """Tiles of all pairs of an anchor and a key, in buffers used again.

    A tile belongs to two blocks of keys, which are slices; of two blocks of
    anchors there is one tile.

    Args:
        keys (Tensor): The anchors, then all other keys, shape ``(M + G, h)``.
        num_anchors (int): M.
        weights (KeyWeights | None): Of the keys; None for all 1.
        size (int): Edge of a tile.
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


def _blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))
