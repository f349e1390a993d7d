# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""RandAugment of batches against the host's of an image."""

import cv2
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
from mmpretrain.datasets.transforms import RandAugment

from mmgeom.models.batch_augmentations import BatchRandAugment

_DRAWS = 3000
# One value for each channel: of one number, the host fills the first only.
_FILL = dict(pad_val=[104, 116, 124])


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def numpy_seed():
    """The host draws from numpy's global generator."""
    state = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(state)


def _policy(kind, bounds=None, **arguments):
    policy = dict(type=kind, prob=1.0, **arguments)
    return policy if bounds is None else dict(policy, magnitude_range=bounds)


_EXACT = [
    _policy('AutoContrast'),
    _policy('Equalize'),
    _policy('Invert'),
    _policy('Posterize', (4, 0)),
    _policy('Posterize', (0, 8)),
    _policy('Solarize', (256, 0)),
    _policy('SolarizeAdd', (0, 110)),
    _policy('SolarizeAdd', (0, 110), thr=60),
    _policy('Rotate', (0, 30)),
    _policy('Translate', (0, 0.45)),
    _policy('Translate', (0, 0.45), direction='vertical'),
    _policy('Shear', (0, 0.3), interpolation='nearest'),
]
_ROUNDED = [
    _policy('ColorTransform', (0, 0.9)),
    _policy('Contrast', (0, 0.9)),
    _policy('Brightness', (0, 0.9)),
    _policy('Sharpness', (0, 0.9)),
]
_INTERPOLATED = [
    _policy('Shear', (0, 0.3)),
    _policy('Shear', (0, 0.3), direction='vertical'),
    _policy('Shear', (0, 0.3), interpolation='bilinear'),
    _policy('Rotate', (0, 30), interpolation='bilinear'),
    _policy('Rotate', (0, 30), interpolation='bicubic'),
    _policy('Translate', (0, 0.45), interpolation='bicubic'),
]


def _name(policy):
    words = policy.get('direction', ''), policy.get('interpolation', '')
    return ' '.join(filter(None, (policy['type'], *words)))


_SIGNED = {
    'Rotate',
    'Translate',
    'Shear',
    'ColorTransform',
    'Contrast',
    'Brightness',
    'Sharpness',
}


def _both(policy, level, negative):
    """Images by us and by the host, with one operation of known sign."""
    if policy['type'] in _SIGNED:
        policy = dict(policy, random_negative_prob=float(negative))
    arguments = dict(
        policies=[policy],
        num_policies=1,
        magnitude_level=level,
        hparams=_FILL,
    )
    images = smooth_images(4, 24, 21, seed=1)
    images = np.concatenate(
        [images, np.random.default_rng(0).integers(0, 256, images.shape)]
    ).astype(np.uint8)
    host = RandAugment(**arguments)
    theirs = [host(dict(img=image))['img'] for image in images]
    ours = BatchRandAugment(**arguments)(to_batch(images), _generator())
    return to_arrays(ours), np.stack(theirs)


@pytest.mark.parametrize('negative', [False, True])
@pytest.mark.parametrize('level', [0, 3, 7.3, 10])
@pytest.mark.parametrize('policy', _EXACT, ids=_name)
def test_equals_the_host(policy, level, negative):
    ours, theirs = _both(policy, level, negative)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize('negative', [False, True])
@pytest.mark.parametrize('level', [0, 3, 7.3, 10])
@pytest.mark.parametrize('policy', _ROUNDED, ids=_name)
def test_equals_the_host_to_rounding(policy, level, negative):
    ours, theirs = _both(policy, level, negative)
    assert largest_difference(ours, theirs) <= 1
    # Exact results are whole numbers now and then, and rounded down.
    assert np.mean(ours != theirs) < 0.12


@pytest.mark.parametrize('negative', [False, True])
@pytest.mark.parametrize('level', [0, 3, 7.3, 10])
@pytest.mark.parametrize('policy', _INTERPOLATED, ids=_name)
def test_equals_the_host_between_pixels(policy, level, negative):
    ours, theirs = _both(policy, level, negative)
    # Before its fifth release OpenCV rounds places to 1/32 pixel.
    exact = int(cv2.__version__.split('.')[0]) >= 5
    assert largest_difference(ours, theirs) <= (1 if exact else 12)
    assert np.mean(np.abs(ours.astype(int) - theirs)) < 1


def test_colours_by_the_order_of_channels():
    images = smooth_images(3, 9, 9)
    policies = [_policy('ColorTransform', (-1, -1), random_negative_prob=0.0)]
    arguments = dict(policies=policies, num_policies=1, magnitude_level=1)
    batch = to_batch(images)
    rgb = BatchRandAugment(**arguments, channel_order='rgb')
    found = to_arrays(rgb(batch, _generator()))
    expected = [cv2.cvtColor(i, cv2.COLOR_RGB2GRAY)[..., None] for i in images]
    assert np.array_equal(found, np.stack(expected).repeat(3, -1))


