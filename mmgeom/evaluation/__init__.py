# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Metrics of frequent and rare classes apart, and of neural collapse."""

from .metrics import (
    CalibrationError,
    NeuralCollapse,
    ShotAccuracy,
    ShotError,
    ShotMetric,
)

__all__ = [
    'CalibrationError',
    'NeuralCollapse',
    'ShotAccuracy',
    'ShotError',
    'ShotMetric',
]
