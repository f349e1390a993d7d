# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Resize the images of a batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mmgeom.registry import MODELS


@MODELS.register_module()
class BatchResize(nn.Module):
    """Give all images of a batch another size, by bilinear interpolation.

    For views that differ in size; what all views share is better resized
    once, in the pipeline of the dataset. As the host's ``Resize``, it takes
    no mean over the pixels that shrinking leaves out; values differ from
    those of OpenCV by rounding, at most by 1 of 255.

    Args:
        scale (int | tuple[int, int]): Width and height in pixels, positive;
            one number for both.

    Raises:
        ValueError: When ``scale`` is something else.
    """

    def __init__(self, scale: int | tuple[int, int]) -> None:
        super().__init__()
        pair = (scale, scale) if isinstance(scale, int) else tuple(scale)
        if len(pair) != 2 or not all(
            isinstance(size, int) and size > 0 for size in pair
        ):
            raise ValueError(
                'scale of BatchResize must be width and height in pixels, or '
                f'one number for both, got {scale!r}.'
            )
        self.scale = pair

    def forward(self, images: Tensor, generator: Any = None) -> Tensor:
        """Resize.

        Args:
            images (Tensor): uint8, shape ``(B, C, H, W)``.
            generator (Any): Not used; other augmentations draw from it.
                Defaults to None.

        Returns:
            Tensor: uint8, shape ``(B, C, height, width)``.
        """
        width, height = self.scale
        if images.shape[2:] == (height, width):
            return images
        values = F.interpolate(
            images.float(), (height, width), mode='bilinear'
        )
        # Halves are rounded up, as OpenCV does.
        return values.add_(0.5).floor_().clamp_(0, 255).to(torch.uint8)
