# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Bins of test labels, and the shot groups of these bins."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmgeom.distribution import LabelDistribution

from .labels import shot_masks, to_tensor


def label_numbers(
    target: Tensor, distribution: LabelDistribution | None = None
) -> Tensor:
    """Number of the bin of each sample, or else of its distinct target.

    Args:
        target (Tensor): True values, float64, shape ``(N, D)``.
        distribution (LabelDistribution, optional): Of the training data,
            over bins, which are for one target a sample, D of 1. Defaults
            to None.

    Returns:
        Tensor: int64, shape ``(N,)``. Values beyond the bins count in the
        first or last one.

    Raises:
        ValueError: When the distribution is over classes.
    """
    if distribution is None or target.shape[1] > 1:
        return target.unique(dim=0, return_inverse=True)[1]
    check_bins(distribution)
    return distribution.bins.index(as_written(target[:, 0]))


def bin_masks(
    target: Tensor,
    labels: Tensor,
    distribution: LabelDistribution | None,
    groups: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """Which test samples belong to each shot group of the training bins.

    Args:
        target (Tensor): True values, shape ``(N, D)``.
        labels (Tensor): Their :func:`label_numbers`, shape ``(N,)``.
        distribution (LabelDistribution, optional): Of the training data;
            None means that there are no groups.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 training samples.

    Returns:
        dict[str, Tensor]: Group name to a bool mask of shape ``(N,)``;
        empty when D is more than 1, since bins are for one target.

    Raises:
        ValueError: When groups are asked for without a distribution, or
            the rule does not fit it.
    """
    if distribution is not None and target.shape[1] > 1:
        return {}
    return shot_masks(labels, distribution, groups)


def check_bins(distribution: LabelDistribution) -> None:
    """Refuse a distribution over classes.

    Args:
        distribution (LabelDistribution): Of the training data.

    Raises:
        ValueError: When it has no bins.
    """
    if distribution.bins is None:
        raise ValueError(
            'regression errors need the bins of the label, got '
            f'{distribution!r}: give them to the hook, e.g. '
            "dict(type='mmgeom.LabelDistributionHook', "
            'bins=dict(width=1.0)).'
        )


def as_written(values: Tensor) -> Tensor:
    """The decimals that numbers had before they became float32.

    Samples carry float32, in which 3.8 lies a little below the edge 3.8 of
    a bin; the training labels were binned in float64, where it does not.

    Args:
        values (Tensor): float64, any shape.

    Returns:
        Tensor: float64; values that float32 holds exactly are replaced by
        the shortest decimal that rounds to them, others are as they were.
    """
    single = values.float()
    text = single.numpy().astype(str)
    decimal = torch.from_numpy(text.astype(np.float64))
    return torch.where(single.double() == values, decimal, values)


def to_double(values: Tensor | np.ndarray | Sequence) -> Tensor:
    """Numbers in double precision.

    Args:
        values (Tensor | np.ndarray | Sequence): Numbers, or a list of
            tensors of one shape.

    Returns:
        Tensor: float64, detached, on the CPU.
    """
    listed = isinstance(values, (list, tuple))
    if listed and not any(isinstance(item, Tensor) for item in values):
        # torch would make float32 of Python's numbers.
        values = np.asarray(values, dtype=np.float64)
    return to_tensor(values).double()
