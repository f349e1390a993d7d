# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Functions of predictions and labels, without runner or registry."""

from .accuracy import class_accuracy, class_mean_accuracy
from .bins import (
    as_written,
    bin_masks,
    check_bins,
    label_numbers,
    to_double,
)
from .calibration import calibration_error, top_label
from .intervals import interval_masks
from .labels import (
    checked_target,
    predicted_labels,
    shot_masks,
    to_tensor,
)
from .regression import (
    REGRESSION_ERRORS,
    balanced_error,
    checked_values,
    correlation,
    geometric_mean_error,
    mean_ranks,
    regression_errors,
)

__all__ = [
    'REGRESSION_ERRORS',
    'as_written',
    'balanced_error',
    'bin_masks',
    'calibration_error',
    'check_bins',
    'checked_target',
    'checked_values',
    'class_accuracy',
    'class_mean_accuracy',
    'correlation',
    'geometric_mean_error',
    'interval_masks',
    'label_numbers',
    'mean_ranks',
    'predicted_labels',
    'regression_errors',
    'shot_masks',
    'to_double',
    'to_tensor',
    'top_label',
]
