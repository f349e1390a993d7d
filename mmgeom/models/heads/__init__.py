# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Heads for classification and regression."""

from .bcl_head import BCLHead
from .contrastive_head import ContrastiveHead
from .cosine_head import CosineHead
from .etf_head import ETFHead
from .feat_recon_head import FeatReconHead
from .fixed_geometry_head import FixedGeometryHead
from .linear_head import LinearHead
from .multi_center_head import MultiCenterHead
from .prior_head import PriorHead
from .regressor_head import RegressorHead
from .rotated_etf_head import RotatedETFHead
from .srl_head import SRLHead
from .supcon_head import SupConHead

__all__ = [
    'BCLHead',
    'ContrastiveHead',
    'CosineHead',
    'ETFHead',
    'FeatReconHead',
    'FixedGeometryHead',
    'LinearHead',
    'MultiCenterHead',
    'PriorHead',
    'RegressorHead',
    'RotatedETFHead',
    'SRLHead',
    'SupConHead',
]
