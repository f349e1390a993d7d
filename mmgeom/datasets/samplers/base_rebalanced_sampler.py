# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Sized

import numpy as np
import torch
from mmengine.dist import get_dist_info, sync_random_seed
from torch.utils.data import Sampler

from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_labels

from .class_probability import check_strategy, class_probability


class BaseRebalancedSampler(Sampler[int]):
    r"""What the re-balancing samplers share: arguments and draws.

    A draw chooses a class by :func:`class_probability` and then one of its
    members uniformly, with replacement. A sample of class :math:`y` is hence
    drawn with probability :math:`p_y / n_y`. The two steps cost
    :math:`O(\log K)` per draw and, unlike ``torch.multinomial`` over the
    samples, have no limit on the size of the dataset.

    The draws of an epoch depend on ``seed + epoch`` and on nothing else, so
    all ranks make the same list and no random state is shared or saved.

    Args:
        dataset (Sized): A dataset with class labels, wrapped or not.
        strategy (str): ``'class_balanced'``, ``'square_root'``,
            ``'effective_number'`` or ``'progressive'``, see
            :func:`class_probability`. Defaults to 'class_balanced'.
        beta (float): Parameter in [0, 1) of ``'effective_number'``.
            Defaults to 0.9999.
        max_epochs (int, optional): Number of epochs :math:`T` over which
            ``'progressive'`` moves; required by it, used by it only. The
            share of the class-balanced part is :math:`t / (T - 1)` in epoch
            :math:`t = 0, 1, \dots` and stays at 1 afterwards, so the first
            epoch is exactly instance-balanced and the last one exactly
            class-balanced. (The paper prints :math:`t / T`, which never
            arrives; its released code uses :math:`t / (T - 1)`.) A single
            epoch is instance-balanced. Defaults to None.
        num_samples (int, optional): Number of draws in an epoch over all
            ranks. Defaults to None, which means ``len(dataset)``.
        seed (int, optional): Seed, the same on all ranks. Defaults to None,
            which means a random seed that the ranks agree on.
        shuffle (bool): Must be True. Draws have no unshuffled order; the
            argument exists so that a config which replaces the host's sampler
            by type may inherit its ``shuffle=True``. Defaults to True.

    Raises:
        ValueError: If an argument is outside its range, the dataset is empty
            or a sample has several labels.
        TypeError: If the labels are not integers.
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
    ) -> None:
        check_strategy(strategy, beta)
        _check_max_epochs(strategy, max_epochs)
        if not shuffle:
            raise ValueError(
                f'{type(self).__name__} draws at random and has no fixed '
                f'order, got shuffle={shuffle!r}; leave shuffle out or use '
                'DefaultSampler.'
            )
        if num_samples is not None:
            _check_positive_integer('num_samples', num_samples)
        labels = _class_labels(dataset)
        self.distribution = LabelDistribution.from_labels(labels)

        self.dataset = dataset
        self.strategy = strategy
        self.beta = beta
        self.max_epochs = max_epochs
        self.num_samples = len(dataset) if num_samples is None else num_samples
        self.rank, self.world_size = get_dist_info()
        self.seed = sync_random_seed() if seed is None else seed

        # Dataset indices ordered by class: the members of class k are
        # _members[_starts[k] : _starts[k] + counts[k]].
        self._members = torch.argsort(labels, stable=True)
        counts = self.distribution.counts
        self._starts = counts.cumsum(0) - counts

    def class_probability(self, epoch: int) -> torch.Tensor:
        """Probability of each class in an epoch.

        Args:
            epoch (int): Epoch, counted from 0.

        Returns:
            torch.Tensor: Probabilities of shape (K,), float64.
        """
        progress = 0.0
        if self.strategy == 'progressive' and self.max_epochs > 1:
            progress = min(epoch / (self.max_epochs - 1), 1.0)
        return class_probability(
            self.distribution, self.strategy, self.beta, progress
        )

    def draw(self, epoch: int) -> torch.Tensor:
        """Draw the dataset indices of one epoch, those of all ranks.

        Args:
            epoch (int): Epoch, counted from 0.

        Returns:
            torch.Tensor: Indices of shape (num_samples,), int64.
        """
        generator = torch.Generator().manual_seed(self.seed + epoch)
        class_draw, member_draw = torch.rand(
            (2, self.num_samples), dtype=torch.float64, generator=generator
        )
        cumulative = self.class_probability(epoch).cumsum(0)
        # The last entry becomes exactly 1, which no draw from [0, 1) reaches.
        cumulative = cumulative / cumulative[-1]
        classes = torch.searchsorted(cumulative, class_draw, right=True)
        counts = self.distribution.counts[classes]
        return self._members[
            self._starts[classes] + (member_draw * counts).long()
        ]


def _check_max_epochs(strategy: str, max_epochs: int | None) -> None:
    if strategy == 'progressive' and max_epochs is None:
        raise ValueError(
            "strategy 'progressive' needs max_epochs, the number of epochs "
            'from instance-balanced to class-balanced, got None.'
        )
    if max_epochs is not None:
        _check_positive_integer('max_epochs', max_epochs)


def _class_labels(dataset: Sized) -> torch.Tensor:
    labels = dataset_labels(dataset)
    if not isinstance(labels, np.ndarray):
        raise ValueError(
            'a re-balancing sampler needs one class per sample, got '
            f'several in {type(dataset).__name__}; use DefaultSampler for '
            'multi-label data.'
        )
    return torch.from_numpy(labels)


def _check_positive_integer(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ValueError(
            f'{name} must be an integer of at least 1, got {value!r}.'
        )
