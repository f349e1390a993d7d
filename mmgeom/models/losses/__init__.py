# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Losses."""

from .error_loss import ErrorLoss
from .logit_adjusted_loss import LogitAdjustedLoss

__all__ = ['ErrorLoss', 'LogitAdjustedLoss']
