# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Crops, flips and cutouts of batches against the host's of an image."""

import mmcv
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
from mmcv.transforms import RandomFlip
from mmpretrain.datasets.transforms import (
    Cutout,
    RandomCrop,
    RandomResizedCrop,
)

from mmgeom.models.batch_augmentations import (
    BatchCutout,
    BatchRandomCrop,
    BatchRandomFlip,
    BatchRandomResizedCrop,
    batch_random_flip,
)
from mmgeom.models.batch_augmentations.batch_random_crop import CropParameters

_DRAWS = 3000


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def numpy_seed():
    """The host draws from numpy's global generator."""
    state = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(state)


def _host_crop(host, parameters, shape):
    """Let a transform of the host crop at given places, one each time."""
    places = iter(zip(*(values.tolist() for values in parameters)))
    host.rand_crop_params = lambda image: (*next(places), *shape)[:4]
    return host


_CROPS = {
    'plain': dict(crop_size=(9, 11)),
    'one number': dict(crop_size=16, padding=4),
    'two sides': dict(crop_size=12, padding=(3, 1)),
    'four sides': dict(crop_size=(18, 10), padding=(1, 2, 3, 4)),
    'colour': dict(crop_size=16, padding=4, pad_val=(10, 20, 30)),
    'constant': dict(
        crop_size=(23, 26), pad_if_needed=True, pad_val=(9, 8, 7)
    ),
    'edge': dict(crop_size=30, pad_if_needed=True, padding_mode='edge'),
    'reflect': dict(crop_size=30, pad_if_needed=True, padding_mode='reflect'),
    'symmetric': dict(
        crop_size=30,
        padding=2,
        pad_if_needed=True,
        padding_mode='symmetric',
    ),
    'longer than a side': dict(crop_size=(8, 40)),
    'same size': dict(crop_size=(16, 18)),
}


@pytest.mark.parametrize('name', _CROPS)
def test_crop_equals_the_host(name):
    arguments = _CROPS[name]
    images = smooth_images(8, 16, 18)
    crop = BatchRandomCrop(**arguments)
    numbers = crop.sample_parameters(8, 16, 18, _generator())
    ours = to_arrays(crop.augment(to_batch(images), numbers))
    host = _host_crop(RandomCrop(**arguments), numbers, ours.shape[1:3])
    theirs = [host(dict(img=image))['img'] for image in images]
    assert np.array_equal(ours, np.stack(theirs))


@pytest.mark.parametrize(
    ('name', 'padded'),
    [
        ('one number', (24, 26)),
        ('four sides', (22, 22)),
        # An odd number of rows is missing, and one more is added.
        ('constant', (24, 26)),
    ],
)
def test_crop_is_where_the_host_crops(name, padded, numpy_seed):
    arguments = _CROPS[name]
    crop, host = BatchRandomCrop(**arguments), RandomCrop(**arguments)
    numbers = crop.sample_parameters(_DRAWS, 16, 18, _generator())
    image = np.empty((*padded, 3), np.uint8)
    draws = [host.rand_crop_params(image)[:2] for _ in range(_DRAWS)]
    for ours, theirs in zip(numbers, zip(*draws)):
        assert_same_frequencies(ours.tolist(), theirs)


_LAYOUTS = {
    'contiguous': lambda images: images,
    'channels last': lambda images: images.to(
        memory_format=torch.channels_last
    ),
    'transposed': lambda images: images.mT.contiguous().mT,
    # Begins behind the start of its memory and ends before its end.
    'part': lambda images: torch.nn.functional.pad(images, (1, 2, 3, 4))[
        ..., 3:-4, 1:-2
    ],
    'every second': lambda images: images.repeat_interleave(2, 0)[1::2],
    'one for all': lambda images: images[:1].expand_as(images),
}


