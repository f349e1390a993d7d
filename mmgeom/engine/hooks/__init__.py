# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hooks."""

from .checkpoint_check_hook import CheckpointCheckHook
from .label_distribution_hook import LabelDistributionHook

__all__ = ['CheckpointCheckHook', 'LabelDistributionHook']
