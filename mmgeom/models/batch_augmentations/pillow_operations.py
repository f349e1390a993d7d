# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Operations on batches that equal those of Pillow.

Each takes uint8 images of shape (B, C, H, W) and, where it needs one, a
number for each image, of shape (B,). Grey images of one channel have no
saturation and no hue.
"""

import torch
from torch import Tensor

from .pixel_operations import blend, box_sums, colour_planes
from .sampling import gather_or_fill


def grey(images: Tensor, channel_order: str) -> Tensor:
    """Weigh the colours, in 1/65536, as mode L of Pillow does.

    Args:
        images (Tensor): Of one or three channels.
        channel_order (str): 'rgb' or 'bgr'.

    Returns:
        Tensor: uint8, of shape (B, 1, H, W).
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = colour_planes(images, channel_order)
    total = red.to(torch.int32) * 19595
    total += green.to(torch.int32) * 38470
    total += blue.to(torch.int32) * 7471
    return ((total + 32768) >> 16).to(torch.uint8)


def adjust_contrast(
    images: Tensor, factors: Tensor, channel_order: str
) -> Tensor:
    """Blend images with their mean grey; zero gives that, one the image."""
    levels = grey(images, channel_order)
    pixels = levels.shape[2] * levels.shape[3]
    total = levels.sum((1, 2, 3), keepdim=True)
    # The mean, rounded half up, in whole numbers.
    mean = (2 * total + pixels) // (2 * pixels)
    return blend(images, mean, factors).to(torch.uint8)


def adjust_saturation(
    images: Tensor, factors: Tensor, channel_order: str
) -> Tensor:
    """Blend images with themselves in grey; zero gives grey."""
    if images.shape[1] == 1:
        return images
    others = grey(images, channel_order)
    return blend(images, others, factors).to(torch.uint8)


def adjust_sharpness(images: Tensor, factors: Tensor) -> Tensor:
    """Blend images with smooth ones; zero gives those, two sharp ones.

    Smooth images are means over 3x3 pixels, in which the pixel itself counts
    five times. Pixels at the border stay as they are.
    """
    values = images.to(torch.float32)
    smooth = values.clone()
    inner = values[..., 1:-1, 1:-1]
    if inner.numel():
        means = (box_sums(values) + 4 * inner) / 13
        smooth[..., 1:-1, 1:-1] = (means + 0.5).floor()
    return blend(images, smooth, factors).to(torch.uint8)


