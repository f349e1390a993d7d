# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import sys

import numpy as np
import pytest
import torchvision
from mmpretrain.structures import DataSample
from scipy.io import savemat

from mmgeom.datasets.svhn import SVHN
from mmgeom.registry import DATASETS

# The file's labels are 1..10, with 10 for the digit 0.
LABELS = {'train': [1, 10, 3, 9], 'extra': [10, 10, 2], 'test': [5]}


def images(split):
    """Images (N, 32, 32, 3), red brighter than blue."""
    size = len(LABELS[split])
    generator = np.random.default_rng(size)
    array = generator.integers(0, 100, (size, 32, 32, 3), dtype=np.uint8)
    array[..., 0] += 150
    return array


@pytest.fixture
def root(tmp_path):
    """A folder with three small files of the dataset's form."""
    for split, labels in LABELS.items():
        content = {
            'X': images(split).transpose(1, 2, 3, 0),
            'y': np.array(labels, np.uint8)[:, None],
        }
        savemat(tmp_path / f'{split}_32x32.mat', content)
    return str(tmp_path)


@pytest.fixture
def trusted(monkeypatch):
    """Let torchvision take our files for the published ones."""
    monkeypatch.setattr(
        torchvision.datasets.SVHN, '_check_integrity', lambda self: True
    )


@pytest.mark.parametrize('split', list(LABELS))
@pytest.mark.parametrize('test_mode', [False, True])
def test_split_is_obeyed(root, trusted, split, test_mode):
    dataset = SVHN(root, split, test_mode=test_mode)
    assert np.array_equal(dataset.images, images(split))
    expected = [label % 10 for label in LABELS[split]]
    assert dataset.get_gt_labels().tolist() == expected
    info = dataset.get_data_info(0)
    assert np.array_equal(info['img'], images(split)[0])
    assert info['gt_label'] == expected[0]


def test_registry_and_pipeline(root, trusted):
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.SVHN',
            'data_root': root,
            'indices': 2,
            'pipeline': [{'type': 'PackInputs'}],
        }
    )
    item = dataset[1]
    assert item['inputs'].shape == (3, 32, 32)
    assert item['inputs'][0].min() >= 150
    assert item['inputs'][1:].max() < 100
    assert isinstance(item['data_samples'], DataSample)
    labels = [dataset[i]['data_samples'].gt_label.item() for i in range(2)]
    assert dataset.get_gt_labels().tolist() == labels == [1, 0]
    assert ''.join(dataset.CLASSES) == '0123456789'


@pytest.mark.parametrize('split', list(LABELS))
def test_missing_file(tmp_path, split):
    message = (
        f"{split}_32x32.mat' does not exist: get it from .*housenumbers or "
        'set `download=True`'
    )
    with pytest.raises(FileNotFoundError, match=message):
        SVHN(str(tmp_path), split)


def test_damaged_file(root):
    message = "train_32x32.mat' does not have the MD5 sum of the published"
    with pytest.raises(ValueError, match=message):
        SVHN(root)


def test_wrong_split(root):
    with pytest.raises(ValueError, match="SVHN has no split 'val'"):
        SVHN(root, 'val')


def test_scipy_missing(root, monkeypatch):
    monkeypatch.setitem(sys.modules, 'scipy.io', None)
    with pytest.raises(ImportError, match='SVHN needs the package scipy'):
        SVHN(root)


def test_download(root, trusted, monkeypatch):
    calls = []
    monkeypatch.setattr(
        torchvision.datasets.SVHN,
        'download',
        lambda self: calls.append((self.root, self.split)),
    )
    assert len(SVHN(root, 'extra')) == 3
    assert calls == []
    assert len(SVHN(root, 'extra', download=True)) == 3
    assert calls == [(root, 'extra')]


def test_failed_download(root, monkeypatch):
    def download(self):
        raise OSError('no network')

    monkeypatch.setattr(torchvision.datasets.SVHN, 'download', download)
    message = r'SVHN could not be downloaded into .*\(no network\): get it by'
    with pytest.raises(RuntimeError, match=message):
        SVHN(root, download=True)
