# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Several views of the images of a batch as one batch."""

from collections.abc import Sequence

import torch
from torch import Tensor


def join_views(views: Sequence[Tensor]) -> Tensor:
    """Put views of the same samples behind each other, view-major.

    Args:
        views (Sequence[Tensor]): V tensors of shape ``(B, C, H, W)``.

    Returns:
        Tensor: Shape ``(V B, C, H, W)``; row ``v B + i`` is view v of sample
        i.

    Raises:
        ValueError: When their images differ in shape.
    """
    require_one_shape([view[0] for view in views])
    return views[0] if len(views) == 1 else torch.cat(list(views))


def require_one_shape(images: Sequence[Tensor]) -> None:
    """Check that images can go through a network together.

    Args:
        images (Sequence[Tensor]): Images, one each of several views or
            samples.

    Raises:
        ValueError: When they differ in shape.
    """
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) > 1:
        raise ValueError(
            'the views of a batch must have one shape to go through the '
            f'network together, but there are {shapes}: crop or resize every '
            'view to the same size in the training pipeline.'
        )