def _to_hsv(
    red: Tensor, green: Tensor, blue: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value, whole numbers in 0..255, as float32."""
    value = torch.maximum(torch.maximum(red, green), blue)
    spread = value - torch.minimum(torch.minimum(red, green), blue)
    # Grey pixels get hue and saturation zero below.
    divisor = spread.clamp(min=1)
    red_part = (value - red) / divisor
    green_part = (value - green) / divisor
    blue_part = (value - blue) / divisor
    # In double precision where Pillow is: what is rounded down below depends
    # on the last bit.
    red_part, green_part, blue_part = (
        part.double() for part in (red_part, green_part, blue_part)
    )
    # Sums of products, which are faster than choices.
    is_red = (red == value).double()
    is_green = (green == value).double() * (1.0 - is_red)
    is_blue = 1.0 - is_red - is_green
    hue = is_red * (blue_part - green_part)
    hue += is_green * (2.0 + red_part - blue_part)
    hue += is_blue * (4.0 + green_part - red_part)
    hue = _cyclic(hue.float().double() / 6.0 + 1.0, 1.0).float()
    hue = (hue.double() * 255.0).floor_().float()
    saturation = (spread / value.clamp(min=1)).double()
    saturation = (saturation * 255.0).floor_().float()
    return hue * (spread > 0), saturation, value


def _from_hsv(
    hue: Tensor, saturation: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Red, green and blue of hue, saturation and value."""
    sixths = hue * 6.0 / 255.0
    saturation = saturation / 255.0
    planes = []
    # A colour is lowest for two sixths of the circle, and falls and rises
    # within a sixth on both sides.
    for start in (5.0, 3.0, 1.0):
        place = _cyclic(sixths + start, 6.0)
        depth = torch.minimum(place, 4.0 - place).clamp_(0.0, 1.0)
        plane = value * (1.0 - saturation * depth)
        planes.append(plane.add_(0.5).floor_())
    return tuple(planes)


def _cyclic(values: Tensor, period: float) -> Tensor:
    """The remainder of a division, faster than by ``%``."""
    return values - period * (values / period).floor()


def shift_hue(images: Tensor, shifts: Tensor, channel_order: str) -> Tensor:
    """Turn the hue, stored in 0..255, by parts of the circle.

    Args:
        images (Tensor): Of three channels, or grey ones, which stay as they
            are.
        shifts (Tensor): In circles, of shape (B,).
        channel_order (str): 'rgb' or 'bgr'.

    Returns:
        Tensor: uint8, of the same shape.
    """
    if images.shape[1] == 1:
        return images
    planes = colour_planes(images.to(torch.float32), channel_order)
    hue, saturation, value = _to_hsv(*planes)
    steps = (shifts * 255).trunc()[:, None, None, None]
    planes = _from_hsv(_cyclic(hue + steps, 256.0), saturation, value)
    if channel_order == 'bgr':
        planes = planes[::-1]
    return torch.cat(planes, dim=1).to(torch.uint8)


def _warp(images: Tensor, coefficients: list[Tensor], fill: Tensor) -> Tensor:
    """Read each pixel at an affine function of its place.

    In whole numbers of 1/65536 pixel, as Pillow does: where a place is
    between two pixels, the result depends on its last bit.

    Args:
        images (Tensor): Of shape (B, C, H, W).
        coefficients (list[Tensor]): a, b, c, d, e, f, each of shape (B,) and
            float64: the pixel at (x, y) is read at
            (a x + b y + c, d x + e y + f), from the corner of the image.
        fill (Tensor): Value outside the images.
    """
    a, b, c, d, e, f = (
        (65536 * value + 0.5).floor().long()[:, None, None]
        for value in (
            *coefficients[:2],
            coefficients[2] + 0.5 * (coefficients[0] + coefficients[1]),
            *coefficients[3:5],
            coefficients[5] + 0.5 * (coefficients[3] + coefficients[4]),
        )
    )
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device)
    y = torch.arange(height, device=images.device)[:, None]
    columns = (a * x + b * y + c) >> 16
    rows = (d * x + e * y + f) >> 16
    return gather_or_fill(images, rows, columns, fill)


def shear_x(images: Tensor, slopes: Tensor, fill: Tensor) -> Tensor:
    """Read the pixel at (x, y) at (x + slope y, y)."""
    slopes = slopes.double()
    one, zero = torch.ones_like(slopes), torch.zeros_like(slopes)
    return _warp(images, [one, slopes, zero, zero, one, zero], fill)


def shear_y(images: Tensor, slopes: Tensor, fill: Tensor) -> Tensor:
    """Read the pixel at (x, y) at (x, y + slope x)."""
    slopes = slopes.double()
    one, zero = torch.ones_like(slopes), torch.zeros_like(slopes)
    return _warp(images, [one, zero, zero, slopes, one, zero], fill)


def translate_x(images: Tensor, offsets: Tensor, fill: Tensor) -> Tensor:
    """Move images to the right by offsets, of which whole pixels count."""
    offsets = offsets.double().trunc()
    one, zero = torch.ones_like(offsets), torch.zeros_like(offsets)
    return _warp(images, [one, zero, -offsets, zero, one, zero], fill)


def translate_y(images: Tensor, offsets: Tensor, fill: Tensor) -> Tensor:
    """Move images down by offsets, of which whole pixels count."""
    offsets = offsets.double().trunc()
    one, zero = torch.ones_like(offsets), torch.zeros_like(offsets)
    return _warp(images, [one, zero, zero, zero, one, -offsets], fill)


def rotate(images: Tensor, degrees: Tensor, fill: Tensor) -> Tensor:
    """Turn images about their centres, against the clock."""
    height, width = images.shape[2:]
    angles = torch.deg2rad(degrees.double())
    cosine, sine = angles.cos(), angles.sin()
    x, y = width / 2, height / 2
    coefficients = [
        cosine,
        -sine,
        x - cosine * x + sine * y,
        sine,
        cosine,
        y - sine * x - cosine * y,
    ]
    return _warp(images, coefficients, fill)
