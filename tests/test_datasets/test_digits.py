# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import sys

import numpy as np
import pytest
from mmpretrain.structures import DataSample
from sklearn.datasets import load_digits

from mmgeom.datasets.digits import Digits
from mmgeom.registry import DATASETS

FIRST_SUMS = [4989, 5483, 4256, 5083, 5116]
TRAIN = [128, 132, 127, 133, 131, 132, 131, 129, 124, 130]


def rows(dataset):
    """Images and labels of a dataset as a set."""
    labels = dataset.get_gt_labels()[:, None]
    flat = dataset.images.reshape(len(dataset), -1).astype(np.int64)
    return {tuple(row) for row in np.hstack([flat, labels]).tolist()}


@pytest.mark.parametrize('test_mode', [False, True])
def test_split_sizes(test_mode):
    train = Digits(split='train', test_mode=test_mode)
    test = Digits(split='test', test_mode=test_mode)
    assert np.bincount(train.get_gt_labels()).tolist() == TRAIN
    assert np.bincount(test.get_gt_labels()).tolist() == [50] * 10
    assert len(train) == 1297
    assert len(test) == 500


def test_splits_cover_the_source_once():
    source = load_digits()
    images = np.rint(source.images * 255 / 16).astype(np.int64)
    images = images.reshape(len(images), -1)
    whole = np.hstack([images, source.target[:, None]]).tolist()
    train, test = rows(Digits()), rows(Digits(split='test'))
    assert train.isdisjoint(test)
    assert train | test == {tuple(row) for row in whole}


def test_split_depends_on_the_seed_alone():
    np.random.seed(1)
    state = np.random.get_state()[1].copy()
    first = Digits(split='test')
    assert np.array_equal(np.random.get_state()[1], state)
    np.random.seed(2)
    assert np.array_equal(first.images, Digits(split='test').images)
    other = Digits(split='test', seed=1)
    assert not np.array_equal(first.images, other.images)


def test_default_split_is_this_one():
    # A change would make results of different versions incomparable.
    sums = Digits(split='test').images.reshape(500, -1).sum(axis=1)
    assert sums[:5].tolist() == FIRST_SUMS


def test_pixel_range():
    images = Digits().images
    assert images.shape == (1297, 8, 8)
    assert set(np.unique(images)) == {
        round(255 * value / 16) for value in range(17)
    }


def test_registry_and_pipeline():
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.Digits',
            'split': 'test',
            'indices': 20,
            'pipeline': [{'type': 'PackInputs'}],
        }
    )
    assert len(dataset) == 20
    assert ''.join(dataset.CLASSES) == '0123456789'
    item = dataset[4]
    assert item['inputs'].shape == (1, 8, 8)
    assert isinstance(item['data_samples'], DataSample)
    labels = [dataset[i]['data_samples'].gt_label.item() for i in range(20)]
    assert dataset.get_gt_labels().tolist() == labels


@pytest.mark.parametrize('number', [0, 174, 500])
def test_wrong_test_per_class(number):
    message = rf'test_per_class={number}: it must lie in 1\.\.173'
    with pytest.raises(ValueError, match=message):
        Digits(test_per_class=number)
    assert len(Digits(test_per_class=173)) == 1797 - 1730


def test_wrong_split():
    with pytest.raises(ValueError, match="Digits has no split 'val'"):
        Digits(split='val')


def test_scikit_learn_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, 'sklearn.datasets', None)
    with pytest.raises(ImportError, match='Digits needs the package scikit'):
        Digits()


def test_printed_form():
    assert 'test (50 test images per class, seed 0)' in repr(
        Digits(split='test')
    )
