# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Transforms."""

from .load_image import LoadImage

__all__ = ['LoadImage']
