# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Log partition of contrastive logits, tile by tile in linear memory."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .contrast_dense import KeyWeights
from .contrast_tiles import Tiles
from .value_checks import values_are_at_hand


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
    Differentiable once. ``torch.compile`` sees two operations of its own,
    one for each pass, and so any numbers of anchors and keys.

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
    tile = tile or (512 if anchors.device.type == 'cpu' else 2048)
    bounded = False
    if values_are_at_hand(anchors):
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
        tiles = Tiles(_keys(anchors, others), len(anchors), weights, tile)
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
        tiles = Tiles(keys, len(total), *ctx.options)
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
        keys = _keys(anchors, others)
        total = _row_totals(keys, scale, *_parts(weights), tile, bounded)
        ctx.save_for_backward(keys, scale, total)
        ctx.options = *_parts(weights), tile
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple:
        keys, scale, total = ctx.saved_tensors
        gradient = _row_gradient(
            grad, keys, scale, total, *ctx.options, *ctx.needs_input_grad[:2]
        )
        return *_split(ctx, gradient, len(total)), None, None, None, None


@torch.library.custom_op('mmgeom::tiled_row_totals', mutates_args=())
def _row_totals(
    keys: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    excess: Tensor | None,
    classes: Tensor | None,
    tile: int,
    bounded: bool,
) -> Tensor:
    """Log partition functions of the first keys, which are the anchors."""
    tiles = Tiles(keys, len(scale), _weights(weight, excess, classes), tile)
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
    return total.mul_(tiles.inverse_weight).log_().add_(shift)


@torch.library.custom_op('mmgeom::tiled_row_gradient', mutates_args=())
def _row_gradient(
    grad: Tensor,
    keys: Tensor,
    scale: Tensor,
    total: Tensor,
    weight: Tensor | None,
    excess: Tensor | None,
    classes: Tensor | None,
    tile: int,
    of_anchors: bool,
    of_others: bool,
) -> Tensor:
    """Gradient of the keys."""
    tiles = Tiles(keys, len(scale), _weights(weight, excess, classes), tile)
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
            tiles.add_gradient(gradient, exp, a, b, (of_anchors, of_others))
    return gradient


@_row_totals.register_fake
def _(keys: Tensor, scale: Tensor, *args: Any) -> Tensor:
    return torch.empty_like(scale)


@_row_gradient.register_fake
def _(grad: Tensor, keys: Tensor, *args: Any) -> Tensor:
    return torch.empty_like(keys)


def _keys(anchors: Tensor, others: Tensor) -> Tensor:
    return torch.cat([anchors, others]) if len(others) else anchors


def _parts(weights: KeyWeights | None) -> tuple:
    return (None, None, None) if weights is None else tuple(weights)


def _weights(*parts: Tensor | None) -> KeyWeights | None:
    return None if parts[0] is None else KeyWeights(*parts)


def _split(ctx: Any, gradient: Tensor, num_anchors: int) -> tuple:
    others = gradient[num_anchors:] if ctx.needs_input_grad[1] else None
    return gradient[:num_anchors], others


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
