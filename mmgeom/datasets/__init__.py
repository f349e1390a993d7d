# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Dataset readers, wrappers, samplers and transforms."""

from .array_dataset import ArrayDataset
from .batched_dataset import BatchedDataset
from .digits import Digits
from .fashion_mnist import FashionMNIST
from .image_regression_dataset import ImageRegressionDataset
from .imbalanced_regression_dataset import ImbalancedRegressionDataset
from .inaturalist import INaturalist2018
from .list_file_dataset import ImageNetLT, ListFileDataset, PlacesLT
from .long_tailed_dataset import LongTailedDataset
from .operator_learning_dataset import OperatorLearningDataset
from .row_dataset import RowDataset
from .samplers import *  # noqa: F403
from .selection_wrapper import SelectionWrapper
from .stl10 import STL10
from .svhn import SVHN
from .tabular_dataset import TabularDataset
from .text_pair_dataset import TextPairDataset
from .transforms import *  # noqa: F403

__all__ = [
    'TextPairDataset',
    'TabularDataset',
    'SelectionWrapper',
    'RowDataset',
    'OperatorLearningDataset',
    'ImbalancedRegressionDataset',
    'ImageRegressionDataset',
    'ArrayDataset',
    'BatchedDataset',
    'Digits',
    'FashionMNIST',
    'INaturalist2018',
    'ImageNetLT',
    'ListFileDataset',
    'LongTailedDataset',
    'PlacesLT',
    'STL10',
    'SVHN',
]
