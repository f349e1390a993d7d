# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What happens to a batch before the network sees it."""

from .batched_data_preprocessor import BatchedDataPreprocessor
from .multi_view_data_preprocessor import MultiViewDataPreprocessor
from .tabular_data_preprocessor import TabularDataPreprocessor

__all__ = [
    'BatchedDataPreprocessor',
    'MultiViewDataPreprocessor',
    'TabularDataPreprocessor',
]
