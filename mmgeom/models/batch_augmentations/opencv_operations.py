# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Operations on batches that equal those of mmcv on arrays.

Each takes uint8 images of shape (B, C, H, W) and, where it needs one, a
number for each image, of shape (B,).
"""

import torch
from torch import Tensor

from .pixel_operations import blend, box_sums, colour_planes
from .sampling import border_indices, gather_or_fill, interpolate_pixels

INTERPOLATIONS = ('nearest', 'bilinear', 'bicubic')


def grey(images: Tensor, channel_order: str) -> Tensor:
    """Weigh the colours, in 1/32768, as OpenCV does.

    Args:
        images (Tensor): Of one or three channels.
        channel_order (str): 'rgb' or 'bgr'.

    Returns:
        Tensor: uint8, of shape (B, 1, H, W).
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = colour_planes(images, channel_order)
    total = red.to(torch.int32) * 9798
    total += green.to(torch.int32) * 19235
    total += blue.to(torch.int32) * 3735
    return ((total + 16384) >> 15).to(torch.uint8)


def adjust_contrast(
    images: Tensor, magnitudes: Tensor, channel_order: str
) -> Tensor:
    """Blend images with their mean grey, by factors 1 + magnitude."""
    levels = grey(images, channel_order)
    total = levels.sum((1, 2, 3), keepdim=True)
    mean = (total / (levels.shape[2] * levels.shape[3])).round()
    return blend(images, mean, 1 + magnitudes).to(torch.uint8)


def adjust_colour(
    images: Tensor, magnitudes: Tensor, channel_order: str
) -> Tensor:
    """Blend images with themselves in grey, by factors 1 + magnitude."""
    if images.shape[1] == 1:
        return images
    others = grey(images, channel_order)
    return blend(images, others, 1 + magnitudes).round_().to(torch.uint8)


def adjust_sharpness(images: Tensor, magnitudes: Tensor) -> Tensor:
    """Blend images with smooth ones, by factors 1 + magnitude.

    Smooth images are means over 3x3 pixels, in which the pixel itself counts
    five times. Images are mirrored at their borders.
    """
    height, width = images.shape[2:]
    values = images.to(torch.float32)
    rows = border_indices(height, 1, 1, 'reflect', images.device)
    columns = border_indices(width, 1, 1, 'reflect', images.device)
    padded = values[:, :, rows][..., columns]
    smooth = ((box_sums(padded) + 4 * values) / 13).round()
    return blend(images, smooth, 1 + magnitudes).to(torch.uint8)


def _warp(
    images: Tensor, x: Tensor, y: Tensor, fill: Tensor, interpolation: str
) -> Tensor:
    """Read pixels at places (x, y) in pixels, zero at the first centre."""
    if interpolation == 'nearest':
        x, y = x.round().long(), y.round().long()
        return gather_or_fill(images, y, x, fill)
    # The weights of a pixel's neighbours add up to one: less the fill value,
    # those outside count as zero.
    others = interpolate_pixels(
        images.to(torch.float32) - fill, x, y, interpolation
    )
    return (others + fill).round_().clamp_(0, 255).to(torch.uint8)


def _places(images: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of shape (1, 1, W) and rows of shape (1, H, 1).

    In single precision, as OpenCV has them: where a place is in the middle
    between two pixels, the nearest one depends on the last bit.
    """
    height, width = images.shape[2:]
    options = dict(device=images.device, dtype=torch.float32)
    x = torch.arange(width, **options)[None, None]
    y = torch.arange(height, **options)[None, :, None]
    return x, y


def shear(
    images: Tensor,
    slopes: Tensor,
    fill: Tensor,
    direction: str,
    interpolation: str,
) -> Tensor:
    """Move rows, or columns, by a slope times their number.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        slopes (Tensor): Pixels for each row, or column, of shape (B,).
        fill (Tensor): Value outside the images, of shape (1 or C, 1, 1).
        direction (str): 'horizontal' moves rows, 'vertical' columns.
        interpolation (str): 'nearest', 'bilinear' or 'bicubic'.

    Returns:
        Tensor: uint8, of the same shape.
    """
    x, y = _places(images)
    slopes = slopes.float()[:, None, None]
    if direction == 'horizontal':
        x = x - slopes * y
    else:
        y = y - slopes * x
    return _warp(images, x, y, fill, interpolation)


def translate(
    images: Tensor,
    parts: Tensor,
    fill: Tensor,
    direction: str,
    interpolation: str,
) -> Tensor:
    """Move images by parts of their width, or height.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        parts (Tensor): Parts, to the right or down, of shape (B,).
        fill (Tensor): Value outside the images, of shape (1 or C, 1, 1).
        direction (str): 'horizontal' or 'vertical'.
        interpolation (str): 'nearest', 'bilinear' or 'bicubic'.

    Returns:
        Tensor: uint8, of the same shape.
    """
    x, y = _places(images)
    height, width = images.shape[2:]
    size = width if direction == 'horizontal' else height
    offsets = (parts.float() * size)[:, None, None]
    if direction == 'horizontal':
        x = x - offsets
    else:
        y = y - offsets
    return _warp(images, x, y, fill, interpolation)


def rotate(
    images: Tensor, degrees: Tensor, fill: Tensor, interpolation: str
) -> Tensor:
    """Turn images about their centres, with the clock.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        degrees (Tensor): Angles, of shape (B,).
        fill (Tensor): Value outside the images, of shape (1 or C, 1, 1).
        interpolation (str): 'nearest', 'bilinear' or 'bicubic'.

    Returns:
        Tensor: uint8, of the same shape.
    """
    x, y = _places(images)
    height, width = images.shape[2:]
    x, y = x - (width - 1) / 2, y - (height - 1) / 2
    angles = torch.deg2rad(degrees.float())[:, None, None]
    cosine, sine = angles.cos(), angles.sin()
    turned_x = cosine * x + sine * y + (width - 1) / 2
    turned_y = cosine * y - sine * x + (height - 1) / 2
    return _warp(images, turned_x, turned_y, fill, interpolation)
