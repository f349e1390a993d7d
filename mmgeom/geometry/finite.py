# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Whether numbers are numbers."""

import math

import torch
from torch import Tensor


def all_finite(tensor: Tensor) -> bool:
    """Whether no number is infinite or NaN; waits for the device.

    Args:
        tensor (Tensor): Any shape.

    Returns:
        bool: True too for no numbers at all.
    """
    # One number that is not finite makes the sum so, and a sum takes a third
    # of the time. It may also be too large, hence the second look.
    if math.isfinite(tensor.sum().item()):
        return True
    return bool(torch.isfinite(tensor).all())
