# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Calibration of the most likely class."""

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_calibration_error

#: How far the probabilities of a sample may be from a distribution.
TOLERANCE = 1e-3


def top_label(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely class and its probability, checked.

    torchmetrics would silently take scores outside ``[0, 1]`` for logits,
    and scores inside for probabilities whatever their sum; both are refused
    here.

    Args:
        scores (Tensor): Probabilities, shape ``(N, K)``.

    Returns:
        tuple[Tensor, Tensor]: Confidences (float32 in ``[0, 1]``) and
        labels (int64), each of shape ``(N,)``.

    Raises:
        ValueError: When the shape is another, or a row is not within 1e-3
            of a probability distribution.
    """
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(
            'calibration needs the scores of all classes, shape (N, K), got '
            f'shape {tuple(scores.shape)}.'
        )
    scores = scores.float()
    bad = ~(
        ((scores >= -TOLERANCE) & (scores <= 1 + TOLERANCE)).all(dim=1)
        & ((scores.sum(dim=1) - 1).abs() <= TOLERANCE)
    )
    if bad.any():
        row = int(torch.nonzero(bad)[0])
        low, high = scores[row].min().item(), scores[row].max().item()
        raise ValueError(
            f'the scores of sample {row} are no probabilities (smallest '
            f'{low:.4g}, largest {high:.4g}, sum '
            f'{scores[row].sum().item():.4g}): calibration needs the softmax '
            'of the logits as pred_score.'
        )
    confidence, label = scores.max(dim=1)
    return confidence.clamp(0, 1), label


def calibration_error(
    confidence: Tensor, correct: Tensor, num_bins: int = 15, norm: str = 'l1'
) -> float:
    r"""Top-label calibration error by equally wide bins, in percent.

    .. math::
        \mathrm{ECE} = \sum_b \frac{|B_b|}{N}
        \left| \mathrm{acc}(B_b) - \mathrm{conf}(B_b) \right|

    for ``'l1'``; ``'l2'`` takes the root of the weighted mean of squares and
    ``'max'`` the largest term without its weight. torchmetrics does the
    sums: the value is that of its ``multiclass_calibration_error``, whose
    bins are closed on the left, a confidence of exactly 1 having one of its
    own.

    Args:
        confidence (Tensor): Probability of the predicted class, float32 in
            ``[0, 1]``, shape ``(N,)`` with N of at least 1.
        correct (Tensor): Whether a prediction is right, bool, ``(N,)``.
        num_bins (int): Number of bins. Defaults to 15.
        norm (str): ``'l1'``, ``'l2'`` or ``'max'``. Defaults to ``'l1'``.

    Returns:
        float: In ``[0, 100]``.
    """
    # The multi-class function reduces its (N, K) scores to these two vectors
    # and then calls the same code; this way nobody has to keep the scores.
    error = binary_calibration_error(
        confidence, correct.long(), n_bins=num_bins, norm=norm
    )
    return 100 * error.item()
