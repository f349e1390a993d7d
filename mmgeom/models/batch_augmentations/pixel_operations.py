# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Operations on pixel values that do not depend on an image library.

Each takes uint8 images of shape (B, C, H, W) and, where it needs one, a
number for each image, of shape (B,).
"""

import torch
from torch import Tensor


def per_image(values: Tensor) -> Tensor:
    """Shape numbers of images so that they broadcast over the pixels."""
    return values[:, None, None, None]


def blend(images: Tensor, others: Tensor | int, factors: Tensor) -> Tensor:
    r"""Move images away from others, or towards them.

    .. math::
        o + f \, (x - o)

    Args:
        images (Tensor): Images x.
        others (Tensor | int): Images o that broadcast, or one value.
        factors (Tensor): Factors f, of shape (B,).

    Returns:
        Tensor: float32, within [0, 255].
    """
    mixed = images.to(torch.float32)
    mixed = mixed.sub_(others).mul_(per_image(factors.to(torch.float32)))
    return mixed.add_(others).clamp_(0, 255)


def adjust_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Multiply pixels by factors; zero gives black, one the same image."""
    return blend(images, 0, factors).to(torch.uint8)


def invert(images: Tensor) -> Tensor:
    """Replace each value v by 255 - v."""
    return 255 - images


def solarize(images: Tensor, thresholds: Tensor) -> Tensor:
    """Invert the values that are at least a threshold."""
    below = images < per_image(thresholds)
    return torch.where(below, images, 255 - images)


def solarize_add(
    images: Tensor, summands: Tensor, threshold: float = 128
) -> Tensor:
    """Add a number to the values that are below a threshold."""
    added = images + per_image(summands).to(torch.float32)
    added = added.clamp_(0, 255).to(torch.uint8)
    return torch.where(images < threshold, added, images)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the given number of upper bits, in 0..8, of each value."""
    mask = 256 - torch.pow(2, 8 - bits.long())
    return images & per_image(mask).to(torch.uint8)


def _look_up(images: Tensor, tables: Tensor) -> Tensor:
    """Replace values by those of tables of shape (B, C, 256)."""
    places = images.flatten(2).long()
    return tables.to(torch.uint8).gather(2, places).view_as(images)


def auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel so that it begins at 0 and ends at 255.

    A channel of one value stays as it is.
    """
    # In double precision, and by the same steps as the host: what is
    # truncated below depends on the last bit.
    low = images.amin((2, 3)).double()[..., None]
    high = images.amax((2, 3)).double()[..., None]
    values = torch.arange(256, device=images.device, dtype=torch.float64)
    # A number over a tensor would be its product with the reciprocal.
    scale = torch.full_like(low, 255.0) / (high - low).clamp(min=1)
    tables = (values * scale + -low * scale).clamp(0, 255)
    return _look_up(images, torch.where(high > low, tables, values))


def _histograms(images: Tensor) -> Tensor:
    """Count the values of each channel, (B, C, 256)."""
    batch_size, channels = images.shape[:2]
    size = batch_size * channels * 256
    starts = torch.arange(0, size, 256, device=images.device)
    bins = images.flatten(2).long()
    bins = bins + starts.view(batch_size, channels, 1)
    counts = starts.new_zeros(size)
    counts.scatter_add_(
        0, bins.flatten(), counts.new_ones(()).expand_as(bins.flatten())
    )
    return counts.view(batch_size, channels, 256)


def equalize(images: Tensor) -> Tensor:
    """Spread the values of each channel evenly over 0..255.

    Let c(v) be the number of pixels below v, and m the largest value. With
    the step s = c(m) // 255 the value v becomes (c(v) + s // 2) // s, at
    most 255. A channel whose step is zero stays as it is.
    """
    counts = _histograms(images)
    below = counts.cumsum(2) - counts
    largest = images.amax((2, 3)).long()[..., None]
    step = below.gather(2, largest) // 255
    tables = (below + step // 2) // step.clamp(min=1)
    values = torch.arange(256, device=images.device)
    tables = torch.where(step > 0, tables.clamp(max=255), values)
    return _look_up(images, tables)


def box_sums(padded: Tensor) -> Tensor:
    """Sum over windows of 3x3 pixels; each side loses one pixel."""
    rows = padded[..., :-2, :] + padded[..., 1:-1, :] + padded[..., 2:, :]
    return rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]


def colour_planes(
    images: Tensor, channel_order: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Red, green and blue of images, each of shape (B, 1, H, W).

    Args:
        images (Tensor): Of three channels.
        channel_order (str): 'rgb' or 'bgr'.

    Returns:
        tuple[Tensor, Tensor, Tensor]: Views.

    Raises:
        ValueError: When there are not three channels.
    """
    if images.shape[1] != 3:
        raise ValueError(
            'images must have 3 channels, or 1 where they are grey, got '
            f'{images.shape[1]}.'
        )
    planes = images.split(1, dim=1)
    return planes if channel_order == 'rgb' else planes[::-1]
