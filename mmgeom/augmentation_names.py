# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random transforms of one image and what does the same to a batch."""

AUGMENTATIONS = dict(
    RandomCrop='BatchRandomCrop',
    RandomFlip='BatchRandomFlip',
    Cutout='BatchCutout',
    RandomResizedCrop='BatchRandomResizedCrop',
    ColorJitter='BatchColorJitter',
    RandomGrayscale='BatchGrayscale',
    CIFARAutoAugment='BatchAutoAugment',
    RandAugment='BatchRandAugment',
)
#: What a view may hold besides: it is the same each time, but only there.
IN_VIEWS = dict(AUGMENTATIONS, Resize='BatchResize')
