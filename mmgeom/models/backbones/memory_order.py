# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Order of the numbers of maps in memory."""

import torch
from torch import Tensor


def fast_order(maps: Tensor) -> Tensor:
    """Order maps by pixels on a CPU, where convolutions are faster then.

    Maps of later layers keep the order. Given images of one channel it would
    be lost, since then both orders are the same, and the convolution goes on
    with the other; so it is for what the first convolution gives.

    Args:
        maps (Tensor): Shape ``(N, C, H, W)``.

    Returns:
        Tensor: The same numbers; on another device the same tensor.
    """
    if maps.device.type != 'cpu':
        return maps
    return maps.contiguous(memory_format=torch.channels_last)
