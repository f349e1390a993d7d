# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torchvision.transforms.functional as F
from mmcv.transforms.utils import cache_random_params
from mmengine.registry import DefaultScope
from mmpretrain.datasets.transforms import ColorJitter as HostColorJitter
from PIL import Image

from mmgeom.datasets.transforms.color_jitter import ColorJitter
from mmgeom.registry import TRANSFORMS

FUNCTIONS = (
    F.adjust_brightness,
    F.adjust_contrast,
    F.adjust_saturation,
    F.adjust_hue,
)


@pytest.fixture
def image():
    """A colour image, which has every hue."""
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (24, 20, 3), dtype=np.uint8)


def fixed(hue):
    """Jitter that always shifts the hue by the same amount."""
    return ColorJitter(hue=(hue, hue), channel_order='rgb')


@pytest.mark.parametrize('hue', [-0.5, -0.31, -0.1, -0.002, 0.07, 0.25, 0.5])
def test_hue_is_that_of_torchvision(image, hue):
    expected = np.array(F.adjust_hue(Image.fromarray(image), hue))
    assert np.array_equal(fixed(hue)({'img': image})['img'], expected)


def test_no_hue_overflows(image):
    """Half of the negative shifts fail in the host with numpy 2."""
    np.random.seed(0)
    jitter = ColorJitter(hue=0.5)
    for _ in range(50):
        result = jitter({'img': image})['img']
        assert result.dtype == np.uint8 and result.shape == image.shape


@pytest.mark.parametrize('seed', range(5))
def test_all_changes_are_those_of_torchvision(image, seed):
    """The same parameters in the same order give the same pixels."""
    arguments = (0.4, 0.4, 0.4, 0.1)
    np.random.seed(seed)
    result = ColorJitter(*arguments, channel_order='rgb')({'img': image})
    np.random.seed(seed)
    order = np.random.permutation(4)
    factors = [np.random.uniform(1 - r, 1 + r) for r in arguments[:3]]
    factors.append(np.random.uniform(-arguments[3], arguments[3]))
    expected = Image.fromarray(image)
    for index in order:
        expected = FUNCTIONS[index](expected, factors[index])
    assert np.array_equal(result['img'], np.array(expected))


def test_without_hue_it_is_the_host(image):
    """Configs inherited by name get ours where they mean the host's."""
    np.random.seed(3)
    result = ColorJitter(0.4, 0.4, 0.4)({'img': image})['img']
    np.random.seed(3)
    expected = HostColorJitter(0.4, 0.4, 0.4)({'img': image})['img']
    assert np.array_equal(result, expected)


def test_channel_orders(image):
    results = []
    for order, array in (('rgb', image), ('bgr', image[..., ::-1])):
        np.random.seed(1)
        jitter = ColorJitter(0.4, 0.4, 0.4, 0.1, channel_order=order)
        results.append(jitter({'img': array})['img'])
    assert np.array_equal(results[0], results[1][..., ::-1])
    assert not np.array_equal(results[0], image)
    assert all(result.flags.c_contiguous for result in results)


@pytest.mark.parametrize('shape', [(8, 6), (8, 6, 1)])
def test_grey_images(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    colours = ColorJitter(saturation=(2, 2), hue=(0.3, 0.3))
    assert np.array_equal(colours({'img': image})['img'], image)
    light = ColorJitter(brightness=(0.5, 0.5))
    assert np.array_equal(light({'img': image})['img'], image // 2)
    contrast = ColorJitter(contrast=(0, 0))({'img': image})['img']
    assert contrast.shape == shape
    assert (contrast == round(image.mean())).all()


def test_brightness_is_uniform():
    np.random.seed(0)
    image = np.full((1, 1), 100, dtype=np.uint8)
    jitter = ColorJitter(brightness=0.4)
    factors = [jitter({'img': image})['img'].item() for _ in range(2000)]
    quantiles = np.quantile(factors, [0, 0.25, 0.5, 0.75, 1])
    assert quantiles == pytest.approx([60, 80, 100, 120, 140], abs=3)


def test_hue_is_uniform():
    np.random.seed(0)
    image = np.array([[[255, 0, 0]]], dtype=np.uint8)
    jitter = ColorJitter(hue=0.1, channel_order='rgb')
    shifts = []
    for _ in range(2000):
        turned = Image.fromarray(jitter({'img': image})['img'])
        shifts.append(np.int8(np.array(turned.convert('HSV'))[0, 0, 0]))
    quantiles = np.quantile(shifts, [0, 0.25, 0.5, 0.75, 1])
    assert quantiles == pytest.approx([-25, -12.75, 0, 12.75, 25], abs=2)


@pytest.mark.parametrize('prob', [0, 0.8, 1])
def test_probability(image, prob):
    np.random.seed(0)
    jitter = ColorJitter(brightness=(0.5, 0.5), prob=prob)
    same = [
        np.array_equal(jitter({'img': image})['img'], image)
        for _ in range(500)
    ]
    assert np.mean(same) == pytest.approx(1 - prob, abs=0.05)


def test_image_is_not_changed_in_place(image):
    before = image.copy()
    ColorJitter(0.4, 0.4, 0.4, 0.1)({'img': image})
    assert np.array_equal(image, before)


def test_random_numbers_can_be_kept(image):
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1, prob=0.5)
    with cache_random_params(jitter):
        results = [jitter({'img': image})['img'] for _ in range(8)]
    assert all(np.array_equal(results[0], result) for result in results)
    # The host's class is not told of methods it does not have.
    with cache_random_params(HostColorJitter(0.4)):
        pass


@pytest.mark.parametrize('scope', ['mmpretrain', 'mmgeom'])
def test_registered(scope):
    DefaultScope.get_instance(f'jitter_{scope}', scope_name=scope)
    jitter = TRANSFORMS.build(dict(type='mmgeom.ColorJitter', hue=0.1))
    assert type(jitter) is ColorJitter
    assert repr(jitter) == (
        'ColorJitter(brightness=None, contrast=None, saturation=None, '
        "hue=(-0.1, 0.1), prob=1.0, channel_order='bgr')"
    )


@pytest.mark.parametrize(
    'kwargs, message',
    [
        (dict(prob=1.5), r'prob must be within \[0, 1\], got 1.5'),
        (dict(channel_order='grb'), "must be 'bgr' or 'rgb', got 'grb'"),
        (dict(brightness=-1), 'brightness is a single number, .* negative'),
    ],
)
def test_arguments_out_of_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ColorJitter(**kwargs)


@pytest.mark.parametrize(
    'image, error, message',
    [
        (np.zeros((4, 4, 3)), TypeError, 'array of uint8, got float64'),
        ([[0]], TypeError, 'array of uint8, got list'),
        (np.zeros((4, 4, 2), np.uint8), ValueError, r'got \(4, 4, 2\)'),
        (np.zeros(4, np.uint8), ValueError, r'got \(4,\)'),
    ],
)
def test_images_of_another_kind(image, error, message):
    with pytest.raises(error, match=message):
        ColorJitter(0.4)({'img': image})
