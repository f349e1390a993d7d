# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from .infinite_rebalanced_sampler import InfiniteRebalancedSampler
from .rebalanced_sampler import RebalancedSampler

__all__ = ['InfiniteRebalancedSampler', 'RebalancedSampler']
