# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Labels and scores of a batch as one tensor, however samples are held."""

from collections.abc import Sequence

import torch
from mmpretrain.structures import DataSample
from torch import Tensor

from .batch_samples import BatchSamples


def field_names(data_samples: Sequence[DataSample]) -> list[str]:
    """Names of the data fields that samples have.

    Args:
        data_samples (Sequence[DataSample]): At least one.

    Returns:
        list[str]: Those of the first sample.
    """
    if isinstance(data_samples, BatchSamples):
        return data_samples.keys()
    return list(data_samples[0].keys())


def stacked_labels(data_samples: Sequence[DataSample]) -> Tensor:
    """Classes of a batch.

    Args:
        data_samples (Sequence[DataSample]): With ``gt_label``.

    Returns:
        Tensor: int64, shape ``(B,)``; longer when samples have several.

    Raises:
        AttributeError: When a sample has no ``gt_label``.
    """
    if isinstance(data_samples, BatchSamples):
        return data_samples.stacked('gt_label')
    return torch.cat([sample.gt_label for sample in data_samples])


def stacked_scores(data_samples: Sequence[DataSample]) -> Tensor:
    """Regression targets or mixed labels of a batch.

    Args:
        data_samples (Sequence[DataSample]): With ``gt_score``.

    Returns:
        Tensor: Shape ``(B, D)``.

    Raises:
        AttributeError: When a sample has no ``gt_score``.
        RuntimeError: When they differ in length.
    """
    if isinstance(data_samples, BatchSamples):
        return data_samples.stacked('gt_score')
    return torch.stack([sample.gt_score for sample in data_samples])


def batch_target(data_samples: Sequence[DataSample]) -> Tensor:
    """What a classification loss compares with, as the host's heads read it.

    Args:
        data_samples (Sequence[DataSample]): With ``gt_score``, which mixing
            augmentations write, or ``gt_label``.

    Returns:
        Tensor: Mixed labels ``(B, K)``, else classes ``(B,)``.
    """
    if 'gt_score' in field_names(data_samples):
        return stacked_scores(data_samples)
    return stacked_labels(data_samples)
