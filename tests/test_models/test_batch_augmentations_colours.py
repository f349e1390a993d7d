# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Colours of batches against those of images of Pillow."""

import numpy as np
import pytest
import torch
from batch_augmentation_checks import (
    assert_same_distribution,
    assert_same_frequencies,
    largest_difference,
    smooth_images,
    to_arrays,
    to_batch,
)
from mmcv.transforms import RandomGrayscale

from mmgeom.datasets.transforms import ColorJitter
from mmgeom.models.batch_augmentations import (
    BatchColorJitter,
    BatchGrayscale,
)

_DRAWS = 3000
_JITTER = dict(brightness=0.4, contrast=0.5, saturation=0.6, hue=0.3)


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def numpy_seed():
    """The host draws from numpy's global generator."""
    state = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(state)


def _images(count, channels=3):
    """Smooth images, and as many of noise."""
    images = smooth_images(count, 12, 13, channels)
    noise = np.random.default_rng(1).integers(0, 256, images.shape, np.uint8)
    return np.concatenate([images, noise])


def _host_jitter(host, order, factors, image):
    """The host's jitter by given numbers."""
    enabled = [
        factor if index in order else None
        for index, factor in enumerate(factors)
    ]
    host._rand_apply = lambda: True
    host._rand_params = lambda: (order, *enabled)
    return host.transform(dict(img=image))['img']


@pytest.mark.parametrize('channel_order', ['rgb', 'bgr'])
@pytest.mark.parametrize('channels', [1, 3])
@pytest.mark.parametrize(
    'names', [[*_JITTER], ['hue'], ['contrast', 'brightness'], ['saturation']]
)
def test_jitter_equals_the_host(names, channels, channel_order):
    arguments = {name: _JITTER[name] for name in names}
    arguments['channel_order'] = channel_order
    images = _images(24, channels)
    jitter, host = BatchColorJitter(**arguments), ColorJitter(**arguments)
    numbers = jitter.sample_parameters(48, 12, 13, _generator())
    ours = to_arrays(jitter.augment(to_batch(images), numbers))
    theirs = [
        _host_jitter(host, order.tolist(), factors.tolist(), image)
        for order, factors, image in zip(*numbers[:2], images)
    ]
    assert np.array_equal(ours, np.stack(theirs))


@pytest.mark.parametrize('shift', [-0.5, -0.21, 0.0, 0.003, 0.37, 0.5])
def test_hue_of_all_colours(shift):
    levels = np.array([0, 1, 2, 30, 100, 127, 128, 200, 254, 255], np.uint8)
    image = np.stack(np.meshgrid(levels, levels, levels), -1)
    image = image.reshape(1, 25, 40, 3)
    jitter = BatchColorJitter(hue=0.5, channel_order='rgb')
    host = ColorJitter(hue=0.5, channel_order='rgb')
    numbers = jitter.sample_parameters(1, 25, 40, _generator())
    numbers = numbers._replace(
        order=torch.tensor([[3]]),
        factors=torch.tensor([[1.0, 1.0, 1.0, shift]]),
    )
    ours = to_arrays(jitter.augment(to_batch(image), numbers))[0]
    theirs = _host_jitter(host, [3], [1, 1, 1, shift], image[0])
    assert np.array_equal(ours, theirs)


def test_jitter_draws_as_the_host(numpy_seed):
    jitter, host = BatchColorJitter(**_JITTER), ColorJitter(**_JITTER)
    numbers = jitter.sample_parameters(_DRAWS, 8, 8, _generator())
    orders, *factors = zip(*(host._rand_params() for _ in range(_DRAWS)))
    ours = map(tuple, numbers.order.tolist())
    assert_same_frequencies(ours, map(tuple, np.array(orders).tolist()))
    for ours, theirs in zip(numbers.factors.t(), factors):
        assert_same_distribution(ours, theirs)


def test_jitter_orders_what_is_switched_on():
    jitter = BatchColorJitter(hue=0.1, contrast=0.1, prob=0.4)
    numbers = jitter.sample_parameters(_DRAWS, 8, 8, _generator())
    orders = [tuple(order) for order in numbers.order.tolist()]
    assert set(orders) == {(1, 3), (3, 1)}
    assert abs(orders.count((1, 3)) / _DRAWS - 0.5) < 0.05
    assert abs(numbers.applied.double().mean() - 0.4) < 0.05


def test_jitter_without_anything():
    images = to_batch(_images(2))
    assert torch.equal(BatchColorJitter()(images, _generator()), images)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(brightness=-0.1), 'brightness must be a number that is not neg'),
        (dict(contrast=(1.2, 0.8)), 'the smaller first, got'),
        (dict(hue=(-0.6, 0.1)), r'hue must .* within \[-0.5, 0.5\]'),
        (dict(prob=2), r'prob must be within \[0, 1\], got 2'),
        (dict(channel_order='gbr'), "must be 'bgr' or 'rgb', got 'gbr'"),
    ],
)
def test_jitter_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchColorJitter(**arguments)


def test_jitter_refuses_two_channels():
    images = torch.zeros(2, 2, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match='must have 3 channels, or 1'):
        BatchColorJitter(saturation=0.4)(images, _generator())


@pytest.mark.parametrize('weights', [(1, 1, 1), (0.299, 0.587, 0.114)])
def test_grey_equals_the_host(weights):
    images = _images(8)
    arguments = dict(prob=1.0, keep_channels=True, channel_weights=weights)
    host = RandomGrayscale(**arguments)
    theirs = [host.transform(dict(img=image))['img'] for image in images]
    ours = BatchGrayscale(**arguments)(to_batch(images), _generator())
    assert largest_difference(to_arrays(ours), np.stack(theirs)) <= 1
    assert np.mean(to_arrays(ours) != np.stack(theirs)) < 1e-3


def test_grey_is_as_frequent_as_asked_for():
    numbers = BatchGrayscale(0.2).sample_parameters(_DRAWS, 8, 8, _generator())
    assert abs(numbers.applied.double().mean() - 0.2) < 0.04


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(prob=-1), r'prob must be within \[0, 1\], got -1'),
        (dict(keep_channels=False), 'keep_channels must be True'),
        (dict(channel_weights=(0, 0, 0)), 'not all zero'),
        (dict(color_format='hsv'), "must be 'bgr' or 'rgb', got 'hsv'"),
    ],
)
def test_grey_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchGrayscale(**arguments)


def test_grey_refuses_other_channels():
    images = torch.zeros(2, 4, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match='3 weights and the images have 4 ch'):
        BatchGrayscale(0.5)(images, _generator())
