# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random parts of the images of a batch, scaled to one size."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.registry import MODELS

from .arguments import size_pair
from .batch_augmentation import (
    BatchAugmentation,
    uniform,
    uniform_integers,
)
from .sampling import gather_pixels, interpolate_pixels

_INTERPOLATIONS = ('nearest', 'bilinear')


class ResizedCropParameters(NamedTuple):
    """Which parts are taken, int64 of shape (B,).

    Args:
        top (Tensor): First rows.
        left (Tensor): First columns.
        height (Tensor): Numbers of rows.
        width (Tensor): Numbers of columns.
    """

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


@MODELS.register_module()
class BatchRandomResizedCrop(BatchAugmentation):
    r"""Scale a random part of each image of a batch to one size.

    The host's ``RandomResizedCrop`` for batches. Of an image of area A, the
    part has the height and width

    .. math::
        \sqrt{s A / r}, \quad \sqrt{s A r}, \qquad
        s \sim U(s_0, s_1), \quad \log r \sim U(\log r_0, \log r_1)

    rounded to whole pixels. All attempts are drawn at once, and the first
    that is not larger than the image is taken; where none is, the largest
    part in the middle whose width over height is within the range.

    Parts are scaled as by OpenCV, without smoothing: output pixel i is read
    at (i + 0.5) h / h' - 0.5, or at the border of the part where that is
    outside. OpenCV's weights have 11 bits, so that values may differ from
    its own by one.

    Args:
        scale (int | Sequence[int]): Height and width of the result in
            pixels, or one number for both.
        crop_ratio_range (Sequence[float]): Range of s. Defaults to
            (0.08, 1.0).
        aspect_ratio_range (Sequence[float]): Range of r. Defaults to
            (3 / 4, 4 / 3).
        max_attempts (int): Number of attempts. Defaults to 10.
        interpolation (str): 'bilinear' or 'nearest'. Defaults to 'bilinear'.
        backend (str): Must be 'cv2', whose pixels these are. Defaults to
            'cv2'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        scale: int | Sequence[int],
        crop_ratio_range: Sequence[float] = (0.08, 1.0),
        aspect_ratio_range: Sequence[float] = (3 / 4, 4 / 3),
        max_attempts: int = 10,
        interpolation: str = 'bilinear',
        backend: str = 'cv2',
    ) -> None:
        super().__init__()
        if backend != 'cv2':
            raise ValueError(
                f"backend must be 'cv2' for batches, got {backend!r}."
            )
        if interpolation not in _INTERPOLATIONS:
            raise ValueError(
                f'interpolation must be one of {_INTERPOLATIONS}, got '
                f'{interpolation!r}.'
            )
        if not isinstance(max_attempts, int) or max_attempts < 0:
            raise ValueError(
                'max_attempts must be an int that is not negative, got '
                f'{max_attempts!r}.'
            )
        self.scale = size_pair(scale, 'scale')
        self.crop_ratio_range = _range(crop_ratio_range, 'crop_ratio_range')
        self.aspect_ratio_range = _range(
            aspect_ratio_range, 'aspect_ratio_range'
        )
        self.max_attempts = max_attempts
        self.interpolation = interpolation

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> ResizedCropParameters:
        """Draw parts; see :class:`ResizedCropParameters`."""
        crop_height, crop_width = self._sample_sizes(
            batch_size, height, width, generator
        )
        # Where no attempt fits, the part is in the middle.
        fits = crop_height > 0
        middle = self._middle_size(height, width)
        crop_height = torch.where(fits, crop_height, middle[0])
        crop_width = torch.where(fits, crop_width, middle[1])
        numbers = uniform(2, batch_size, generator=generator)
        places = []
        for size, crop, row in zip(
            (height, width), (crop_height, crop_width), numbers
        ):
            place = uniform_integers(size - crop + 1, row)
            places.append(torch.where(fits, place, (size - crop) // 2))
        return ResizedCropParameters(*places, crop_height, crop_width)

    def _sample_sizes(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Heights and widths of the first attempt that fits, or zeros."""
        # One more, of size zero, which is never the first that fits.
        attempts = self.max_attempts + 1
        numbers = uniform(2, batch_size, attempts, generator=generator)
        low, high = self.crop_ratio_range
        area = (low + (high - low) * numbers[0]) * (height * width)
        low, high = (math.log(bound) for bound in self.aspect_ratio_range)
        ratio = torch.exp(low + (high - low) * numbers[1])
        heights = torch.sqrt(area / ratio).round().long()
        widths = torch.sqrt(area * ratio).round().long()
        fits = (heights > 0) & (heights <= height)
        fits &= (widths > 0) & (widths <= width)
        fits[:, -1] = False
        heights, widths = heights * fits, widths * fits
        order = torch.arange(attempts, 0, -1, device=fits.device)
        order = torch.where(fits, order, 0)
        first = order.argmax(1, keepdim=True)
        return heights.gather(1, first)[:, 0], widths.gather(1, first)[:, 0]

    def _middle_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the part that is taken when nothing fits."""
        low, high = self.aspect_ratio_range
        if width / height < low:
            return round(width / low), width
        if width / height > high:
            return height, round(height * high)
        return height, width

    def augment(
        self, images: Tensor, parameters: ResizedCropParameters
    ) -> Tensor:
        """Scale the parts given."""
        top, left, height, width = (
            values[:, None, None] for values in parameters
        )
        rows = torch.arange(self.scale[0], device=images.device)[:, None]
        columns = torch.arange(self.scale[1], device=images.device)
        if self.interpolation == 'nearest':
            rows = top + _nearest(rows, self.scale[0], height)
            columns = left + _nearest(columns, self.scale[1], width)
            return gather_pixels(images, rows, columns)
        y = (rows + 0.5) * height / self.scale[0] - 0.5
        x = (columns + 0.5) * width / self.scale[1] - 0.5
        y = top + torch.minimum(y.clamp(min=0), height - 1.0)
        x = left + torch.minimum(x.clamp(min=0), width - 1.0)
        values = images.to(torch.float32)
        values = interpolate_pixels(values, x, y, 'bilinear')
        return values.round_().clamp_(0, 255).to(torch.uint8)


def _nearest(places: Tensor, size: int, part: Tensor) -> Tensor:
    """Where pixels of a line of some size are read in a part of a line."""
    # By the same steps as OpenCV: what is rounded down depends on the last
    # bit. A number over a tensor would be its product with the reciprocal.
    ratio = torch.full_like(part, size, dtype=torch.float64) / part
    return (places * (torch.ones_like(ratio) / ratio)).long()


def _range(bounds: Sequence[float], name: str) -> tuple[float, float]:
    """Check a range of positive numbers."""
    pair = tuple(bounds)
    if len(pair) != 2 or not 0 < pair[0] <= pair[1]:
        raise ValueError(
            f'{name} must be two positive numbers, the smaller first, got '
            f'{bounds!r}.'
        )
    return pair
