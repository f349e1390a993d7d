# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Augmentations of whole batches, done where the batch is."""

from .batch_augmentation import BatchAugmentation
from .batch_auto_augment import BatchAutoAugment
from .batch_color_jitter import BatchColorJitter
from .batch_cutout import BatchCutout
from .batch_grayscale import BatchGrayscale
from .batch_rand_augment import BatchRandAugment
from .batch_random_crop import BatchRandomCrop
from .batch_random_flip import BatchRandomFlip
from .batch_random_resized_crop import BatchRandomResizedCrop
from .batch_resize import BatchResize

__all__ = [
    'BatchAugmentation',
    'BatchAutoAugment',
    'BatchColorJitter',
    'BatchCutout',
    'BatchGrayscale',
    'BatchRandAugment',
    'BatchRandomCrop',
    'BatchRandomFlip',
    'BatchRandomResizedCrop',
    'BatchResize',
]
