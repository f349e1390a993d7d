# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Resizing a batch against the host's resizing of an image."""

import numpy as np
import pytest
import torch
from mmcv.transforms import Resize

from mmgeom.models.batch_augmentations.batch_resize import BatchResize


@pytest.mark.parametrize('scale', [14, 40, (20, 9)])
@pytest.mark.parametrize('channels', [1, 3])
def test_equals_the_host(scale, channels):
    shape = (5, channels, 28, 30)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, shape, dtype=np.uint8)
    found = BatchResize(scale)(torch.tensor(images))
    assert found.dtype == torch.uint8
    for image, ours in zip(images, found):
        rows = np.ascontiguousarray(image.transpose(1, 2, 0))
        host = Resize(scale)(dict(img=rows))['img'].reshape(
            *ours.shape[1:], channels
        )
        theirs = host.transpose(2, 0, 1).astype(int)
        difference = np.abs(theirs - ours.numpy().astype(int))
        assert difference.max() <= 1
        assert difference.mean() < 0.2


def test_halving_is_exact():
    generator = np.random.default_rng(1)
    image = generator.integers(0, 256, (28, 28), dtype=np.uint8)
    host = Resize(14)(dict(img=image))['img']
    ours = BatchResize(14)(torch.tensor(image)[None, None])[0, 0]
    assert np.array_equal(ours.numpy(), host)


def test_keeps_images_of_the_size():
    images = torch.zeros(2, 1, 6, 8, dtype=torch.uint8)
    assert BatchResize((8, 6))(images) is images


@pytest.mark.parametrize('scale', [0, (3,), (4, 2.5), 'x'])
def test_wrong_scale(scale):
    with pytest.raises(ValueError, match='scale of BatchResize must be'):
        BatchResize(scale)
