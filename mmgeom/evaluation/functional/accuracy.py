# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Accuracy of each class and its unweighted mean."""

import torch
from torch import Tensor


def class_accuracy(correct: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    r"""Accuracy of each class that has a test sample.

    .. math::
        a_k = \frac{100}{m_k} \sum_{i: y_i = k} \mathbb{1}[\hat y_i = y_i]

    with :math:`m_k` test samples of class :math:`k`.

    Args:
        correct (Tensor): Whether a prediction is right, bool, ``(N,)``.
        target (Tensor): True classes, int64, shape ``(N,)``.

    Returns:
        tuple[Tensor, Tensor]: The C classes in ascending order (int64) and
        their accuracies in percent (float64), each of shape ``(C,)``.
    """
    classes, index = target.unique(return_inverse=True)
    hits = torch.bincount(
        index, weights=correct.double(), minlength=len(classes)
    )
    support = torch.bincount(index, minlength=len(classes))
    return classes, 100 * hits / support


def class_mean_accuracy(correct: Tensor, target: Tensor) -> float:
    r"""Unweighted mean of :func:`class_accuracy` over the classes there are.

    Args:
        correct (Tensor): Whether a prediction is right, bool, ``(N,)`` with
            N of at least 1.
        target (Tensor): True classes, int64, shape ``(N,)``.

    Returns:
        float: In percent.
    """
    return class_accuracy(correct, target)[1].mean().item()
