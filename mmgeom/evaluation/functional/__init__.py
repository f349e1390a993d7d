# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Functions of predictions and labels, without runner or registry."""

from .accuracy import class_accuracy, class_mean_accuracy
from .calibration import calibration_error, top_label
from .labels import (
    checked_target,
    predicted_labels,
    shot_masks,
    to_tensor,
)

__all__ = [
    'calibration_error',
    'checked_target',
    'class_accuracy',
    'class_mean_accuracy',
    'predicted_labels',
    'shot_masks',
    'to_tensor',
    'top_label',
]
