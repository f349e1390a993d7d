# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Statistics of all classes at once, whatever their sizes."""

import torch
from torch import Tensor

_ALL_BUT_SIGN = 0x7FFFFFFF


def segment_quantile(
    values: Tensor, segments: Tensor, num_segments: int, alpha: float
) -> Tensor:
    r"""Quantile of the values of each segment, by linear interpolation.

    With the sorted values :math:`v_0 \le \dots \le v_{n-1}` of a segment and
    :math:`p = \alpha (n - 1)`,

    .. math::
        Q_\alpha = v_{\lfloor p \rfloor} + (p - \lfloor p \rfloor)
        (v_{\lceil p \rceil} - v_{\lfloor p \rfloor})

    as :func:`torch.quantile` does. Sorted by segment and value, each segment
    is one sorted run, so that all quantiles are read at once in
    :math:`O(N \log N)`.

    Args:
        values (Tensor): Finite, shape ``(N,)``, float32 or float64.
        segments (Tensor): Segment of each value in ``[0, K)``, int64, shape
            ``(N,)``.
        num_segments (int): K.
        alpha (float): In ``(0, 1]``; 1 is the maximum.

    Returns:
        Tensor: Shape ``(K,)``, 0 for a segment without values.

    Raises:
        ValueError: When shapes or the level do not fit, or a segment in main
            memory is out of range.
    """
    check_level(alpha)
    _check_segments(values, segments, num_segments)
    if len(values) == 0:
        return values.new_zeros(num_segments)
    ordered = _sorted_runs(values, segments)
    counts = torch.bincount(segments, minlength=num_segments)
    start = counts.cumsum(0) - counts
    lower, upper, fraction = _positions(counts, alpha)
    last = len(ordered) - 1
    low = ordered[(start + lower).clamp(max=last)]
    high = ordered[(start + upper).clamp(max=last)]
    result = torch.lerp(low, high, fraction.to(low.dtype))
    return result.where(counts > 0, 0)


def segment_mean_std(
    values: Tensor, segments: Tensor, num_segments: int
) -> tuple[Tensor, Tensor]:
    r"""Mean and population standard deviation of each segment.

    .. math:: \sigma^2 = \frac1n \sum_i (v_i - \bar v)^2

    in float64 and in two passes, so that nothing cancels.

    Args:
        values (Tensor): Finite, shape ``(N,)``.
        segments (Tensor): Segment of each value in ``[0, K)``, int64, shape
            ``(N,)``.
        num_segments (int): K.

    Returns:
        tuple[Tensor, Tensor]: Shape ``(K,)`` each, in the type of the values;
        0 for a segment without values, and a deviation of 0 for one value.

    Raises:
        ValueError: When shapes do not fit, or a segment in main memory is
            out of range.
    """
    _check_segments(values, segments, num_segments)
    wide = values.double()
    zeros = wide.new_zeros(num_segments)
    counts = zeros.index_add(0, segments, torch.ones_like(wide)).clamp_(min=1)
    mean = zeros.index_add(0, segments, wide) / counts
    square = (wide - mean[segments]).square_()
    variance = zeros.index_add(0, segments, square) / counts
    return mean.to(values.dtype), variance.sqrt().to(values.dtype)


def histogram_quantile(
    histogram: Tensor, width: float, alpha: float
) -> Tensor:
    """Quantile of each row of a histogram that starts at 0.

    As in :func:`segment_quantile`, with the values of a bin taken to lie
    evenly inside it. The result is less than one bin away from the quantile
    of the values themselves.

    Args:
        histogram (Tensor): Numbers of values, shape ``(K, n)``.
        width (float): Of a bin.
        alpha (float): In ``(0, 1]``.

    Returns:
        Tensor: Shape ``(K,)``, float64, 0 for a row without values.

    Raises:
        ValueError: When the level is out of its range.
    """
    check_level(alpha)
    histogram = histogram.double()
    cumulative = histogram.cumsum(1)
    counts = cumulative[:, -1]
    lower, upper, fraction = _positions(counts, alpha)
    rank = torch.stack([lower, upper], 1).to(cumulative)
    # The first bin that brings the number of values above the rank.
    index = torch.searchsorted(cumulative, rank, right=True)
    index.clamp_(max=histogram.shape[1] - 1)
    inside = histogram.gather(1, index)
    before = cumulative.gather(1, index) - inside
    share = (rank - before + 0.5) / inside.clamp(min=1)
    low, high = ((index + share) * width).unbind(1)
    return torch.lerp(low, high, fraction).where(counts > 0, 0)


def check_level(alpha: float) -> None:
    """Refuse what is no level of a quantile.

    Args:
        alpha (float): The level.

    Raises:
        ValueError: When it is not in ``(0, 1]``.
    """
    if not 0 < alpha <= 1:
        raise ValueError(
            f'alpha is the level of a quantile and must lie in (0, 1], got '
            f'{alpha}.'
        )


def _sorted_runs(values: Tensor, segments: Tensor) -> Tensor:
    """Values sorted by segment and, inside of each, by value."""
    if values.dtype != torch.float32:
        ordered, order = values.sort(stable=True)
        return ordered[segments[order].argsort(stable=True)]
    # Whole numbers sort several times faster: the segment, and below it the
    # bits of the value, which are in order as soon as those of negative
    # numbers are reversed. Zeros lose their sign.
    bits = (values + 0.0).contiguous().view(torch.int32)
    bits = torch.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    key = ((segments << 32) + bits).sort().values
    bits = key.to(torch.int32)
    bits = torch.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    return bits.view(torch.float32)


def _positions(counts: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """The two ranks around each quantile, and the way between them."""
    position = alpha * (counts.double() - 1).clamp(min=0)
    lower = position.floor()
    return lower.long(), position.ceil().long(), position - lower


def _check_segments(
    values: Tensor, segments: Tensor, num_segments: int
) -> None:
    if values.ndim != 1 or segments.shape != values.shape:
        raise ValueError(
            'values and segments must both have shape (N,), got '
            f'{tuple(values.shape)} and {tuple(segments.shape)}.'
        )
    if num_segments < 1:
        raise ValueError(f'num_segments must be positive, got {num_segments}.')
    # Looking at values on another device would make the host wait for it.
    if segments.device.type != 'cpu' or len(segments) == 0:
        return
    low, high = segments.aminmax()
    if low < 0 or high >= num_segments:
        raise ValueError(
            f'segments must lie in [0, {num_segments}), got {low.item()} to '
            f'{high.item()}.'
        )