@pytest.mark.parametrize('padding', [None, 2])
@pytest.mark.parametrize('name', _LAYOUTS)
def test_crop_of_images_in_any_layout(name, padding):
    images = _LAYOUTS[name](to_batch(smooth_images(6, 9, 12)))
    crop = BatchRandomCrop((7, 8), padding=padding)
    spare = torch.tensor([[2], [4]]) + 2 * (padding or 0)
    corners = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]) * spare
    # Both ends of the memory, and something between.
    places = torch.cat([corners[:, :2], spare // 2, corners], 1)[:, :6]
    places[:, -1] = spare[:, 0]
    found = crop.augment(images, CropParameters(*places))
    sides = [padding or 0] * 4
    padded = torch.nn.functional.pad(images, sides)
    expected = [
        image[:, top : top + 7, left : left + 8]
        for image, top, left in zip(padded, *places.tolist())
    ]
    assert torch.equal(found, torch.stack(expected))


def test_crop_is_independent_in_rows_and_columns():
    crop = BatchRandomCrop(4, padding=1)
    top, left = crop.sample_parameters(_DRAWS, 4, 4, _generator())
    counts = torch.bincount(top * 3 + left, minlength=9).double()
    expected = _DRAWS / 9
    # Chi-square with 8 degrees of freedom: 32 at 1e-4.
    assert ((counts - expected) ** 2 / expected).sum() < 32


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(crop_size=0), 'crop_size must be a positive int or two'),
        (dict(crop_size=(3, 3, 3)), 'crop_size must be a positive int or tw'),
        (dict(crop_size=8, padding=-1), 'padding must be an int, or 2 or 4'),
        (dict(crop_size=8, padding=(1, 2, 3)), 'padding must be an int, or'),
        (dict(crop_size=8, padding_mode='wrap'), "one of .*, got 'wrap'"),
        (dict(crop_size=8, pad_val=256), r'pad_val must be a number in 0\.\.'),
    ],
)
def test_crop_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchRandomCrop(**arguments)


def test_fill_of_other_channels():
    crop = BatchRandomCrop(8, padding=2, pad_val=(1, 2, 3))
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match='3 values and the images have 1 ch'):
        crop(images, _generator())


_FLIPS = [
    dict(prob=0.5),
    dict(prob=0.7, direction=['vertical', 'diagonal']),
    dict(
        prob=[0.2, 0.3, 0.1], direction=['diagonal', 'horizontal', 'vertical']
    ),
    dict(prob=1.0, direction='vertical'),
    dict(prob=0.0),
]


def test_flip_equals_the_host():
    images = smooth_images(4, 9, 12)
    names = ['horizontal', 'vertical', 'diagonal']
    flip = BatchRandomFlip(0.5, names)
    numbers = (torch.arange(4),)
    type_of_numbers = type(flip.sample_parameters(1, 9, 12, _generator()))
    ours = flip.augment(to_batch(images), type_of_numbers(*numbers))
    theirs = [mmcv.imflip(i, name) for i, name in zip(images, names)]
    assert np.array_equal(to_arrays(ours), np.stack([*theirs, images[3]]))


@pytest.mark.parametrize('arguments', _FLIPS)
def test_flip_is_as_frequent_as_the_host(arguments, numpy_seed):
    flip, host = BatchRandomFlip(**arguments), RandomFlip(**arguments)
    numbers = flip.sample_parameters(_DRAWS, 8, 8, _generator())
    names = [*flip.direction, None]
    ours = [names[number] for number in numbers.direction]
    theirs = [host._choose_direction() for _ in range(_DRAWS)]
    assert_same_frequencies(ours, theirs)


def test_flip_of_probability_zero(monkeypatch):
    """The smallest number, which is zero, is not below zero."""
    monkeypatch.setattr(
        batch_random_flip, 'uniform', lambda *shape, **_: torch.zeros(shape)
    )
    flip = BatchRandomFlip([0.0, 0.3], ['vertical', 'diagonal'])
    numbers = flip.sample_parameters(4, 8, 8, _generator())
    assert numbers.direction.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ('prob', 'direction', 'message'),
    [
        (1.5, 'horizontal', r'prob must be within \[0, 1\], got 1.5'),
        (0.5, 'left', "direction must be one or more of .* got 'left'"),
        ([0.5], ['vertical', 'diagonal'], 'one for each direction'),
        ([0.6, 0.6], ['vertical', 'diagonal'], 'add up to at most 1'),
    ],
)
def test_flip_refuses(prob, direction, message):
    with pytest.raises(ValueError, match=message):
        BatchRandomFlip(prob, direction)


def _cut_places(images):
    """First row, first column and area of the filled pixels."""
    found = []
    for image in images:
        rows, columns = np.nonzero(image[..., 0])
        found.append((rows.min(), columns.min(), len(rows)))
    return zip(*found)


