# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Dataset readers, wrappers, samplers and transforms."""

from .array_dataset import ArrayDataset
from .digits import Digits
from .fashion_mnist import FashionMNIST
from .inaturalist import INaturalist2018
from .list_file_dataset import ImageNetLT, ListFileDataset, PlacesLT
from .long_tailed_dataset import LongTailedDataset
from .samplers import *  # noqa: F403
from .stl10 import STL10
from .svhn import SVHN
from .transforms import *  # noqa: F403

__all__ = [
    'ArrayDataset',
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
