# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""RandAugment for batches."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Number

import torch
from mmpretrain.datasets.transforms.auto_augment import RANDAUG_POLICIES
from torch import Tensor

from mmgeom.datasets.transforms.pillow_images import check_channel_order
from mmgeom.registry import MODELS

from .batch_augmentation import uniform, uniform_integers
from .operation_augmentation import (
    OperationAugmentation,
    OperationParameters,
)
from .rand_augment_operations import parse_policy


@MODELS.register_module()
class BatchRandAugment(OperationAugmentation):
    r"""Do some operations, chosen at random, to each image of a batch.

    The host's ``RandAugment`` for batches, with the same operations on
    arrays. For each image ``num_policies`` operations are chosen, with
    replacement. Each is done with its probability ``prob`` (0.5 where its
    policy gives none), and its magnitude is

    .. math::
        a + (b - a) \, l / L

    with the level l, the range (a, b) of the policy and L = ``total_level``.
    Source: *RandAugment: Practical Automated Data Augmentation with a
    Reduced Search Space* (CVPRW 2020).

    It differs from the host where images have one channel, which the host
    refuses: colours of these stay as they are. And pixels outside an image
    that is rotated have ``pad_val`` in all channels when it is one number;
    the host fills the first channel only. Values that are interpolated
    equal those of OpenCV 5; OpenCV 4 rounds places to 1/32 pixel.

    Args:
        policies (str | Sequence[dict]): Operations, in the host's form:
            ``type``, and ``magnitude_range`` where the operation has a
            magnitude, ``prob``, ``random_negative_prob``, ``direction``,
            ``interpolation`` ('nearest', 'bilinear' or 'bicubic'),
            ``pad_val`` and ``thr`` where it has them. Or the name of a list
            of the host, 'timm_increasing' or 'simple_increasing'.
        num_policies (int): Operations for each image, at least one.
        magnitude_level (float): Level l, not negative.
        magnitude_std (float | str): Where positive, levels are normal with
            this deviation, cut to [0, L]. Where 'inf', they are uniform on
            [0, l]. Defaults to 0.0: all are l.
        total_level (float): Highest level L, positive. Defaults to 10.
        hparams (dict): Arguments for all operations that have them, where
            the policy gives no other. Defaults to ``dict(pad_val=128)``.
        channel_order (str): 'bgr', as images are loaded from files, or
            'rgb', as those of CIFAR. (The host takes all images for BGR.)
            Defaults to 'bgr'.

    Raises:
        TypeError: When a policy is not a dict with ``type``.
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        policies: str | Sequence[dict],
        num_policies: int,
        magnitude_level: float,
        magnitude_std: float | str = 0.0,
        total_level: float = 10,
        hparams: dict = dict(pad_val=128),
        channel_order: str = 'bgr',
    ) -> None:
        super().__init__()
        if isinstance(policies, str):
            policies = _named_policies(policies)
        if not policies:
            raise ValueError('policies must list an operation, got none.')
        if num_policies < 1:
            raise ValueError(
                f'num_policies must be at least 1, got {num_policies}.'
            )
        if magnitude_level < 0 or total_level <= 0:
            raise ValueError(
                'magnitude_level must not be negative and total_level must '
                f'be positive, got {magnitude_level} and {total_level}.'
            )
        if magnitude_std != 'inf' and not isinstance(magnitude_std, Number):
            raise ValueError(
                f"magnitude_std must be a number or 'inf', got "
                f'{magnitude_std!r}.'
            )
        check_channel_order(channel_order)
        self.num_policies = num_policies
        self.magnitude_level = magnitude_level
        self.magnitude_std = magnitude_std
        self.total_level = total_level
        self.operations = [
            parse_policy(policy, hparams, channel_order) for policy in policies
        ]
        # Columns: lowest and highest magnitude, probability, probability of
        # a negative sign.
        table = [[*o.magnitude_range, *o[2:4]] for o in self.operations]
        self.register_buffer('table', torch.tensor(table), persistent=False)
        for number, operation in enumerate(self.operations):
            self.register_buffer(
                f'fill_{number}', operation.fill, persistent=False
            )

    def sample_parameters(
        self,
        batch_size: int,
        height: int,
        width: int,
        generator: torch.Generator,
    ) -> OperationParameters:
        """Draw operations; see :class:`OperationParameters`."""
        shape = batch_size, self.num_policies
        numbers = uniform(3, *shape, generator=generator)
        operations = uniform_integers(len(self.operations), numbers[0])
        table = self.table.to(generator.device)
        low, high, prob, negative_prob = table[operations].unbind(-1)
        levels = self._sample_levels(shape, generator)
        magnitudes = levels / self.total_level * (high - low) + low
        negative = numbers[1] < negative_prob
        magnitudes = torch.where(negative, -magnitudes, magnitudes)
        return OperationParameters(operations, magnitudes, numbers[2] <= prob)

    def _sample_levels(
        self, shape: tuple[int, int], generator: torch.Generator
    ) -> Tensor | float:
        """Draw the levels of operations."""
        if self.magnitude_std == 'inf':
            numbers = uniform(*shape, generator=generator)
            return numbers * self.magnitude_level
        if self.magnitude_std <= 0:
            return float(self.magnitude_level)
        numbers = torch.randn(
            shape, generator=generator, device=generator.device
        )
        levels = self.magnitude_level + self.magnitude_std * numbers
        return levels.clamp(0, self.total_level)

    def operations_for(
        self, images: Tensor
    ) -> list[Callable[[Tensor, Tensor], Tensor]]:
        """List the operations, in the order of their numbers."""
        return [
            partial(operation.apply, fill=getattr(self, f'fill_{number}'))
            for number, operation in enumerate(self.operations)
        ]


def _named_policies(name: str) -> list[dict]:
    """A list of operations of the host."""
    if name not in RANDAUG_POLICIES:
        raise ValueError(
            f'policies must be a list of dicts or one of '
            f'{list(RANDAUG_POLICIES)}, got {name!r}.'
        )
    return RANDAUG_POLICIES[name]
