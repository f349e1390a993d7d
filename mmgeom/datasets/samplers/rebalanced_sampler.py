# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Iterator, Sized

import torch

from mmgeom.registry import DATA_SAMPLERS

from .base_rebalanced_sampler import BaseRebalancedSampler


@DATA_SAMPLERS.register_module()
class RebalancedSampler(BaseRebalancedSampler):
    """Sampler that re-balances the classes, for epoch-based training.

    Epoch ``e`` is one list of ``num_samples`` random draws that depends on
    ``seed + e`` only. Rank ``r`` of ``W`` takes the entries ``r``, ``r + W``,
    ...: together the ranks see what a single process sees, and a resumed
    training sees what an uninterrupted one sees.

    Source: Kang et al., Decoupling Representation and Classifier for
    Long-Tailed Recognition, ICLR 2020, Section 3 (class-balanced,
    square-root and progressively balanced sampling); Cui et al.,
    Class-Balanced Loss Based on Effective Number of Samples, CVPR 2019
    (effective number).

    Args:
        dataset (Sized): A dataset with class labels, wrapped or not.
        strategy (str): ``'class_balanced'``, ``'square_root'``,
            ``'effective_number'`` or ``'progressive'``. Defaults to
            'class_balanced'.
        beta (float): Parameter in [0, 1) of ``'effective_number'``.
            Defaults to 0.9999.
        max_epochs (int, optional): Number of epochs in which
            ``'progressive'`` goes from instance-balanced to class-balanced;
            required by it, used by it only. Defaults to None.
        num_samples (int, optional): Number of draws in an epoch over all
            ranks. Defaults to None, which means ``len(dataset)``.
        seed (int, optional): Seed, the same on all ranks. Defaults to None,
            which means a random seed that the ranks agree on.
        shuffle (bool): Must be True; it exists so that a config may replace
            only the type of the host's sampler. Defaults to True.
        round_up (bool): Whether to repeat draws from the start of the epoch's
            list so that all ranks get equally many. Defaults to True.

    Raises:
        ValueError: If an argument is outside its range, the dataset is empty
            or a sample has several labels.
        TypeError: If the labels are not integers.

    Examples:
        >>> train_dataloader = dict(
        ...     sampler=dict(
        ...         type='mmgeom.RebalancedSampler', strategy='square_root'))
    """

    def __init__(
        self,
        dataset: Sized,
        strategy: str = 'class_balanced',
        beta: float = 0.9999,
        max_epochs: int | None = None,
        num_samples: int | None = None,
        seed: int | None = None,
        shuffle: bool = True,
        round_up: bool = True,
    ) -> None:
        super().__init__(
            dataset, strategy, beta, max_epochs, num_samples, seed, shuffle
        )
        self.round_up = round_up
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        """Iterate over this rank's indices of the epoch."""
        total = self.num_samples
        if self.round_up:
            total = len(self) * self.world_size
        positions = torch.arange(total)[self.rank :: self.world_size]
        indices = self.draw(self.epoch)[positions % self.num_samples]
        return iter(indices.tolist())

    def __len__(self) -> int:
        """Number of indices of this rank in an epoch."""
        rank = 0 if self.round_up else self.rank
        return -((rank - self.num_samples) // self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration yields.

        Args:
            epoch (int): Epoch, counted from 0.
        """
        self.epoch = epoch
