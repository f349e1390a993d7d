# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Log partition of contrastive logits, with a matrix of all pairs."""

from typing import NamedTuple

import torch
from torch import Tensor


class KeyWeights(NamedTuple):
    """Weights with which every class counts once in a partition function.

    Attributes:
        weight (Tensor): 1 / number of keys of its class, for each of M
            anchors and G other keys, shape ``(M + G,)``.
        excess (Tensor): An anchor leaves itself out of its own class, whose
            other keys weigh more for it by this relative amount: 1 / (number
            of keys of the class - 1), shape ``(M + G,)``.
        classes (Tensor): Class of each key, written as a number of the same
            type as the weights, shape ``(M + G,)``.
    """

    weight: Tensor
    excess: Tensor
    classes: Tensor


def dense_log_partition(
    anchors: Tensor,
    others: Tensor,
    inverse_temperature: float | Tensor,
    weights: KeyWeights | None = None,
) -> Tensor:
    r"""Log partition function of each anchor over all other keys.

    .. math:: \log \sum_{l \ne i} \omega_{il} \exp(z_i \cdot z_l / \tau_i)

    Keys are the anchors, then the others; there must be two at least.

    Args:
        anchors (Tensor): Shape ``(M, h)``, float32 or wider.
        others (Tensor): Shape ``(G, h)``.
        inverse_temperature (float | Tensor): :math:`1/\tau`, one number or
            one for each anchor, shape ``(M,)``.
        weights (KeyWeights | None): :math:`\omega`. Defaults to None, all 1.

    Returns:
        Tensor: Shape ``(M,)``.
    """
    keys = torch.cat([anchors, others]) if len(others) else anchors
    if isinstance(inverse_temperature, Tensor):
        inverse_temperature = inverse_temperature[:, None]
    logits = (anchors * inverse_temperature) @ keys.T
    if weights is not None:
        own = weights.classes[: len(anchors), None] == weights.classes
        log_excess = weights.excess.log1p()
        logits = logits + (weights.weight.log() + own * log_excess)
    # Not recorded: where a logit is -inf its gradient is zero anyway.
    with torch.no_grad():
        logits.diagonal().fill_(float('-inf'))
    return logits.logsumexp(1)
