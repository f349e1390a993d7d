# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Transforms."""

from .cifar_auto_augment import CIFARAutoAugment
from .color_jitter import ColorJitter
from .load_image import LoadImage

__all__ = ['CIFARAutoAugment', 'ColorJitter', 'LoadImage']
