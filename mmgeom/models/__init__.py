# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Models, their parts, data preprocessors and batch augmentations."""

from .backbones import *  # noqa: F403
from .batch_augmentations import *  # noqa: F403
from .classifiers import *  # noqa: F403
from .data_preprocessors import *  # noqa: F403
from .heads import *  # noqa: F403
from .losses import *  # noqa: F403
from .regressors import *  # noqa: F403
