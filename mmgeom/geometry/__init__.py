# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The mathematics: functions of tensors, and small modules with buffers.

Nothing here knows mmengine, mmpretrain or a registry.
"""

from .precision import at_least_float32
from .prior import LogPrior, adjust_logits
from .soft_target import soft_cross_entropy

__all__ = [
    'LogPrior',
    'adjust_logits',
    'at_least_float32',
    'soft_cross_entropy',
]
