# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""AutoAugment of batches against that of images of Pillow."""

import itertools

import numpy as np
import pytest
import torch
from batch_augmentation_checks import (
    assert_same_frequencies,
    smooth_images,
    to_arrays,
    to_batch,
)
from torchvision.transforms import AutoAugment, AutoAugmentPolicy

from mmgeom.datasets.transforms import CIFARAutoAugment
from mmgeom.models.batch_augmentations import (
    BatchAutoAugment,
    batch_auto_augment,
)

_DRAWS = 20000
# Pairs with signs: 0 stands for minus, as in torchvision.
_CASES = list(itertools.product(range(25), (0, 1), (0, 1)))


@pytest.fixture
def known_draws(monkeypatch):
    """Let a batch have each pair with each sign, always applied."""
    pairs, *signs = torch.tensor(_CASES).t()
    never = torch.zeros(len(_CASES))
    numbers = torch.stack(
        [(pairs + 0.5) / 25, never, never, *(0.25 + 0.5 * s for s in signs)]
    )
    monkeypatch.setattr(
        batch_auto_augment, 'uniform', lambda *_, generator: numbers
    )


def _host(policy, fill, channel_order, image):
    """Images by torchvision, with each pair and each sign."""
    host = CIFARAutoAugment(fill=fill, channel_order=channel_order)
    host._augment = AutoAugment(AutoAugmentPolicy(policy), fill=fill)
    for pair, *signs in _CASES:
        draws = pair, torch.zeros(2), torch.tensor(signs)
        host._augment.get_params = lambda _, draws=draws: draws
        yield host.transform(dict(img=image))['img']


@pytest.mark.parametrize('channel_order', ['rgb', 'bgr'])
@pytest.mark.parametrize(
    'shape', [(32, 32, 3), (28, 28, 1), (17, 23, 3), (8, 8, 1), (2, 1, 3)]
)
@pytest.mark.parametrize('policy', ['cifar10', 'imagenet', 'svhn'])
def test_equals_torchvision(policy, shape, channel_order, known_draws):
    image = smooth_images(1, *shape)[0]
    augmentation = BatchAutoAugment(77, channel_order, policy)
    batch = to_batch([image] * len(_CASES))
    ours = augmentation(batch, torch.Generator())
    theirs = np.stack(list(_host(policy, 77, channel_order, image)))
    assert np.array_equal(to_arrays(ours), theirs)


@pytest.fixture(scope='module')
def numbers():
    generator = torch.Generator().manual_seed(0)
    return BatchAutoAugment().sample_parameters(_DRAWS, 32, 32, generator)


def test_draws_pairs_as_torchvision(numbers):
    names = [
        tuple(name for name, _, _ in pair)
        for pair in AutoAugment(AutoAugmentPolicy.CIFAR10).policies
    ]
    ours = [
        tuple(batch_auto_augment._NAMES[number] for number in row)
        for row in numbers.operations.tolist()
    ]
    chosen = np.random.default_rng(0).integers(0, 25, _DRAWS)
    assert_same_frequencies(ours, [names[pair] for pair in chosen])


def test_applies_as_often_as_torchvision(numbers):
    """Of the steps with an operation, those that are done."""
    table = np.zeros((2, 14)), np.zeros((2, 14))
    for pair in AutoAugment(AutoAugmentPolicy.CIFAR10).policies:
        for step, (name, prob, _) in enumerate(pair):
            number = batch_auto_augment._NAMES.index(name)
            table[0][step, number] += 1 / 25
            table[1][step, number] += prob / 25
    for step, number in itertools.product(range(2), range(14)):
        chosen = numbers.operations[:, step] == number
        done = (chosen & numbers.applied[:, step]).double().mean()
        expected = table[1][step, number]
        spread = np.sqrt(expected * (1 - expected) / _DRAWS)
        assert abs(done - expected) <= 4.5 * spread


def test_signs_are_even_and_independent(numbers):
    signed = (numbers.operations < 9) & (numbers.magnitudes != 0)
    both = signed.all(1)
    signs = (numbers.magnitudes[both] > 0).long()
    counts = torch.bincount(signs[:, 0] * 2 + signs[:, 1], minlength=4)
    expected = len(signs) / 4
    # Chi-square with 3 degrees of freedom: 21 at 1e-4.
    assert len(signs) > 2000
    assert ((counts - expected) ** 2 / expected).sum() < 21


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(fill=256), r'fill must be an int in 0\.\.255, got 256'),
        (dict(policy='mnist'), "policy must be one of .* got 'mnist'"),
        (dict(channel_order='gbr'), "must be 'bgr' or 'rgb', got 'gbr'"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchAutoAugment(**arguments)
