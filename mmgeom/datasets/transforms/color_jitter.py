# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random brightness, contrast, saturation and hue."""

from collections.abc import Callable, Sequence

import numpy as np
import torchvision.transforms.functional as F
from mmcv.transforms.utils import cache_randomness
from mmpretrain.datasets.transforms import ColorJitter as HostColorJitter
from PIL import Image

from mmgeom.registry import TRANSFORMS

from .pillow_images import check_channel_order, from_pillow, to_pillow


def _shift_hue(image: Image.Image, factor: float) -> Image.Image:
    """Turn the hue, stored in 0..255, by a part of the circle.

    As torchvision does; its releases before 0.20 overflow with numpy 2.
    """
    if image.mode == 'L':
        return image
    hue, saturation, value = image.convert('HSV').split()
    shifted = np.asarray(hue) + np.uint8(int(factor * 255) % 256)
    bands = Image.fromarray(shifted), saturation, value
    return Image.merge('HSV', bands).convert('RGB')


# In the order in which the host numbers them.
_ADJUSTMENTS: tuple[Callable[[Image.Image, float], Image.Image], ...] = (
    F.adjust_brightness,
    F.adjust_contrast,
    F.adjust_saturation,
    _shift_hue,
)


@TRANSFORMS.register_module()
class ColorJitter(HostColorJitter):
    """Change brightness, contrast, saturation and hue at random.

    The host's transform of this name fails with an ``OverflowError`` for
    half of the images when it changes the hue and numpy is 2 or newer. Here
    each change is the one of torchvision on images of Pillow; ranges, random
    numbers and the random order of the changes are those of the host.
    Configs inherited by ``mmgeom::`` get this class also where they say
    ``ColorJitter``.

    Images are uint8 arrays, colour ``(H, W, 3)`` or grey ``(H, W)`` and
    ``(H, W, 1)``. Grey images have no saturation and no hue, so these leave
    them as they are.

    Args:
        brightness (float | Sequence[float]): Factors are uniform on
            ``[max(0, 1 - brightness), 1 + brightness]``, or on the two
            numbers given. Defaults to 0.0: no change.
        contrast (float | Sequence[float]): Likewise. Defaults to 0.0.
        saturation (float | Sequence[float]): Likewise. Defaults to 0.0.
        hue (float | Sequence[float]): Shifts, in circles, are uniform on
            ``[-hue, hue]``, or on the two numbers given, within
            ``[-0.5, 0.5]``. Defaults to 0.0.
        prob (float): Probability that an image is changed at all, in
            ``[0, 1]``. Defaults to 1.0.
        channel_order (str): 'bgr', as images are loaded from files, or
            'rgb', as those of CIFAR. Defaults to 'bgr'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    # A list of our own, or `_rand_apply` would be added to the host's.
    _methods_with_randomness = ['_rand_params']

    def __init__(
        self,
        brightness: float | Sequence[float] = 0.0,
        contrast: float | Sequence[float] = 0.0,
        saturation: float | Sequence[float] = 0.0,
        hue: float | Sequence[float] = 0.0,
        prob: float = 1.0,
        channel_order: str = 'bgr',
    ) -> None:
        if not 0 <= prob <= 1:
            raise ValueError(f'prob must be within [0, 1], got {prob}.')
        check_channel_order(channel_order)
        super().__init__(brightness, contrast, saturation, hue)
        self.prob = prob
        self.channel_order = channel_order

    @cache_randomness
    def _rand_apply(self) -> bool:
        # No number is drawn for nothing: draws are then those of the host.
        return self.prob == 1 or np.random.rand() < self.prob

    def transform(self, results: dict) -> dict:
        """Change the colours.

        Args:
            results (dict): With ``img``.

        Returns:
            dict: The same with another ``img``.

        Raises:
            TypeError: When the image is not an array of uint8.
            ValueError: When it is neither colour nor grey.
        """
        if not self._rand_apply():
            return results
        image = to_pillow(results['img'], self.channel_order)
        order, *factors = self._rand_params()
        for index in order:
            if factors[index] is not None:
                image = _ADJUSTMENTS[index](image, float(factors[index]))
        ndim = results['img'].ndim
        results['img'] = from_pillow(image, self.channel_order, ndim)
        return results

    def __repr__(self) -> str:
        return (
            f'{super().__repr__()[:-1]}, prob={self.prob}, '
            f"channel_order='{self.channel_order}')"
        )
