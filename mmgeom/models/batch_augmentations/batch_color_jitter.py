# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random brightness, contrast, saturation and hue of a batch."""

from collections.abc import Sequence
from functools import partial
from numbers import Number
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.datasets.transforms.pillow_images import check_channel_order
from mmgeom.registry import MODELS

from . import pillow_operations as pillow
from .arguments import check_probability
from .batch_augmentation import BatchAugmentation, uniform
from .choice import change_chosen
from .pixel_operations import adjust_brightness


class ColorJitterParameters(NamedTuple):
    """How colours are changed.

    Args:
        order (Tensor): Changes in the order in which they are made, int64 of
            shape (B, E): 0 is brightness, 1 contrast, 2 saturation, 3 hue.
            Only the E changes that are switched on are listed.
        factors (Tensor): Factors of brightness, contrast and saturation, and
            shifts of the hue in circles, float32 of shape (B, 4).
        applied (Tensor): Which images are changed, boolean of shape (B,).
    """

    order: Tensor
    factors: Tensor
    applied: Tensor


@MODELS.register_module()
class BatchColorJitter(BatchAugmentation):
    """Change brightness, contrast, saturation and hue of each image.

    :class:`mmgeom.datasets.ColorJitter` for batches, with the same pixels as
    Pillow. Each image has numbers, and an order of the changes, of its own.
    Grey images, of one channel, have no saturation and no hue, so these
    leave them as they are.

    Args:
        brightness (float | Sequence[float]): Factors are uniform on
            ``[max(0, 1 - brightness), 1 + brightness]``, or on the two
            numbers given. Defaults to 0.0: no change.
        contrast (float | Sequence[float]): Likewise. Defaults to 0.0.
        saturation (float | Sequence[float]): Likewise. Defaults to 0.0.
        hue (float | Sequence[float]): Shifts, in circles, are uniform on
            ``[-hue, hue]``, or on the two numbers given, within
            ``[-0.5, 0.5]``. Defaults to 0.0.
        prob (float): Probability that an image is changed at all, in
            ``[0, 1]``. Defaults to 1.0.
        channel_order (str): 'bgr', as images are loaded from files, or
            'rgb', as those of CIFAR. Defaults to 'bgr'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0.0,
        contrast: float | Sequence[float] = 0.0,
        saturation: float | Sequence[float] = 0.0,
        hue: float | Sequence[float] = 0.0,
        prob: float = 1.0,
        channel_order: str = 'bgr',
    ) -> None:
        super().__init__()
        check_channel_order(channel_order)
        self.prob = check_probability(prob)
        bound = (0.0, float('inf'))
        ranges = [
            _jitter_range(brightness, 'brightness', 1.0, bound),
            _jitter_range(contrast, 'contrast', 1.0, bound),
            _jitter_range(saturation, 'saturation', 1.0, bound),
            _jitter_range(hue, 'hue', 0.0, (-0.5, 0.5)),
        ]
        neutral = [1.0, 1.0, 1.0, 0.0]
        enabled = [
            index
            for index, (pair, value) in enumerate(zip(ranges, neutral))
            if pair != (value, value)
        ]
        operations = [
            adjust_brightness,
            partial(pillow.adjust_contrast, channel_order=channel_order),
            partial(pillow.adjust_saturation, channel_order=channel_order),
            partial(pillow.shift_hue, channel_order=channel_order),
        ]
        self.operations = {index: operations[index] for index in enabled}
        self.register_buffer('ranges', torch.tensor(ranges), persistent=False)
        self.register_buffer(
            'enabled',
            torch.tensor(enabled, dtype=torch.int64),
            persistent=False,
        )

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> ColorJitterParameters:
        """Draw changes; see :class:`ColorJitterParameters`."""
        numbers = uniform(9, batch_size, generator=generator)
        ranges = self.ranges.to(numbers.device)
        low, high = ranges[:, :1], ranges[:, 1:]
        factors = low + (high - low) * numbers[:4]
        enabled = self.enabled.to(numbers.device)
        # The order of random numbers is a random order.
        order = numbers[4 : 4 + len(enabled)].argsort(0)
        return ColorJitterParameters(
            enabled[order.t()], factors.t(), numbers[8] < self.prob
        )

    def augment(
        self, images: Tensor, parameters: ColorJitterParameters
    ) -> Tensor:
        """Make the changes given."""
        order, factors, applied = parameters
        images = images.clone()
        for position in order.unbind(1):
            for index, operation in self.operations.items():
                images = change_chosen(
                    images,
                    applied & (position == index),
                    operation,
                    factors[:, index],
                )
        return images


def _jitter_range(
    value: float | Sequence[float],
    name: str,
    centre: float,
    bound: tuple[float, float],
) -> tuple[float, float]:
    """Smallest and largest factor."""
    if isinstance(value, Number):
        pair = max(bound[0], centre - value), min(bound[1], centre + value)
    else:
        pair = tuple(value)
    if len(pair) != 2 or not bound[0] <= pair[0] <= pair[1] <= bound[1]:
        raise ValueError(
            f'{name} must be a number that is not negative, or two numbers '
            f'within {list(bound)}, the smaller first, got {value!r}.'
        )
    return float(pair[0]), float(pair[1])
