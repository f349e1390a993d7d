# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random flips of the images of a batch."""

from collections.abc import Sequence
from numbers import Number
from typing import NamedTuple

import torch
from torch import Tensor

from mmgeom.registry import MODELS

from .arguments import check_probability
from .batch_augmentation import BatchAugmentation, uniform

# Dimensions of (B, C, H, W) that are reversed.
_DIRECTIONS = {'horizontal': (3,), 'vertical': (2,), 'diagonal': (2, 3)}


class FlipParameters(NamedTuple):
    """How images are flipped.

    Args:
        direction (Tensor): Positions in the list of directions, int64 of
            shape (B,); its length means no flip.
    """

    direction: Tensor


@MODELS.register_module()
class BatchRandomFlip(BatchAugmentation):
    """Flip each image of a batch, or not.

    The host's ``RandomFlip`` for batches.

    Args:
        prob (float | Sequence[float]): Probability of a flip, shared evenly
            by the directions, or one for each direction.
        direction (str | Sequence[str]): 'horizontal', 'vertical' or
            'diagonal' (both at once), or several of them. Defaults to
            'horizontal'.

    Raises:
        ValueError: When a probability or a direction is none.
    """

    def __init__(
        self,
        prob: float | Sequence[float],
        direction: str | Sequence[str] = 'horizontal',
    ) -> None:
        super().__init__()
        names = [direction] if isinstance(direction, str) else list(direction)
        if not names or not set(names) <= set(_DIRECTIONS):
            raise ValueError(
                f'direction must be one or more of {tuple(_DIRECTIONS)}, got '
                f'{direction!r}.'
            )
        if isinstance(prob, Number):
            probs = [check_probability(prob) / len(names)] * len(names)
        else:
            probs = [check_probability(value) for value in prob]
        if len(probs) != len(names) or sum(probs) > 1 + 1e-6:
            raise ValueError(
                'prob must be one number, or one for each direction that '
                f'add up to at most 1, got {prob!r} for {names}.'
            )
        self.direction = names
        bounds = torch.tensor(probs).cumsum(0)
        self.register_buffer('bounds', bounds, persistent=False)

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> FlipParameters:
        """Draw directions; see :class:`FlipParameters`."""
        numbers = uniform(batch_size, generator=generator)
        bounds = self.bounds.to(numbers.device)
        return FlipParameters(torch.bucketize(numbers, bounds, right=True))

    def augment(self, images: Tensor, parameters: FlipParameters) -> Tensor:
        """Flip in the directions given."""
        # Copying images of a list is faster than changing some in place, and
        # no device has to tell their number.
        flipped = [images.flip(_DIRECTIONS[name]) for name in self.direction]
        samples = torch.arange(len(images), device=images.device)
        rows = parameters.direction * len(images) + samples
        return torch.cat([*flipped, images]).index_select(0, rows)
