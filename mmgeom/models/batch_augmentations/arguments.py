# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Checks of arguments that several augmentations take."""

from collections.abc import Sequence
from numbers import Number

import torch
from torch import Tensor


def check_probability(prob: float) -> float:
    """Check that a probability is one.

    Args:
        prob (float): Number to check.

    Returns:
        float: The same.

    Raises:
        ValueError: When it is outside [0, 1].
    """
    if not isinstance(prob, Number) or not 0 <= prob <= 1:
        raise ValueError(f'prob must be within [0, 1], got {prob!r}.')
    return float(prob)


def size_pair(size: int | Sequence[int], name: str) -> tuple[int, int]:
    """Make a height and a width of one number or two.

    Args:
        size (int | Sequence[int]): One number for both, or (height, width).
        name (str): Name of the argument, for the error.

    Returns:
        tuple[int, int]: Height and width in pixels.

    Raises:
        ValueError: When it is neither, or not positive.
    """
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(
        isinstance(side, int) and side > 0 for side in pair
    ):
        raise ValueError(
            f'{name} must be a positive int or two of them, (height, width), '
            f'got {size!r}.'
        )
    return pair


def fill_values(pad_val: float | Sequence[float]) -> Tensor:
    """Make a tensor of a pixel value.

    Args:
        pad_val (float | Sequence[float]): One value for all channels, or one
            for each, in 0..255.

    Returns:
        Tensor: uint8, of shape (1, 1, 1) or (C, 1, 1).

    Raises:
        ValueError: When a value is outside 0..255.
    """
    values = [pad_val] if isinstance(pad_val, Number) else list(pad_val)
    if not values or not all(0 <= value <= 255 for value in values):
        raise ValueError(
            'pad_val must be a number in 0..255, or one for each channel, '
            f'got {pad_val!r}.'
        )
    return torch.tensor(values).to(torch.uint8)[:, None, None]


def fill_for(fill: Tensor, images: Tensor) -> Tensor:
    """Check a pixel value against images, and move it to their device.

    Args:
        fill (Tensor): From :func:`fill_values`.
        images (Tensor): Of shape (B, C, H, W).

    Returns:
        Tensor: The same value, on the device of the images.

    Raises:
        ValueError: When there are other channels than values.
    """
    if len(fill) not in (1, images.shape[1]):
        raise ValueError(
            f'pad_val has {len(fill)} values and the images have '
            f'{images.shape[1]} channels: give one value for each channel, '
            'or one number for all.'
        )
    return fill.to(images.device)
