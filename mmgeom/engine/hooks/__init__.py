# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hooks."""

from .checkpoint_check_hook import CheckpointCheckHook
from .collapse_monitor_hook import CollapseMonitorHook
from .epoch_hook import EpochHook
from .label_distribution_hook import LabelDistributionHook
from .standardization_hook import StandardizationHook
from .surrogate_hook import SurrogateHook
from .sync_running_statistics_hook import SyncRunningStatisticsHook

__all__ = [
    'CheckpointCheckHook',
    'CollapseMonitorHook',
    'EpochHook',
    'LabelDistributionHook',
    'StandardizationHook',
    'SurrogateHook',
    'SyncRunningStatisticsHook',
]
