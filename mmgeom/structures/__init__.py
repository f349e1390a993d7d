# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""How the samples of a batch travel from the dataset to the heads."""

from .batch_samples import BatchSamples
from .collated_batch import CollatedBatch
from .stacking import (
    batch_target,
    field_names,
    stacked_labels,
    stacked_scores,
)

__all__ = [
    'BatchSamples',
    'CollatedBatch',
    'batch_target',
    'field_names',
    'stacked_labels',
    'stacked_scores',
]
