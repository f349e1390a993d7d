# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmcv.transforms.utils import cache_random_params
from PIL import Image
from torchvision.transforms import AutoAugment, AutoAugmentPolicy

from mmgeom.datasets.transforms.cifar_auto_augment import CIFARAutoAugment
from mmgeom.registry import TRANSFORMS


@pytest.fixture
def image():
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)


@pytest.mark.parametrize('order', ['rgb', 'bgr'])
def test_it_is_the_policy_of_torchvision(image, order):
    augment = TRANSFORMS.build(
        dict(type='mmgeom.CIFARAutoAugment', channel_order=order)
    )
    assert type(augment) is CIFARAutoAugment
    reference = AutoAugment(AutoAugmentPolicy.CIFAR10, fill=[128] * 3)
    given = image if order == 'rgb' else image[..., ::-1]
    changed = 0
    for seed in range(60):
        torch.manual_seed(seed)
        result = augment({'img': given})['img']
        torch.manual_seed(seed)
        expected = np.array(reference(Image.fromarray(image)))
        if order == 'bgr':
            expected = expected[..., ::-1]
        assert np.array_equal(result, expected)
        assert result.flags.c_contiguous
        changed += not np.array_equal(result, given)
    assert changed > 30


@pytest.mark.parametrize('shape', [(28, 28), (28, 28, 1), (28, 28, 3)])
def test_shapes(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    torch.manual_seed(0)
    augment = CIFARAutoAugment()
    for _ in range(100):
        result = augment({'img': image})['img']
        assert result.shape == shape and result.dtype == np.uint8


def test_open_pixels_are_filled():
    """Moving a white image leaves the colour it is filled with."""
    torch.manual_seed(0)
    image = np.full((32, 32, 3), 255, dtype=np.uint8)
    augment = CIFARAutoAugment(fill=77)
    values = {0, 255}
    for _ in range(100):
        values |= set(np.unique(augment({'img': image})['img']).tolist())
    assert 77 in values


def test_random_numbers_cannot_be_kept(image):
    with (
        pytest.raises(RuntimeError, match='CIFARAutoAugment'),
        cache_random_params(CIFARAutoAugment()),
    ):
        pass


def test_repr():
    assert repr(CIFARAutoAugment()) == (
        "CIFARAutoAugment(fill=128, channel_order='bgr')"
    )


@pytest.mark.parametrize(
    'kwargs, message',
    [
        (dict(fill=256), 'fill must be an int in 0..255, got 256'),
        (dict(fill=0.5), 'fill must be an int in 0..255, got 0.5'),
        (dict(channel_order='hsv'), "must be 'bgr' or 'rgb', got 'hsv'"),
    ],
)
def test_arguments_out_of_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CIFARAutoAugment(**kwargs)
