# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A rectangle of each image of a batch is filled."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.registry import MODELS

from .arguments import check_probability, fill_for, fill_values, size_pair
from .batch_augmentation import BatchAugmentation, uniform


class CutoutParameters(NamedTuple):
    """Where rectangles begin.

    Args:
        top (Tensor): First rows, int64 of shape (B,).
        left (Tensor): First columns.
        applied (Tensor): Which images have a rectangle, boolean.
    """

    top: Tensor
    left: Tensor
    applied: Tensor


@MODELS.register_module()
class BatchCutout(BatchAugmentation):
    """Fill a rectangle of each image of a batch, at a place of its own.

    The host's ``Cutout`` for batches. As there, centres are uniform between
    1 and the height, or width, of the image. A rectangle that begins before
    the image is moved inside, and one that ends behind it is cut. Source:
    *Improved Regularization of Convolutional Neural Networks with Cutout*
    (arXiv:1708.04552), where centres are any pixels, and both ends are cut.

    Args:
        shape (int | Sequence[int]): Height and width of the rectangle in
            pixels, or one number for both.
        pad_val (float | Sequence[float]): Its value, for all channels or one
            for each, in 0..255. Defaults to 128.
        prob (float): Probability that an image has a rectangle, in [0, 1].
            Defaults to 0.5.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        pad_val: float | Sequence[float] = 128,
        prob: float = 0.5,
    ) -> None:
        super().__init__()
        self.shape = size_pair(shape, 'shape')
        self.prob = check_probability(prob)
        self.register_buffer('fill', fill_values(pad_val), persistent=False)

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> CutoutParameters:
        """Draw places; see :class:`CutoutParameters`."""
        numbers = uniform(3, batch_size, generator=generator)
        top, left = (
            (size - (size - 1) * number - side / 2).clamp(min=0).long()
            for number, size, side in zip(
                numbers[:2], (height, width), self.shape
            )
        )
        return CutoutParameters(top, left, numbers[2] < self.prob)

    def augment(self, images: Tensor, parameters: CutoutParameters) -> Tensor:
        """Fill the rectangles given."""
        height, width = images.shape[2:]
        inside = parameters.applied[:, None, None, None]
        rows = torch.arange(height, device=images.device)[:, None]
        rows = rows - parameters.top[:, None, None, None]
        inside = inside & (rows >= 0) & (rows < self.shape[0])
        columns = torch.arange(width, device=images.device)
        columns = columns - parameters.left[:, None, None, None]
        inside = inside & ((columns >= 0) & (columns < self.shape[1]))
        # A sum of products, which is faster than a choice.
        return images * ~inside + fill_for(self.fill, images) * inside
