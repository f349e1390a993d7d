# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Some images of a batch become grey."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.datasets.transforms.pillow_images import CHANNEL_ORDERS
from mmgeom.registry import MODELS

from .arguments import check_probability
from .batch_augmentation import BatchAugmentation, uniform
from .choice import change_chosen


class GrayscaleParameters(NamedTuple):
    """Which images become grey.

    Args:
        applied (Tensor): Boolean, of shape (B,).
    """

    applied: Tensor


@MODELS.register_module()
class BatchGrayscale(BatchAugmentation):
    """Replace all channels by their weighted mean in some images of a batch.

    The host's ``RandomGrayscale`` for batches. Means are rounded down, as
    there. Images of one channel stay as they are.

    Args:
        prob (float): Probability that an image becomes grey, in [0, 1].
            Defaults to 0.1.
        keep_channels (bool): Must be true, since all images of a batch have
            as many channels. Defaults to True.
        channel_weights (Sequence[float]): Weights of the channels, in their
            order, not negative. They are divided by their sum. Defaults to
            (1.0, 1.0, 1.0).
        color_format (str): 'bgr' or 'rgb', whose weights are in this order.
            The host's 'hsv', which converts images, is refused. Defaults to
            'bgr'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        prob: float = 0.1,
        keep_channels: bool = True,
        channel_weights: Sequence[float] = (1.0, 1.0, 1.0),
        color_format: str = 'bgr',
    ) -> None:
        super().__init__()
        if not keep_channels:
            raise ValueError(
                'keep_channels must be True, got False: all images of a '
                'batch have as many channels.'
            )
        if color_format not in CHANNEL_ORDERS:
            raise ValueError(
                f"color_format must be 'bgr' or 'rgb', got {color_format!r}."
            )
        self.prob = check_probability(prob)
        weights = [float(weight) for weight in channel_weights]
        if not weights or min(weights) < 0 or sum(weights) == 0:
            raise ValueError(
                'channel_weights must be numbers that are not negative, and '
                f'not all zero, got {channel_weights!r}.'
            )
        self.channel_weights = [weight / sum(weights) for weight in weights]

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> GrayscaleParameters:
        """Choose images; see :class:`GrayscaleParameters`."""
        numbers = uniform(batch_size, generator=generator)
        return GrayscaleParameters(numbers < self.prob)

    def augment(
        self, images: Tensor, parameters: GrayscaleParameters
    ) -> Tensor:
        """Make the images given grey."""
        channels = images.shape[1]
        if channels == 1:
            return images.clone()
        if channels != len(self.channel_weights):
            raise ValueError(
                f'channel_weights has {len(self.channel_weights)} weights and '
                f'the images have {channels} channels: give one for each.'
            )
        return change_chosen(images.clone(), parameters.applied, self._grey)

    def _grey(self, images: Tensor) -> Tensor:
        # In double precision: a mean is rounded down, and that of equal
        # values depends on the last bit.
        mean = sum(
            plane.double() * weight
            for plane, weight in zip(
                images.split(1, dim=1), self.channel_weights
            )
        )
        return mean.to(torch.uint8).expand_as(images)
