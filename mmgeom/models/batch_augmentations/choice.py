# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Changing some images of a batch."""

from collections.abc import Callable

import torch
from torch import Tensor


def change_chosen(
    images: Tensor,
    chosen: Tensor,
    operation: Callable[..., Tensor],
    *parameters: Tensor,
) -> Tensor:
    """Apply an operation to the images that were chosen.

    On the CPU the operation sees those images only. On other devices it sees
    all of them, as the host would have to wait for their number.

    Args:
        images (Tensor): Of shape (B, C, H, W). On the CPU they are changed
            in place.
        chosen (Tensor): Boolean, of shape (B,).
        operation (Callable): Takes images and parameters, and gives images
            of the same shape and type.
        *parameters (Tensor): With one row for each image.

    Returns:
        Tensor: The images, of which the chosen ones are changed.
    """
    change = _change_rows if images.device.type == 'cpu' else _change_all
    return change(images, chosen, operation, *parameters)


def _change_rows(
    images: Tensor,
    chosen: Tensor,
    operation: Callable[..., Tensor],
    *parameters: Tensor,
) -> Tensor:
    rows = chosen.nonzero()[:, 0]
    if len(rows):
        images[rows] = operation(images[rows], *(p[rows] for p in parameters))
    return images


def _change_all(
    images: Tensor,
    chosen: Tensor,
    operation: Callable[..., Tensor],
    *parameters: Tensor,
) -> Tensor:
    changed = operation(images, *parameters)
    return torch.where(chosen[:, None, None, None], changed, images)
