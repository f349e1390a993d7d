# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""AutoAugment for batches."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torchvision.transforms import AutoAugment, AutoAugmentPolicy

from mmgeom.datasets.transforms.pillow_images import check_channel_order
from mmgeom.registry import MODELS

from . import pillow_operations as pillow
from . import pixel_operations as pixel
from .arguments import fill_values
from .batch_augmentation import uniform, uniform_integers
from .operation_augmentation import (
    OperationAugmentation,
    OperationParameters,
)

# Largest strength at level 9 of 0..9, where it is proportional to the level
# and has a random sign. Translations are in parts of the image's side.
_SIGNED = {
    'ShearX': 0.3,
    'ShearY': 0.3,
    'TranslateX': 150 / 331,
    'TranslateY': 150 / 331,
    'Rotate': 30.0,
    'Brightness': 0.9,
    'Color': 0.9,
    'Contrast': 0.9,
    'Sharpness': 0.9,
}
_NAMES = (
    *_SIGNED,
    'Posterize',
    'Solarize',
    'AutoContrast',
    'Equalize',
    'Invert',
)
_LEVELS = 10


@MODELS.register_module()
class BatchAutoAugment(OperationAugmentation):
    """Do one of 25 pairs of operations to each image of a batch.

    :class:`mmgeom.datasets.CIFARAutoAugment` for batches, with the same
    pixels as Pillow: the policy, the probabilities and the strengths of the
    operations are those of torchvision. Source: *AutoAugment: Learning
    Augmentation Policies from Data* (CVPR 2019), Tables 7 to 9.

    Args:
        fill (int): Value of pixels that rotation, shear and translation
            leave open, in 0..255. Defaults to 128, grey.
        channel_order (str): 'bgr', as images are loaded from files, or
            'rgb', as those of CIFAR. Defaults to 'bgr'.
        policy (str): Data on which the pairs were learned: 'cifar10',
            'imagenet' or 'svhn'. Defaults to 'cifar10'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        fill: int = 128,
        channel_order: str = 'bgr',
        policy: str = 'cifar10',
    ) -> None:
        super().__init__()
        if not isinstance(fill, int) or not 0 <= fill <= 255:
            raise ValueError(f'fill must be an int in 0..255, got {fill!r}.')
        known = [member.value for member in AutoAugmentPolicy]
        if policy not in known:
            raise ValueError(f'policy must be one of {known}, got {policy!r}.')
        check_channel_order(channel_order)
        self.channel_order = channel_order
        self.policy = policy
        pairs = AutoAugment(AutoAugmentPolicy(policy)).policies
        buffers = dict(
            pairs=torch.tensor(
                [[_NAMES.index(o[0]) for o in p] for p in pairs]
            ),
            probs=torch.tensor([[o[1] for o in p] for p in pairs]),
            levels=torch.tensor([[o[2] or 0 for o in p] for p in pairs]),
        )
        for name, values in buffers.items():
            self.register_buffer(name, values, persistent=False)
        self.register_buffer('fill', fill_values(fill), persistent=False)

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> OperationParameters:
        """Draw pairs; see :class:`OperationParameters`."""
        device = generator.device
        numbers = uniform(5, batch_size, generator=generator)
        chosen = uniform_integers(len(self.pairs), numbers[0])
        operations = self.pairs.to(device)[chosen]
        applied = numbers[1:3].t() <= self.probs.to(device)[chosen]
        table = _magnitude_table(height, width, device)
        levels = self.levels.to(device)[chosen]
        magnitudes = table[operations, levels]
        negative = (operations < len(_SIGNED)) & (numbers[3:].t() < 0.5)
        magnitudes = torch.where(negative, -magnitudes, magnitudes)
        return OperationParameters(operations, magnitudes, applied)

    def operations_for(
        self, images: Tensor
    ) -> list[Callable[[Tensor, Tensor], Tensor]]:
        """List the operations, in the order of their numbers."""
        fill = self.fill.to(images.device)
        order = self.channel_order
        saturation = partial(pillow.adjust_saturation, channel_order=order)
        contrast = partial(pillow.adjust_contrast, channel_order=order)
        operations = {
            'ShearX': partial(pillow.shear_x, fill=fill),
            'ShearY': partial(pillow.shear_y, fill=fill),
            'TranslateX': partial(pillow.translate_x, fill=fill),
            'TranslateY': partial(pillow.translate_y, fill=fill),
            'Rotate': partial(pillow.rotate, fill=fill),
            'Brightness': lambda x, m: pixel.adjust_brightness(x, 1 + m),
            'Color': lambda x, m: saturation(x, 1 + m),
            'Contrast': lambda x, m: contrast(x, 1 + m),
            'Sharpness': lambda x, m: pillow.adjust_sharpness(x, 1 + m),
            'Posterize': pixel.posterize,
            'Solarize': pixel.solarize,
            'AutoContrast': lambda x, _: pixel.auto_contrast(x),
            'Equalize': lambda x, _: pixel.equalize(x),
            'Invert': lambda x, _: pixel.invert(x),
        }
        return [operations[name] for name in _NAMES]


def _magnitude_table(height: int, width: int, device: torch.device) -> Tensor:
    """Strengths of all operations (rows) at all levels (columns)."""
    sides = dict(TranslateX=width, TranslateY=height)
    rows = [
        torch.linspace(0, top * sides.get(name, 1), _LEVELS, device=device)
        for name, top in _SIGNED.items()
    ]
    levels = torch.arange(_LEVELS, device=device)
    rows.append(8 - (levels / ((_LEVELS - 1) / 4)).round())
    rows.append(torch.linspace(255, 0, _LEVELS, device=device))
    # AutoContrast, Equalize and Invert have no strength.
    rows.extend([torch.zeros(_LEVELS, device=device)] * 3)
    return torch.stack(rows)
