# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Numerical precision of everything geometric."""

import functools
from collections.abc import Callable

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


def unit_vectors(tensor: Tensor, eps: float = 1e-12) -> Tensor:
    r"""Normalise along the last dimension, in fp32 or wider.

    .. math:: \hat x = x / \|x\|

    A vector of zeros stays one and gets a gradient of zero; divided by a
    small number instead, it would get one of the order of :math:`10^{12}`,
    which is infinite in half precision.

    Args:
        tensor (Tensor): Shape ``(..., C)``.
        eps (float): Norm up to which a vector counts as zero. Defaults to
            1e-12.

    Returns:
        Tensor: Same shape, float32 or wider.
    """
    tensor = at_least_float32(tensor)
    norm = tensor.norm(dim=-1, keepdim=True)
    return tensor / norm.masked_fill(norm <= eps, float('inf'))


def full_precision(method: Callable) -> Callable:
    """Let a method compute in float32 or wider, whatever autocast says.

    Args:
        method (Callable): Takes ``self`` and a feature first.

    Returns:
        Callable: The same, with half-precision features widened and autocast
        switched off.
    """

    @functools.wraps(method)
    def wrapped(self, feature: Tensor, *args, **kwargs):
        with torch.autocast(feature.device.type, enabled=False):
            return method(self, at_least_float32(feature), *args, **kwargs)

    return wrapped
