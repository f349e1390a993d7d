# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Bins over a continuous label."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


class LabelBins:
    """Intervals that divide the range of a regression label.

    Bin ``k`` holds the values in ``[edges[k], edges[k + 1])``; the last bin
    holds its right edge too. Edges and centers that differ from a decimal of
    12 digits by rounding only, such as ``6 * 0.1``, are that decimal, so that
    a label 0.6 lies to the right of an edge at 0.6 however it was computed,
    and in float32 as well.

    Args:
        edges (Sequence[float]): K + 1 strictly increasing finite edges.
        centers (Sequence[float], optional): K label values that stand for
            the bins, each inside its bin. Defaults to None, which means the
            midpoints.

    Raises:
        ValueError: When edges or centers are not as described.
    """

    def __init__(
        self,
        edges: Sequence[float],
        centers: Sequence[float] | None = None,
    ) -> None:
        self.edges = _without_rounding(edges)
        if (
            self.edges.ndim != 1
            or len(self.edges) < 2
            or not torch.isfinite(self.edges).all()
            or not (self.edges.diff() > 0).all()
        ):
            raise ValueError(
                'bin edges must be at least two strictly increasing finite '
                f'numbers, got {list(edges)[:8]}.'
            )
        left, right = self.edges[:-1], self.edges[1:]
        if centers is None:
            self.centers = (left + right) / 2
        else:
            self.centers = _without_rounding(centers)
        if (
            self.centers.shape != left.shape
            or not ((self.centers >= left) & (self.centers <= right)).all()
        ):
            raise ValueError(
                f'{len(left)} bins need as many centers, each inside its '
                f'bin, got {self.centers.tolist()[:8]}.'
            )

    @classmethod
    def from_spec(
        cls,
        values: Any,
        width: float | None = None,
        edges: Sequence[float] | None = None,
        unique: bool = False,
        start: float | None = None,
        stop: float | None = None,
    ) -> 'LabelBins':
        """Make bins by width, by edges, or by unique values.

        Args:
            values (Any): The training targets, shape ``(N,)``.
            width (float, optional): Equal bins of this width in label
                units, whose centers are multiples of it (ages with
                ``width=1`` get the bins 0, 1, 2, ...). Defaults to None.
            edges (Sequence[float], optional): The edges themselves.
                Defaults to None.
            unique (bool): One bin for each distinct value. Defaults to
                False.
            start (float, optional): Center of the first bin, with
                ``width``. Defaults to None, which means the multiple of
                ``width`` next to the smallest value.
            stop (float, optional): Largest value to cover, with ``width``.
                Defaults to None, which means the largest value.

        Returns:
            LabelBins: The bins.

        Raises:
            ValueError: Unless exactly one rule is given, with sane values.
        """
        rules = [width is not None, edges is not None, bool(unique)]
        if sum(rules) != 1:
            raise ValueError(
                'give exactly one of `width`, `edges` and `unique=True` to '
                f'make label bins, got width={width}, edges={edges}, '
                f'unique={unique}.'
            )
        if edges is not None:
            return cls(edges)
        values = np.asarray(values, dtype=np.float64)
        if unique:
            return cls._from_unique(np.unique(values))
        return cls._from_width(values, width, start, stop)

    @classmethod
    def _from_unique(cls, centers: np.ndarray) -> 'LabelBins':
        if len(centers) == 1:
            gap = np.array([1.0])
        else:
            gap = np.diff(centers)
        inner = centers[:-1] + gap[: len(centers) - 1] / 2
        edges = np.concatenate(
            [[centers[0] - gap[0] / 2], inner, [centers[-1] + gap[-1] / 2]]
        )
        return cls(edges, centers)

    @classmethod
    def _from_width(
        cls,
        values: np.ndarray,
        width: float,
        start: float | None,
        stop: float | None,
    ) -> 'LabelBins':
        if not width > 0:
            raise ValueError(f'bin width must be positive, got {width}.')
        if not np.isfinite(width):
            raise ValueError(f'bin width must be finite, got {width}.')
        if values.size == 0 and (start is None or stop is None):
            raise ValueError(
                'bins over no values at all need `start` and `stop`, got '
                f'start={start}, stop={stop}.'
            )
        if start is not None and stop is not None and stop < start:
            raise ValueError(
                f'bins need stop >= start, got start={start}, stop={stop}.'
            )
        lowest = values.min() if start is None else start
        highest = max(values.max(), lowest) if stop is None else stop
        origin = 0.0 if start is None else start
        # One bin more on either side than needed, because rounding decides
        # on which side of an edge a value is.
        limits = np.array([lowest, highest])
        first, last = np.floor((limits - origin) / width + 0.5)
        steps = np.arange(first - 1, last + 3)
        edges = _without_rounding(origin + width * (steps - 0.5)).numpy()
        low, high = np.searchsorted(edges, limits, side='right') - 1
        centers = origin + width * steps[low : high + 1]
        return cls(edges[low : high + 2], centers)

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelBins):
            return NotImplemented
        return torch.equal(self.edges, other.edges) and torch.equal(
            self.centers, other.centers
        )

    __hash__ = None

    def __repr__(self) -> str:
        return (
            f'LabelBins({len(self)} bins over '
            f'[{self.edges[0]:g}, {self.edges[-1]:g}])'
        )

    def index(self, values: Any, clamp: bool = True) -> Tensor:
        """Bin of each value.

        Args:
            values (Any): Targets, any shape.
            clamp (bool): Put values outside the edges into the first or
                last bin, as is right for test data; otherwise refuse them.
                Defaults to True.

        Returns:
            Tensor: int64, the shape of ``values``.

        Raises:
            ValueError: When a value is not a number or, with
                ``clamp=False``, lies outside.
        """
        values = torch.as_tensor(values, dtype=torch.float64)
        if values.isnan().any():
            raise ValueError(
                f'{int(values.isnan().sum())} of {values.numel()} targets '
                'are not a number: remove or fill them.'
            )
        outside = (values < self.edges[0]) | (values > self.edges[-1])
        if not clamp and outside.any():
            raise ValueError(
                f'target {values[outside].flatten()[0].item():g} lies '
                f'outside the bins [{self.edges[0]:g}, {self.edges[-1]:g}] '
                f'({int(outside.sum())} such targets): widen the bins.'
            )
        inner = self.edges[1:-1].contiguous()
        return torch.bucketize(values, inner, right=True)

    def to_dict(self) -> dict:
        """Plain Python, the arguments of the constructor.

        Returns:
            dict: Lists of numbers.
        """
        return dict(edges=self.edges.tolist(), centers=self.centers.tolist())


def _without_rounding(numbers: Sequence[float]) -> Tensor:
    """Numbers as they were meant, without errors of rounding.

    Args:
        numbers (Sequence[float]): Shape ``(N,)``; not finite ones are kept.

    Returns:
        Tensor: float64.
    """
    values = np.array(numbers, dtype=np.float64)
    finite = values[np.isfinite(values)]
    largest = np.abs(finite).max(initial=0.0)
    if largest == 0 or values.ndim != 1:
        return torch.from_numpy(values)
    digits = 11 - int(np.floor(np.log10(largest)))
    decimal = np.array([round(value, digits) for value in finite.tolist()])
    # A few operations, each of which errs by half a unit in the last place.
    close = np.abs(decimal - finite) <= 4 * np.spacing(largest)
    rounded = values.copy()
    rounded[np.isfinite(values)] = np.where(close, decimal, finite)
    # Numbers that differ stay different.
    if np.any((np.diff(rounded) <= 0) & (np.diff(values) > 0)):
        rounded = values
    return torch.from_numpy(rounded)
