# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The mathematics: functions of tensors, and small modules with buffers.

Nothing here knows mmengine, mmpretrain or a registry.
"""

from .allocation import allocate_centers
from .center_loss import (
    center_regression_loss,
    cosine_center_loss,
    dot_regression_loss,
    norm_penalty,
)
from .collapse import nc1, nc2, nc3, nc4, second_pass
from .collapse_centers import (
    center_distance,
    class_mean_gram,
    cosine_statistics,
    variability,
)
from .collapse_statistics import CollapseStatistics
from .frames import MultiCenterFrame, OwnTerms
from .orthonormal import orthonormal_rows, simplex_etf, simplex_vertices
from .precision import at_least_float32, unit_vectors
from .prior import LogPrior, adjust_logits
from .soft_target import soft_cross_entropy
from .walsh_hadamard import RandomHadamard, walsh_hadamard

__all__ = [
    'CollapseStatistics',
    'LogPrior',
    'MultiCenterFrame',
    'OwnTerms',
    'RandomHadamard',
    'adjust_logits',
    'allocate_centers',
    'at_least_float32',
    'center_distance',
    'center_regression_loss',
    'class_mean_gram',
    'cosine_center_loss',
    'cosine_statistics',
    'dot_regression_loss',
    'nc1',
    'nc2',
    'nc3',
    'nc4',
    'norm_penalty',
    'orthonormal_rows',
    'second_pass',
    'simplex_etf',
    'simplex_vertices',
    'soft_cross_entropy',
    'unit_vectors',
    'variability',
    'walsh_hadamard',
]
