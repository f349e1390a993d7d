# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from .cifar_densenet import CIFARDenseNet
from .cifar_resnet import CIFARResNet
from .mlp import MLP

__all__ = ['CIFARDenseNet', 'CIFARResNet', 'MLP']
