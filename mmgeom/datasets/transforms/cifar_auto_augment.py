# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""AutoAugment with the policy learned on CIFAR-10."""

from mmcv.transforms import BaseTransform
from mmcv.transforms.utils import avoid_cache_randomness
from torchvision.transforms import AutoAugment, AutoAugmentPolicy

from mmgeom.registry import TRANSFORMS

from .pillow_images import check_channel_order, from_pillow, to_pillow


@TRANSFORMS.register_module()
@avoid_cache_randomness
class CIFARAutoAugment(BaseTransform):
    """One of 25 pairs of operations that were learned on CIFAR-10.

    The host has the policy of ImageNet only, and its
    ``torchvision/AutoAugment`` cannot be told another in a config. Source:
    *AutoAugment: Learning Augmentation Policies from Data* (CVPR 2019),
    Table 7; operations are those of torchvision, which draws from torch's
    random numbers.

    Images are uint8 arrays, colour ``(H, W, 3)`` or grey ``(H, W)`` and
    ``(H, W, 1)``.

    Args:
        fill (int): Value of pixels that rotation, shear and translation
            leave open, in 0..255. Defaults to 128, grey.
        channel_order (str): 'bgr', as images are loaded from files, or
            'rgb', as those of CIFAR. Defaults to 'bgr'.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(self, fill: int = 128, channel_order: str = 'bgr') -> None:
        if not isinstance(fill, int) or not 0 <= fill <= 255:
            raise ValueError(f'fill must be an int in 0..255, got {fill!r}.')
        check_channel_order(channel_order)
        self.fill = fill
        self.channel_order = channel_order
        self._augment = AutoAugment(AutoAugmentPolicy.CIFAR10, fill=fill)

    def transform(self, results: dict) -> dict:
        """Apply a pair of operations.

        Args:
            results (dict): With ``img``.

        Returns:
            dict: The same with another ``img``.

        Raises:
            TypeError: When the image is not an array of uint8.
            ValueError: When it is neither colour nor grey.
        """
        image = to_pillow(results['img'], self.channel_order)
        image = self._augment(image)
        ndim = results['img'].ndim
        results['img'] = from_pillow(image, self.channel_order, ndim)
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(fill={self.fill}, '
            f"channel_order='{self.channel_order}')"
        )
