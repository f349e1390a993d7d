# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Classification heads."""

from .cosine_head import CosineHead
from .etf_head import ETFHead
from .fixed_geometry_head import FixedGeometryHead
from .linear_head import LinearHead
from .multi_center_head import MultiCenterHead
from .prior_head import PriorHead
from .rotated_etf_head import RotatedETFHead

__all__ = [
    'CosineHead',
    'ETFHead',
    'FixedGeometryHead',
    'LinearHead',
    'MultiCenterHead',
    'PriorHead',
    'RotatedETFHead',
]
