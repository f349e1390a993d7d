# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Registered metrics."""

from .calibration_error import CalibrationError
from .neural_collapse import NeuralCollapse
from .shot_accuracy import ShotAccuracy
from .shot_error import ShotError
from .shot_metric import ShotMetric

__all__ = [
    'CalibrationError',
    'NeuralCollapse',
    'ShotAccuracy',
    'ShotError',
    'ShotMetric',
]
