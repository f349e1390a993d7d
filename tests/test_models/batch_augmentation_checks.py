# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What the tests of augmentations of batches share."""

import cv2
import numpy as np
import torch


def smooth_images(count, height, width, channels=3, seed=0):
    """Random smooth images, uint8 of shape (count, height, width, channels).

    They have areas of few values, and a different range in each channel.
    """
    generator = np.random.default_rng(seed)
    coarse = generator.integers(
        0, 256, (count, 5, 5, channels), dtype=np.uint8
    )
    images = [
        cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC)
        for image in coarse
    ]
    images = np.stack(images).reshape(count, height, width, channels)
    scale = generator.uniform(0.3, 1.0, (count, 1, 1, channels))
    return (images * scale).astype(np.uint8)


def to_batch(images):
    """Arrays (H, W, C) as a tensor (B, C, H, W)."""
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()


def to_arrays(batch):
    """A tensor (B, C, H, W) as an array (B, H, W, C)."""
    assert batch.dtype == torch.uint8
    return batch.permute(0, 2, 3, 1).numpy()


def largest_difference(ours, theirs):
    """Largest difference of pixels, in levels of 255."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return np.abs(ours.astype(int) - theirs.astype(int)).max()


def assert_same_distribution(ours, theirs):
    """Two-sample test of Kolmogorov and Smirnov, at about 1e-4."""
    ours, theirs = (np.sort(np.asarray(x, float)) for x in (ours, theirs))
    points = np.concatenate([ours, theirs])
    gaps = np.searchsorted(ours, points, 'right') / len(ours)
    gaps = gaps - np.searchsorted(theirs, points, 'right') / len(theirs)
    bound = 2.23 * np.sqrt(1 / len(ours) + 1 / len(theirs))
    assert np.abs(gaps).max() < bound, (np.abs(gaps).max(), bound)


def assert_same_frequencies(ours, theirs):
    """Compare the frequency of each value, within 4.5 deviations."""
    ours, theirs = list(ours), list(theirs)
    assert set(ours) == set(theirs)
    for value in set(ours):
        first = ours.count(value) / len(ours)
        second = theirs.count(value) / len(theirs)
        mean = (first + second) / 2
        spread = np.sqrt(mean * (1 - mean) * (1 / len(ours) + 1 / len(theirs)))
        assert abs(first - second) <= 4.5 * spread, (value, first, second)
