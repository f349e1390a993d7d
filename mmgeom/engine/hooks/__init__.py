# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hooks."""

from .checkpoint_check_hook import CheckpointCheckHook
from .collapse_monitor_hook import CollapseMonitorHook
from .label_distribution_hook import LabelDistributionHook

__all__ = [
    'CheckpointCheckHook',
    'CollapseMonitorHook',
    'LabelDistributionHook',
]
