# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Reading pixels at other places."""

import torch
import torch.nn.functional as F
from torch import Tensor


def border_indices(
    size: int, before: int, after: int, mode: str, device: torch.device
) -> Tensor:
    """Where the pixels of a padded line come from.

    Args:
        size (int): Length of the line in pixels.
        before (int): Pixels to add before it.
        after (int): Pixels to add after it.
        mode (str): 'edge' repeats the last pixel, 'reflect' mirrors at it,
            'symmetric' mirrors behind it.
        device (torch.device): Of the result.

    Returns:
        Tensor: int64 in 0 .. size - 1, of length before + size + after.
    """
    indices = torch.arange(-before, size + after, device=device)
    if mode == 'edge' or size == 1:
        return indices.clamp(0, size - 1)
    if mode == 'reflect':
        period = 2 * size - 2
        indices = indices % period
        return torch.minimum(indices, period - indices)
    indices = indices % (2 * size)
    return torch.minimum(indices, 2 * size - 1 - indices)


def gather_pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Read the pixels at places of each image.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        rows (Tensor): int64 in 0 .. H - 1, broadcast to (B, H', W').
        columns (Tensor): int64 in 0 .. W - 1, broadcast to (B, H', W').

    Returns:
        Tensor: Of shape (B, C, H', W').
    """
    return _read(images.flatten(2), rows * images.shape[3] + columns)


def _read(pixels: Tensor, places: Tensor) -> Tensor:
    """Read pixels of shape (B, C, P) at places of shape (B, H', W')."""
    batch_size, channels = pixels.shape[:2]
    places_of_all = places.flatten(1)[:, None].expand(-1, channels, -1)
    pixels = pixels.gather(2, places_of_all)
    return pixels.view(batch_size, channels, *places.shape[1:])


def gather_or_fill(
    images: Tensor, rows: Tensor, columns: Tensor, fill: Tensor
) -> Tensor:
    """Read the pixels at places that may be outside the images.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        rows (Tensor): int64, broadcast to (B, H', W').
        columns (Tensor): int64, broadcast to (B, H', W').
        fill (Tensor): Value outside the images, of shape (1 or C, 1, 1).

    Returns:
        Tensor: Of shape (B, C, H', W').
    """
    batch_size, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height)
    inside = inside & ((columns >= 0) & (columns < width))
    # The value outside is one more pixel, behind the others.
    outside = fill.view(1, -1, 1).expand(batch_size, channels, 1)
    pixels = torch.cat([images.flatten(2), outside], dim=2)
    places = torch.where(inside, rows * width + columns, height * width)
    return _read(pixels, places)


def interpolate_pixels(
    images: Tensor, x: Tensor, y: Tensor, mode: str
) -> Tensor:
    """Interpolate images between their pixels; outside they are zero.

    Args:
        images (Tensor): float32, of shape (B, C, H, W).
        x (Tensor): Places in pixels, zero at the centre of the first one;
            broadcast to (B, H', W').
        y (Tensor): Likewise.
        mode (str): 'bilinear' or 'bicubic', the latter with A = -0.75.

    Returns:
        Tensor: float32, of shape (B, C, H', W').
    """
    height, width = images.shape[2:]
    x, y = torch.broadcast_tensors(
        (2 * x + 1) / width - 1, (2 * y + 1) / height - 1
    )
    grid = torch.stack([x, y], dim=-1).to(images.dtype)
    return F.grid_sample(
        images, grid, mode=mode, padding_mode='zeros', align_corners=False
    )
