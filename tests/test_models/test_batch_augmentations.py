# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What holds for all augmentations of batches."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch
from batch_augmentation_checks import smooth_images, to_batch

import mmgeom.models.batch_augmentations  # noqa: F401
from mmgeom.models.batch_augmentations import choice
from mmgeom.registry import MODELS

_JITTER = dict(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
_RAND_AUGMENT = dict(
    policies='timm_increasing',
    num_policies=2,
    magnitude_level=7,
    magnitude_std=0.5,
)
CONFIGS = [
    dict(type='mmgeom.BatchRandomCrop', crop_size=(14, 15), padding=2),
    dict(
        type='mmgeom.BatchRandomFlip',
        prob=[0.3, 0.3, 0.3],
        direction=['horizontal', 'vertical', 'diagonal'],
    ),
    dict(type='mmgeom.BatchCutout', shape=6, prob=0.5),
    dict(type='mmgeom.BatchRandomResizedCrop', scale=(11, 19)),
    dict(type='mmgeom.BatchColorJitter', prob=0.8, **_JITTER),
    dict(type='mmgeom.BatchGrayscale', prob=0.5),
    dict(type='mmgeom.BatchAutoAugment'),
    dict(type='mmgeom.BatchRandAugment', **_RAND_AUGMENT),
]
_names = [config['type'].rpartition('.')[2] for config in CONFIGS]
for_all = pytest.mark.parametrize('config', CONFIGS, ids=_names)


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _batch(channels=3, count=24):
    return to_batch(smooth_images(count, 15, 17, channels))


@for_all
@pytest.mark.parametrize('channels', [1, 3])
def test_gives_other_images_of_uint8(config, channels):
    images = _batch(channels)
    before = images.clone()
    found = MODELS.build(config)(images, _generator())
    assert found.dtype == torch.uint8
    assert found.shape[:2] == images.shape[:2]
    assert torch.equal(images, before)
    assert found.data_ptr() != images.data_ptr()
    if channels == 3:
        assert found.shape != images.shape or not torch.equal(found, images)


@for_all
def test_depends_on_the_generator_only(config):
    images, augmentation = _batch(), MODELS.build(config)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    first = augmentation(images, _generator(3))
    again = augmentation(images, _generator(3))
    other = augmentation(images, _generator(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1][1])
    assert torch.equal(torch.get_rng_state(), states[2])


@for_all
def test_images_do_not_see_each_other(config):
    """Rows of parameters belong to images: a part gives a part."""
    images, augmentation = _batch(), MODELS.build(config)
    numbers = augmentation.sample_parameters(24, 15, 17, _generator())
    rows = torch.tensor([5, 20, 3])
    part = type(numbers)(*(values[rows] for values in numbers))
    whole = augmentation.augment(images, numbers)
    assert torch.equal(augmentation.augment(images[rows], part), whole[rows])


@for_all
def test_same_pixels_without_selection(config, monkeypatch):
    """On other devices all images are changed, and some are taken."""
    images, augmentation = _batch(), MODELS.build(config)
    found = augmentation(images, _generator())
    monkeypatch.setattr(choice, '_change_rows', choice._change_all)
    assert torch.equal(augmentation(images, _generator()), found)


@for_all
def test_empty_batch(config):
    found = MODELS.build(config)(_batch()[:0], _generator())
    assert found.shape[0] == 0
    assert found.dtype == torch.uint8


@for_all
def test_images_in_any_memory_format(config):
    images, augmentation = _batch(), MODELS.build(config)
    strided = images.to(memory_format=torch.channels_last)
    found = augmentation(strided, _generator())
    assert torch.equal(found, augmentation(images, _generator()))


@for_all
def test_has_no_state_to_save(config):
    assert not MODELS.build(config).state_dict()


@for_all
@pytest.mark.parametrize(
    'copy', [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_can_be_copied(config, copy):
    images, augmentation = _batch(), MODELS.build(config)
    found = copy(augmentation)(images, _generator())
    assert torch.equal(found, augmentation(images, _generator()))


@for_all
def test_can_be_part_of_a_model(config):
    """`apply` of a module visits its children; ours leave it alone."""
    seen = []
    model = torch.nn.Sequential(MODELS.build(config))
    model.apply(lambda module: seen.append(type(module)))
    assert len(seen) == 2


def test_refuses_other_types():
    crop = MODELS.build(CONFIGS[0])
    with pytest.raises(TypeError, match=r'uint8, got torch\.float32'):
        crop(torch.zeros(2, 3, 8, 8), _generator())


def test_refuses_other_shapes():
    crop = MODELS.build(CONFIGS[0])
    images = torch.zeros(3, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r'\(B, C, H, W\), got \(3, 8, 8\)'):
        crop(images, _generator())


def test_refuses_a_generator_elsewhere():
    crop = MODELS.build(CONFIGS[0])
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8, device='meta')
    with pytest.raises(ValueError, match='images are on meta and the gen'):
        crop(images, _generator())


@for_all
@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')
def test_on_cuda(config):
    """The same pixels as on the CPU, and the host never waits."""
    images, augmentation = _batch(), MODELS.build(config)
    numbers = augmentation.sample_parameters(24, 15, 17, _generator())
    found = augmentation.augment(images, numbers)
    augmentation.cuda()
    numbers = type(numbers)(*(values.cuda() for values in numbers))
    images = images.cuda()
    ours = augmentation.augment(images, numbers).cpu()
    assert (ours.int() - found.int()).abs().max() <= 1
    generator = torch.Generator('cuda').manual_seed(0)
    torch.cuda.set_sync_debug_mode('error')
    try:
        augmentation(images, generator)
    finally:
        torch.cuda.set_sync_debug_mode('default')
