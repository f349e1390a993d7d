# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Predictions, test labels, and the shot groups of test samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmgeom.distribution import LabelDistribution


def to_tensor(value: Tensor | np.ndarray | Sequence) -> Tensor:
    """A tensor in main memory.

    Args:
        value (Tensor | np.ndarray | Sequence): Numbers, or a list of
            tensors of one shape.

    Returns:
        Tensor: Detached, on the CPU.
    """
    if isinstance(value, (list, tuple)) and any(
        isinstance(item, Tensor) for item in value
    ):
        value = torch.stack([torch.as_tensor(item) for item in value])
    return torch.as_tensor(value).detach().cpu()


def predicted_labels(pred: Tensor | np.ndarray | Sequence) -> Tensor:
    """Labels from labels or from scores.

    Args:
        pred (Tensor | np.ndarray | Sequence): Labels, shape ``(N,)``, or
            scores, shape ``(N, K)``.

    Returns:
        Tensor: int64, shape ``(N,)``.

    Raises:
        ValueError: When the shape is another.
    """
    pred = to_tensor(pred)
    if pred.ndim == 2 and pred.shape[1] > 0:
        return pred.argmax(dim=1)
    if pred.ndim == 1:
        return pred.long()
    raise ValueError(
        'predictions must be labels of shape (N,) or scores of shape (N, K), '
        f'got shape {tuple(pred.shape)}.'
    )


def checked_target(
    target: Tensor | np.ndarray | Sequence,
    num_samples: int,
    num_classes: int | None = None,
) -> Tensor:
    """Test labels, known to be usable.

    Args:
        target (Tensor | np.ndarray | Sequence): Integer labels, shape
            ``(N,)``.
        num_samples (int): Number of predictions.
        num_classes (int, optional): K. Defaults to None, no upper bound.

    Returns:
        Tensor: int64, shape ``(N,)``.

    Raises:
        ValueError: When there is no sample, the number of labels is not the
            number of predictions, a sample has several labels, or a label
            lies outside ``[0, K)``.
    """
    target = _one_label_each(target)
    if len(target) == 0:
        raise ValueError(
            'there is no test sample to evaluate: check the dataset and the '
            'dataloader of the evaluation.'
        )
    if len(target) != num_samples:
        raise ValueError(
            f'{num_samples} predictions do not fit {len(target)} test '
            'labels: give one prediction for each.'
        )
    target = target.long()
    outside = target < 0
    if num_classes is not None:
        outside |= target >= num_classes
    if outside.any():
        bound = 'infinity' if num_classes is None else num_classes
        raise ValueError(
            f'test label {int(target[outside][0])} lies outside [0, {bound}) '
            f'({int(outside.sum())} such labels): training and test data '
            'must number the classes alike.'
        )
    return target


def shot_masks(
    target: Tensor,
    distribution: LabelDistribution | None,
    groups: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """Which test samples belong to each shot group of the training data.

    Args:
        target (Tensor): True classes, int64 in ``[0, K)``, shape ``(N,)``.
        distribution (LabelDistribution, optional): Of the training data;
            None means that there are no groups.
        groups (Mapping[str, Any], optional): Arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 training samples.

    Returns:
        dict[str, Tensor]: Group name to a bool mask of shape ``(N,)``, all
        False where the test set has no class of the group.

    Raises:
        ValueError: When groups are asked for without a distribution, or
            the rule does not fit it.
    """
    if distribution is None:
        if groups:
            raise ValueError(
                f'the groups {dict(groups)} need the label distribution of '
                'the training data, got none: give it, or leave the groups '
                'out.'
            )
        return {}
    masks = {}
    for name, index in distribution.groups(**(groups or {})).items():
        if name.startswith('class_'):
            raise ValueError(
                f'a shot group cannot be named {name!r}: names that start '
                "with 'class_' are those of single classes."
            )
        member = torch.zeros(len(distribution), dtype=torch.bool)
        member[index] = True
        masks[name] = member[target]
    return masks


def _one_label_each(target: Tensor | np.ndarray | Sequence) -> Tensor:
    """Test labels of shape ``(N,)``, refusing any other."""
    try:
        target = to_tensor(target)
        shape = tuple(target.shape)
    except (RuntimeError, TypeError, ValueError):
        shape = 'that varies between samples'
    if isinstance(shape, str) or len(shape) != 1:
        raise ValueError(
            'test labels must be one integer a sample, shape (N,), got shape '
            f'{shape}: multi-label data need a multi-label metric.'
        )
    return target
