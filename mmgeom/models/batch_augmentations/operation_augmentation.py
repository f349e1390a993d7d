# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Sequences of operations, other ones for each image of a batch."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from .batch_augmentation import BatchAugmentation
from .choice import change_chosen


class OperationParameters(NamedTuple):
    """What is done to images, in S steps.

    Args:
        operations (Tensor): Numbers of operations, int64 of shape (B, S).
        magnitudes (Tensor): Their strengths, with signs, float32 of shape
            (B, S); in the units of the operation.
        applied (Tensor): Whether the step is done, boolean of shape (B, S).
    """

    operations: Tensor
    magnitudes: Tensor
    applied: Tensor


class OperationAugmentation(BatchAugmentation):
    """Do a sequence of operations, another one for each image of a batch.

    Sub-classes draw :class:`OperationParameters`, and list in
    :meth:`operations_for` what their numbers mean.
    """

    @abstractmethod
    def operations_for(
        self, images: Tensor
    ) -> Sequence[Callable[[Tensor, Tensor], Tensor]]:
        """List the operations.

        Args:
            images (Tensor): The images, of shape (B, C, H, W).

        Returns:
            Sequence[Callable]: Each takes images and magnitudes, of shape
            (B,), and gives images.
        """

    def augment(
        self, images: Tensor, parameters: OperationParameters
    ) -> Tensor:
        """Do the operations given."""
        operations = self.operations_for(images)
        images = images.clone()
        steps = zip(*(values.unbind(1) for values in parameters))
        for numbers, magnitudes, applied in steps:
            for number, operation in enumerate(operations):
                images = change_chosen(
                    images,
                    applied & (numbers == number),
                    operation,
                    magnitudes,
                )
        return images
