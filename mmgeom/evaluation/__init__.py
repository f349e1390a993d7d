# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Metrics that look at frequent and rare classes apart."""

from .metrics import CalibrationError, ShotAccuracy, ShotMetric

__all__ = ['CalibrationError', 'ShotAccuracy', 'ShotMetric']
