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
from .frames import MultiCenterFrame, OwnTerms
from .orthonormal import orthonormal_rows, simplex_etf, simplex_vertices
from .precision import at_least_float32, unit_vectors
from .prior import LogPrior, adjust_logits
from .soft_target import soft_cross_entropy
from .walsh_hadamard import RandomHadamard, walsh_hadamard

__all__ = [
    'LogPrior',
    'MultiCenterFrame',
    'OwnTerms',
    'RandomHadamard',
    'adjust_logits',
    'allocate_centers',
    'at_least_float32',
    'center_regression_loss',
    'cosine_center_loss',
    'dot_regression_loss',
    'norm_penalty',
    'orthonormal_rows',
    'simplex_etf',
    'simplex_vertices',
    'soft_cross_entropy',
    'unit_vectors',
    'walsh_hadamard',
]
