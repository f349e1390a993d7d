# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Between arrays of a pipeline and images of Pillow."""

import numpy as np
from PIL import Image

CHANNEL_ORDERS = ('bgr', 'rgb')


def check_channel_order(channel_order: str) -> None:
    """Check the name of an order of colour channels.

    Args:
        channel_order (str): 'bgr' or 'rgb'.

    Raises:
        ValueError: When it is another.
    """
    if channel_order not in CHANNEL_ORDERS:
        raise ValueError(
            f"channel_order must be 'bgr' or 'rgb', got {channel_order!r}."
        )


def to_pillow(image: np.ndarray, channel_order: str) -> Image.Image:
    """Make an image of Pillow of an array.

    Args:
        image (np.ndarray): uint8; colour of shape ``(H, W, 3)``, or grey of
            shape ``(H, W)`` or ``(H, W, 1)``.
        channel_order (str): Order of the array's colours, 'bgr' or 'rgb'.

    Returns:
        Image.Image: Of mode RGB, or L for grey.

    Raises:
        TypeError: When the array is not one of uint8.
        ValueError: When it has another shape.
    """
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        kind = getattr(image, 'dtype', type(image).__name__)
        raise TypeError(
            f'an image must be an array of uint8, got {kind}: put the '
            'transform where images are as they were loaded.'
        )
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.ndim not in (2, 3) or channels not in (1, 3):
        raise ValueError(
            'an image must have the shape (H, W, 3), (H, W, 1) or (H, W), '
            f'got {image.shape}.'
        )
    if channels == 1:
        return Image.fromarray(image.reshape(image.shape[:2]))
    if channel_order == 'bgr':
        image = image[..., ::-1]
    return Image.fromarray(np.ascontiguousarray(image))


def from_pillow(
    image: Image.Image, channel_order: str, ndim: int
) -> np.ndarray:
    """Make an array of an image of Pillow, as the one it came from.

    Args:
        image (Image.Image): Of mode RGB or L.
        channel_order (str): Order of the array's colours, 'bgr' or 'rgb'.
        ndim (int): Dimensions of the array, 2 or 3.

    Returns:
        np.ndarray: uint8, contiguous.
    """
    array = np.array(image)
    if array.ndim < ndim:
        return array[..., None]
    if array.ndim == 3 and channel_order == 'bgr':
        array = np.ascontiguousarray(array[..., ::-1])
    return array
