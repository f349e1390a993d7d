# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Iterator
from itertools import count

from mmgeom.registry import DATA_SAMPLERS

from .base_rebalanced_sampler import BaseRebalancedSampler


@DATA_SAMPLERS.register_module()
class InfiniteRebalancedSampler(BaseRebalancedSampler):
    """Endless sampler that re-balances the classes, for iteration loops.

    The stream is a chain of chunks: chunk ``e`` holds ``num_samples`` random
    draws and equals epoch ``e`` of :class:`RebalancedSampler`. Rank ``r`` of
    ``W`` takes the entries ``r``, ``r + W``, ... of the whole stream, across
    chunk borders, so the ranks together see what a single process sees.

    Every iteration starts at the beginning of the stream (the host's
    ``InfiniteSampler`` continues where the last one stopped). Who else
    iterates over the same data loader hence does not move the training's
    position, and ``IterBasedTrainLoop``, which on resume skips the batches
    already seen, arrives at exactly the next one.

    Use it with ``IterBasedTrainLoop``; an epoch of it never ends.

    Args:
        dataset (Sized): A dataset with class labels, wrapped or not.
        strategy (str): ``'class_balanced'``, ``'square_root'``,
            ``'effective_number'`` or ``'progressive'``, see
            :class:`RebalancedSampler`. Defaults to 'class_balanced'.
        beta (float): Parameter in [0, 1) of ``'effective_number'``.
            Defaults to 0.9999.
        max_epochs (int, optional): Number of chunks in which
            ``'progressive'`` goes from instance-balanced to class-balanced;
            required by it, used by it only. A training of I iterations with
            B samples per iteration over all ranks runs through
            ``ceil(I * B / num_samples)`` chunks. Defaults to None.
        num_samples (int, optional): Number of draws in a chunk over all
            ranks. Defaults to None, which means ``len(dataset)``.
        seed (int, optional): Seed, the same on all ranks. Defaults to None,
            which means a random seed that the ranks agree on.
        shuffle (bool): Must be True; it exists so that a config may replace
            only the type of the host's sampler. Defaults to True.

    Raises:
        ValueError: If an argument is outside its range, the dataset is empty
            or a sample has several labels.
        TypeError: If the labels are not integers.
    """

    def __iter__(self) -> Iterator[int]:
        """Iterate over this rank's indices, without end."""
        for chunk in count():
            # First position of this rank in the chunk: stream positions
            # congruent to the rank modulo the number of ranks.
            first = (self.rank - chunk * self.num_samples) % self.world_size
            yield from self.draw(chunk)[first :: self.world_size].tolist()

    def __len__(self) -> int:
        """Number of draws in a chunk over all ranks."""
        return self.num_samples
