# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Regression models."""

from .image_regressor import ImageRegressor

__all__ = ['ImageRegressor']