@pytest.mark.parametrize('shape', [6, (5, 20), 7])
def test_cutout_equals_the_host(shape, numpy_seed):
    height, width = 14, 18
    blank = np.zeros((height, width, 3), np.uint8)
    host = Cutout(shape, pad_val=(1, 2, 3), prob=1.0)
    theirs = np.stack([host(dict(img=blank))['img'] for _ in range(_DRAWS)])
    cutout = BatchCutout(shape, pad_val=(1, 2, 3), prob=1.0)
    batch = torch.zeros(_DRAWS, 3, height, width, dtype=torch.uint8)
    numbers = cutout.sample_parameters(_DRAWS, height, width, _generator())
    ours = to_arrays(cutout.augment(batch, numbers))
    top, left, _ = map(torch.tensor, _cut_places(theirs))
    same = numbers._replace(top=top, left=left)
    assert np.array_equal(to_arrays(cutout.augment(batch, same)), theirs)
    for first, second in zip(_cut_places(ours), _cut_places(theirs)):
        assert_same_distribution(first, second)


def test_cutout_is_as_frequent_as_asked_for():
    cutout = BatchCutout(4, prob=0.3)
    numbers = cutout.sample_parameters(_DRAWS, 8, 8, _generator())
    assert abs(numbers.applied.double().mean() - 0.3) < 0.04


@pytest.mark.parametrize('interpolation', ['bilinear', 'nearest'])
@pytest.mark.parametrize('scale', [32, (7, 11), (16, 18), (50, 40)])
def test_resized_crop_equals_the_host(scale, interpolation):
    images = smooth_images(40, 16, 18)
    images[20:] = np.random.default_rng(0).integers(0, 256, images[20:].shape)
    crop = BatchRandomResizedCrop(scale, interpolation=interpolation)
    numbers = crop.sample_parameters(40, 16, 18, _generator())
    ours = to_arrays(crop.augment(to_batch(images), numbers))
    host = RandomResizedCrop(scale, interpolation=interpolation)
    host = _host_crop(host, numbers, ())
    theirs = np.stack([host(dict(img=image))['img'] for image in images])
    allowed = 1 if interpolation == 'bilinear' else 0
    assert largest_difference(ours, theirs) <= allowed
    assert np.mean(ours != theirs) < 0.15


@pytest.mark.parametrize(
    ('size', 'arguments'),
    [
        ((32, 32), {}),
        ((20, 44), {}),
        # Many attempts fail, and so do all of some images.
        ((8, 32), dict(crop_ratio_range=(0.3, 1.0), max_attempts=2)),
        ((32, 8), dict(crop_ratio_range=(0.3, 1.0), max_attempts=2)),
        ((32, 30), dict(aspect_ratio_range=(0.2, 5.0), max_attempts=1)),
    ],
)
def test_resized_crop_is_where_the_host_crops(size, arguments, numpy_seed):
    crop = BatchRandomResizedCrop(8, **arguments)
    host = RandomResizedCrop(8, **arguments)
    numbers = crop.sample_parameters(_DRAWS, *size, _generator())
    image = np.empty((*size, 3), np.uint8)
    draws = [host.rand_crop_params(image) for _ in range(_DRAWS)]
    for ours, theirs in zip(numbers, zip(*draws)):
        assert_same_distribution(ours.tolist(), theirs)
    shapes = numbers.height * 1000 + numbers.width
    assert_same_distribution(shapes, [h * 1000 + w for _, _, h, w in draws])


@pytest.mark.parametrize('size', [(8, 32), (32, 8), (16, 18)])
def test_resized_crop_without_attempts(size):
    crop = BatchRandomResizedCrop(8, max_attempts=0)
    numbers = crop.sample_parameters(3, *size, _generator())
    host = RandomResizedCrop(8, max_attempts=0)
    expected = host.rand_crop_params(np.empty((*size, 3), np.uint8))
    for ours, theirs in zip(numbers, expected):
        assert ours.tolist() == [theirs] * 3


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(scale=(8, 0)), 'scale must be a positive int or two of them'),
        (dict(scale=8, interpolation='lanczos'), "one of .*, got 'lanczos'"),
        (dict(scale=8, backend='pillow'), "must be 'cv2' for batches"),
        (dict(scale=8, max_attempts=-1), 'not negative, got -1'),
        (dict(scale=8, crop_ratio_range=(1, 0.5)), 'crop_ratio_range must be'),
        (dict(scale=8, aspect_ratio_range=(0, 1)), 'aspect_ratio_range must'),
    ],
)
def test_resized_crop_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchRandomResizedCrop(**arguments)
