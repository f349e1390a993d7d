# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What all augmentations of whole batches have in common."""

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class BatchAugmentation(nn.Module, metaclass=ABCMeta):
    """Change each image of a batch by random numbers of its own.

    The work of a transform of the host, done for a batch at once and where
    the batch is. Sub-classes draw random numbers in
    :meth:`sample_parameters` and use them in :meth:`augment`, so that the
    same numbers give the same pixels as the host's transform.

    All random numbers come from the generator given; the global ones of
    numpy, Python and torch are left alone.
    """

    @abstractmethod
    def sample_parameters(
        self, batch_size: int, height: int, width: int, generator: Any
    ) -> NamedTuple:
        """Draw the random numbers of a batch.

        Args:
            batch_size (int): Number of images, B.
            height (int): Height of the images in pixels.
            width (int): Width of the images in pixels.
            generator (torch.Generator): Source of the numbers. They are
                drawn on its device.

        Returns:
            NamedTuple: Tensors with one row for each image.
        """

    @abstractmethod
    def augment(self, images: Tensor, parameters: Any) -> Tensor:
        """Change images by numbers that were drawn.

        Args:
            images (Tensor): uint8, of shape (B, C, H, W).
            parameters (NamedTuple): As :meth:`sample_parameters` gives them.

        Returns:
            Tensor: Other images; those given stay as they are.
        """

    def forward(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Draw numbers and change the images.

        Args:
            images (Tensor): uint8, of shape (B, C, H, W).
            generator (torch.Generator): On the device of the images.

        Returns:
            Tensor: uint8, of shape (B, C, H', W').

        Raises:
            TypeError: When the images are not uint8.
            ValueError: When they have not four dimensions, or the generator
                is on another device.
        """
        check_images(images)
        if generator.device.type != images.device.type:
            raise ValueError(
                f'images are on {images.device} and the generator on '
                f'{generator.device}: make the generator with '
                'torch.Generator(images.device).'
            )
        height, width = images.shape[2:]
        parameters = self.sample_parameters(
            len(images), height, width, generator
        )
        return self.augment(images, parameters)


def check_images(images: Tensor) -> None:
    """Check that images are a batch of uint8.

    Args:
        images (Tensor): Batch to check.

    Raises:
        TypeError: When the images are not uint8.
        ValueError: When they have not four dimensions.
    """
    if images.dtype != torch.uint8:
        raise TypeError(
            f'images must be uint8, got {images.dtype}: put augmentations '
            'of batches before normalisation.'
        )
    if images.ndim != 4:
        raise ValueError(
            'images must have the shape (B, C, H, W), got '
            f'{tuple(images.shape)}.'
        )


def uniform(*shape: int, generator: torch.Generator) -> Tensor:
    """Draw numbers, uniform on [0, 1), on the generator's device.

    Args:
        *shape (int): Shape of the result.
        generator (torch.Generator): Source of the numbers.

    Returns:
        Tensor: float32.
    """
    return torch.rand(shape, generator=generator, device=generator.device)


def uniform_integers(counts: Tensor | int, numbers: Tensor) -> Tensor:
    """Turn numbers of [0, 1) into whole numbers of 0 .. counts - 1.

    Args:
        counts (Tensor | int): How many values each may take, at least one.
        numbers (Tensor): Uniform on [0, 1).

    Returns:
        Tensor: int64, of the shape of the numbers.
    """
    # The product may be rounded up to counts.
    return (numbers * counts).long().clamp_(max=counts - 1)
