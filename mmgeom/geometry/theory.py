# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""All closed forms in one place: what features converge to, and when."""

from .theory_collapse import (
    cos_alpha,
    fixed_frame_norm,
    gradient_bound,
    learnable_frame_optimum,
    nearest_center_probability,
    pairwise_probability,
)
from .theory_contrast import (
    TwoLevelOptimum,
    collapse_threshold,
    feasible_x2,
    supervised_contrastive_bound,
    two_level_bound,
    two_level_optimum,
)

__all__ = [
    'TwoLevelOptimum',
    'collapse_threshold',
    'cos_alpha',
    'feasible_x2',
    'fixed_frame_norm',
    'gradient_bound',
    'learnable_frame_optimum',
    'nearest_center_probability',
    'pairwise_probability',
    'supervised_contrastive_bound',
    'two_level_bound',
    'two_level_optimum',
]
