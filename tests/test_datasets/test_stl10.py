# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torchvision
from mmpretrain.structures import DataSample

from mmgeom.datasets.stl10 import STL10
from mmgeom.registry import DATASETS

# The file's labels are 1..10.
LABELS = {'train': [1, 10, 3, 9], 'test': [5, 1, 2]}


def images(split):
    """Images (N, 96, 96, 3), red brighter than blue."""
    size = len(LABELS[split])
    generator = np.random.default_rng(size)
    array = generator.integers(0, 100, (size, 96, 96, 3), dtype=np.uint8)
    array[..., 0] += 150
    return array


@pytest.fixture
def root(tmp_path):
    """A folder with small files of the dataset's form."""
    folder = tmp_path / 'stl10_binary'
    folder.mkdir()
    for split, labels in LABELS.items():
        # The file is column-major: channel, column, row.
        content = images(split).transpose(0, 3, 2, 1).tobytes()
        (folder / f'{split}_X.bin').write_bytes(content)
        (folder / f'{split}_y.bin').write_bytes(bytes(labels))
    (folder / 'unlabeled_X.bin').write_bytes(b'')
    return tmp_path


@pytest.fixture
def trusted(monkeypatch):
    """Let torchvision take our files for the published ones."""
    monkeypatch.setattr(
        torchvision.datasets.STL10, '_check_integrity', lambda self: True
    )


@pytest.mark.parametrize('split', list(LABELS))
@pytest.mark.parametrize('test_mode', [False, True])
def test_split_is_obeyed(root, trusted, split, test_mode):
    dataset = STL10(str(root), split, test_mode=test_mode)
    assert np.array_equal(dataset.images, images(split))
    expected = [label - 1 for label in LABELS[split]]
    assert dataset.get_gt_labels().tolist() == expected
    info = dataset.get_data_info(0)
    assert np.array_equal(info['img'], images(split)[0])
    assert info['gt_label'] == expected[0]


def test_registry_and_pipeline(root, trusted):
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.STL10',
            'data_root': str(root),
            'indices': [3, 1],
            'pipeline': [{'type': 'PackInputs'}],
        }
    )
    item = dataset[1]
    assert item['inputs'].shape == (3, 96, 96)
    assert item['inputs'][0].min() >= 150
    assert item['inputs'][1:].max() < 100
    assert isinstance(item['data_samples'], DataSample)
    labels = [dataset[i]['data_samples'].gt_label.item() for i in range(2)]
    assert dataset.get_gt_labels().tolist() == labels == [8, 9]
    assert dataset.CLASSES[9] == 'truck'


@pytest.mark.parametrize('name', ['train_X.bin', 'unlabeled_X.bin'])
def test_missing_file(root, name):
    (root / 'stl10_binary' / name).unlink()
    message = (
        rf"stl10_binary/{name}' does not exist: get stl10_binary\.tar\.gz "
        'from .*stl10 and unpack it in `data_root`, or set `download=True`'
    )
    with pytest.raises(FileNotFoundError, match=message):
        STL10(str(root))


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match='stl10_binary.* not exist'):
        STL10(str(tmp_path / 'nowhere'))


def test_damaged_file(root):
    with pytest.raises(ValueError, match='does not have the MD5 sum of the'):
        STL10(str(root))


def test_label_zero_in_the_file(root, trusted):
    labels = bytes([1, 0, 3, 9])
    (root / 'stl10_binary' / 'train_y.bin').write_bytes(labels)
    with pytest.raises(ValueError, match='STL10 sample 1 has label 255'):
        STL10(str(root))


def test_wrong_split(root):
    with pytest.raises(ValueError, match="STL10 has no split 'unlabeled'"):
        STL10(str(root), 'unlabeled')


def test_download(root, trusted, monkeypatch):
    calls = []
    monkeypatch.setattr(
        torchvision.datasets.STL10,
        'download',
        lambda self: calls.append((self.root, self.split)),
    )
    assert len(STL10(str(root), 'test')) == 3
    assert calls == []
    assert len(STL10(str(root), 'test', download=True)) == 3
    assert calls == [(str(root), 'test')]


def test_failed_download(root, monkeypatch):
    def download(self):
        raise RuntimeError('no network')

    monkeypatch.setattr(torchvision.datasets.STL10, 'download', download)
    message = r'STL10 could not be downloaded into .*\(no network\): get it b'
    with pytest.raises(RuntimeError, match=message):
        STL10(str(root), download=True)
