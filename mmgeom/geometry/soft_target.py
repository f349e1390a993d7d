# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Cross-entropy against a class index or a distribution over classes."""

import torch.nn.functional as F
from torch import Tensor


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r"""Cross-entropy of each sample, for hard and for mixed labels.

    .. math:: \ell_i = -\sum_k t_{ik} \log \mathrm{softmax}(s_i)_k

    Args:
        logits (Tensor): Shape ``(N, K)``.
        target (Tensor): Class indices, shape ``(N,)``, integer; or weights
            as made by Mixup and CutMix, shape ``(N, K)``.

    Returns:
        Tensor: Shape ``(N,)``.

    Raises:
        ValueError: When the target has neither shape, or holds class
            indices that are not integers.
    """
    if target.ndim == 1 and len(target) == len(logits):
        if target.is_floating_point():
            raise ValueError(
                f'class indices must be integers, got {target.dtype}: give '
                'soft labels the shape (N, K).'
            )
        return F.cross_entropy(logits, target.long(), reduction='none')
    if target.shape == logits.shape:
        return F.cross_entropy(
            logits, target.to(logits.dtype), reduction='none'
        )
    raise ValueError(
        f'a target of shape {tuple(target.shape)} does not fit logits of '
        f'shape {tuple(logits.shape)}: give class indices (N,) or weights '
        '(N, K).'
    )
