# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Classification heads."""

from .cosine_head import CosineHead
from .linear_head import LinearHead
from .prior_head import PriorHead

__all__ = ['CosineHead', 'LinearHead', 'PriorHead']
