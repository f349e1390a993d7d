# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""When the values of a tensor may decide what is computed."""

import torch
from torch import Tensor


def values_are_at_hand(tensor: Tensor) -> bool:
    """Whether looking at values costs nothing.

    The host waits for any other device to look at a value of it, and a
    compiled graph ends where its path depends on one. Checks of values, and
    choices between ways of computing the same, are made only where this
    holds.

    Args:
        tensor (Tensor): Any tensor.

    Returns:
        bool: True in main memory, unless ``torch.compile`` is tracing.
    """
    return tensor.device.type == 'cpu' and not torch.compiler.is_compiling()