def test_one_fill_value_is_for_all_channels():
    policies = [_policy('Rotate', (30, 30))]
    augmentation = BatchRandAugment(policies, 1, 10)
    images = torch.zeros(2, 3, 20, 20, dtype=torch.uint8)
    corners = augmentation(images, _generator())[:, :, 0, 0]
    assert (corners == 128).all()


@pytest.mark.parametrize('magnitude_std', [0.5, 'inf', 0, 4.0])
def test_magnitudes_are_those_of_the_host(magnitude_std, numpy_seed):
    arguments = dict(
        policies=[dict(type='Rotate', magnitude_range=(5, 30))],
        num_policies=1,
        magnitude_level=7,
        magnitude_std=magnitude_std,
    )
    host = RandAugment(**arguments).transforms[0]
    theirs = [
        host.random_negative(host.random_magnitude()) for _ in range(_DRAWS)
    ]
    numbers = BatchRandAugment(**arguments).sample_parameters(
        _DRAWS, 8, 8, _generator()
    )
    if magnitude_std:
        assert_same_distribution(numbers.magnitudes[:, 0], theirs)
    else:
        assert_same_frequencies(numbers.magnitudes[:, 0].tolist(), theirs)


def test_choices_are_those_of_the_host(numpy_seed):
    arguments = dict(
        policies='simple_increasing', num_policies=2, magnitude_level=7
    )
    host, ours = RandAugment(**arguments), BatchRandAugment(**arguments)
    numbers = ours.sample_parameters(_DRAWS, 8, 8, _generator())
    theirs = [tuple(host.random_policy_indices()) for _ in range(_DRAWS)]
    assert_same_frequencies(map(tuple, numbers.operations.tolist()), theirs)
    applied = numbers.applied.double()
    assert abs(applied.mean() - 0.5) < 0.03
    assert abs(applied.prod(1).mean() - 0.25) < 0.04


def test_signs_do_not_depend_on_what_is_applied():
    policies = [dict(type='Rotate', magnitude_range=(0, 30))]
    augmentation = BatchRandAugment(policies, 1, 5)
    numbers = augmentation.sample_parameters(_DRAWS, 8, 8, _generator())
    negative = (numbers.magnitudes < 0).double()
    for applied in (True, False):
        part = negative[numbers.applied == applied]
        assert abs(part.mean() - 0.5) < 0.06


def test_policies_of_an_inherited_config():
    policies = [dict(type='mmpretrain.Invert', prob=1.0, _scope_='mmgeom')]
    augmentation = BatchRandAugment(policies, 1, 5)
    images = to_batch(smooth_images(2, 8, 8))
    assert torch.equal(augmentation(images, _generator()), 255 - images)


@pytest.mark.parametrize(
    ('policy', 'message'),
    [
        (dict(type='GaussianBlur'), "have the types .*, got 'GaussianBlur'"),
        (dict(type='Invert', angle=3), r"in a batch, got \['angle'\]"),
        (dict(type='Rotate'), 'Rotate needs magnitude_range'),
        (
            dict(type='Posterize', magnitude_range=(0, 9)),
            r'numbers of bits in 0\.\.8, got \(0, 9\)',
        ),
        (
            dict(type='Shear', magnitude_range=(0, 1), direction='diagonal'),
            "direction of Shear must be one of .* got 'diagonal'",
        ),
        (dict(type='Invert', prob=3), r'within \[0, 1\], got 3'),
    ],
)
def test_refuses_policies(policy, message):
    with pytest.raises(ValueError, match=message):
        BatchRandAugment([policy], 1, 5)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(policies='trivial'), "one of .* got 'trivial'"),
        (dict(policies=[]), 'must list an operation, got none'),
        (dict(num_policies=0), 'num_policies must be at least 1, got 0'),
        (dict(magnitude_level=-1), 'must be positive, got -1 and 10'),
        (dict(magnitude_std='normal'), "or 'inf', got 'normal'"),
        (dict(channel_order='gbr'), "must be 'bgr' or 'rgb', got 'gbr'"),
    ],
)
def test_refuses(arguments, message):
    defaults = dict(
        policies='timm_increasing', num_policies=2, magnitude_level=5
    )
    with pytest.raises(ValueError, match=message):
        BatchRandAugment(**{**defaults, **arguments})


def test_refuses_policies_without_a_type():
    with pytest.raises(TypeError, match='a dict with the key type'):
        BatchRandAugment([dict(prob=1.0)], 1, 5)
