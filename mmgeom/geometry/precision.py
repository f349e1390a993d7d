# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Numerical precision of everything geometric."""

import torch
from torch import Tensor


def at_least_float32(tensor: Tensor) -> Tensor:
    """Widen half-precision tensors; others are returned as they are.

    Args:
        tensor (Tensor): Any floating-point tensor.

    Returns:
        Tensor: float32, or float64 if it was.
    """
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return tensor.float()
    return tensor
