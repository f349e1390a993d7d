# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Crops of a batch at random places."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.registry import MODELS

from .arguments import fill_for, fill_values, size_pair
from .batch_augmentation import (
    BatchAugmentation,
    uniform,
    uniform_integers,
)
from .sampling import border_indices

_PADDING_MODES = ('constant', 'edge', 'reflect', 'symmetric')


class CropParameters(NamedTuple):
    """Where crops begin.

    Args:
        top (Tensor): First rows, int64 of shape (B,), in the padded images.
        left (Tensor): First columns.
    """

    top: Tensor
    left: Tensor


@MODELS.register_module()
class BatchRandomCrop(BatchAugmentation):
    """Crop each image of a batch at a place of its own.

    The host's ``RandomCrop`` for batches. As there, places are uniform over
    all those where the crop is inside the padded image, and a side that is
    shorter than the crop is kept whole.

    Args:
        crop_size (int | Sequence[int]): Height and width of the crop in
            pixels, or one number for both.
        padding (int | Sequence[int], optional): Pixels to add on all sides,
            or (left and right, top and bottom), or (left, top, right,
            bottom). Defaults to None: no padding.
        pad_if_needed (bool): Whether to pad both ends of a side that is
            shorter than the crop, after ``padding``. Defaults to False.
        pad_val (float | Sequence[float]): Value of padded pixels, for all
            channels or one for each, in 0..255. (The host fills the first
            channel only when it is one number.) Defaults to 0.
        padding_mode (str): What ``pad_if_needed`` fills with: 'constant',
            'edge', 'reflect' or 'symmetric'; as in the host, ``padding`` is
            always constant. Defaults to 'constant'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        crop_size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        pad_val: float | Sequence[float] = 0,
        padding_mode: str = 'constant',
    ) -> None:
        super().__init__()
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f'padding_mode must be one of {_PADDING_MODES}, got '
                f'{padding_mode!r}.'
            )
        self.crop_size = size_pair(crop_size, 'crop_size')
        self.padding = _four_sides(padding)
        self.pad_if_needed = pad_if_needed
        self.padding_mode = padding_mode
        self.register_buffer('fill', fill_values(pad_val), persistent=False)

    def _extra(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns that pad_if_needed adds at both ends."""
        if not self.pad_if_needed:
            return 0, 0
        left, top, right, bottom = self.padding
        rows = self.crop_size[0] - (height + top + bottom)
        columns = self.crop_size[1] - (width + left + right)
        return math.ceil(max(0, rows) / 2), math.ceil(max(0, columns) / 2)

    def _padded_size(self, height: int, width: int) -> tuple[int, int]:
        left, top, right, bottom = self.padding
        extra_rows, extra_columns = self._extra(height, width)
        return (
            height + top + bottom + 2 * extra_rows,
            width + left + right + 2 * extra_columns,
        )

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> CropParameters:
        """Draw places; see :class:`CropParameters`."""
        places = (
            max(0, padded - crop) + 1
            for padded, crop in zip(
                self._padded_size(height, width), self.crop_size
            )
        )
        numbers = uniform(2, batch_size, generator=generator)
        top, left = (
            uniform_integers(count, row) for count, row in zip(places, numbers)
        )
        return CropParameters(top, left)

    def augment(self, images: Tensor, parameters: CropParameters) -> Tensor:
        """Crop at the places given."""
        images = self._pad(images)
        height, width = (
            min(side, crop)
            for side, crop in zip(images.shape[2:], self.crop_size)
        )
        return _windows(images, parameters, height, width)

    def _pad(self, images: Tensor) -> Tensor:
        """Add both paddings."""
        rows, columns = self._extra(*images.shape[2:])
        extra = columns, rows, columns, rows
        if self.padding_mode == 'constant':
            sides = tuple(map(sum, zip(self.padding, extra)))
            return _surround(images, sides, self.fill)
        images = _surround(images, self.padding, self.fill)
        height, width = images.shape[2:]
        mode, device = self.padding_mode, images.device
        rows = border_indices(height, rows, rows, mode, device)
        columns = border_indices(width, columns, columns, mode, device)
        return images[:, :, rows][..., columns]


def _windows(
    images: Tensor, places: CropParameters, height: int, width: int
) -> Tensor:
    """A window of each image, at places where it is inside."""
    number, channels, *sides = images.shape
    if not number:
        return images[..., :height, :width]
    of_image, of_channel, of_row, of_column = images.stride()
    begins = torch.arange(number, device=images.device) * of_image
    begins += places.top * of_row + places.left * of_column
    last = (number - 1) * of_image
    last += (sides[0] - height) * of_row + (sides[1] - width) * of_column
    # A view with a window at each place in memory. Windows are copied row by
    # row, whereas an index for each dimension is looked up for each pixel.
    windows = images.as_strided(
        (last + 1, channels, height, width),
        (1, of_channel, of_row, of_column),
    )
    return windows.index_select(0, begins)


def _surround(
    images: Tensor, sides: tuple[int, int, int, int], fill: Tensor
) -> Tensor:
    """Add pixels of one value to the left, top, right and bottom."""
    if not any(sides):
        return images
    left, top, right, bottom = sides
    batch_size, channels, height, width = images.shape
    shape = (height + top + bottom, width + left + right)
    padded = images.new_empty(batch_size, channels, *shape)
    padded.copy_(fill_for(fill, images).expand(channels, *shape))
    padded[..., top : top + height, left : left + width] = images
    return padded


def _four_sides(
    padding: int | Sequence[int] | None,
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a padding."""
    sides = [padding or 0] if isinstance(padding, int | None) else padding
    sides = tuple(sides)
    if len(sides) not in (1, 2, 4) or not all(
        isinstance(side, int) and side >= 0 for side in sides
    ):
        raise ValueError(
            'padding must be an int, or 2 or 4 of them, that are not '
            f'negative, got {padding!r}.'
        )
    return sides * (4 // len(sides))
