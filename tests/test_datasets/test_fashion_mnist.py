# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import gzip
import struct

import numpy as np
import pytest
import torchvision
from mmpretrain.structures import DataSample

from mmgeom.datasets.fashion_mnist import FashionMNIST
from mmgeom.registry import DATASETS

SIZES = {'train': 5, 't10k': 3}


def idx_bytes(array):
    """The idx file of an array of bytes."""
    header = struct.pack('>BBBB', 0, 0, 8, array.ndim)
    lengths = struct.pack(f'>{array.ndim}I', *array.shape)
    return header + lengths + array.tobytes()


def arrays(prefix):
    """Images and labels that differ between the splits."""
    size = SIZES[prefix]
    generator = np.random.default_rng(size)
    images = generator.integers(0, 256, (size, 28, 28), dtype=np.uint8)
    return images, np.arange(size, dtype=np.uint8) * 2


def write(folder, zipped=False):
    """Write the four files of the dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in SIZES:
        images, labels = arrays(prefix)
        for name, array in (
            ('images-idx3-ubyte', images),
            ('labels-idx1-ubyte', labels),
        ):
            content = idx_bytes(array)
            path = folder / f'{prefix}-{name}'
            if zipped:
                path = path.with_name(path.name + '.gz')
                content = gzip.compress(content)
            path.write_bytes(content)


@pytest.mark.parametrize('zipped', [False, True])
@pytest.mark.parametrize('folder', ['', 'FashionMNIST/raw'])
@pytest.mark.parametrize('test_mode', [False, True])
def test_split_is_obeyed(tmp_path, zipped, folder, test_mode):
    write(tmp_path / folder, zipped)
    for split, prefix in (('train', 'train'), ('test', 't10k')):
        dataset = FashionMNIST(str(tmp_path), split, test_mode=test_mode)
        images, labels = arrays(prefix)
        assert np.array_equal(dataset.images, images)
        assert dataset.get_gt_labels().tolist() == labels.tolist()


def test_registry_and_pipeline(tmp_path):
    write(tmp_path)
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.FashionMNIST',
            'data_root': str(tmp_path),
            'indices': [4, 1],
            'pipeline': [{'type': 'PackInputs'}],
        }
    )
    assert isinstance(dataset, FashionMNIST)
    assert dataset.CLASSES[-1] == 'Ankle boot'
    item = dataset[0]
    assert isinstance(item['data_samples'], DataSample)
    assert item['data_samples'].gt_label.tolist() == [8]
    assert np.array_equal(item['inputs'][0].numpy(), arrays('train')[0][4])
    assert dataset.get_gt_labels().tolist() == [8, 2]


def test_missing_file(tmp_path):
    message = (
        "train-images-idx3-ubyte' does not exist, neither as .gz nor below "
        'FashionMNIST/raw: get it from https://.* or set `download=True`'
    )
    with pytest.raises(FileNotFoundError, match=message):
        FashionMNIST(str(tmp_path))
    write(tmp_path)
    (tmp_path / 't10k-labels-idx1-ubyte').unlink()
    assert len(FashionMNIST(str(tmp_path))) == 5
    with pytest.raises(FileNotFoundError, match='t10k-labels-idx1-ubyte'):
        FashionMNIST(str(tmp_path), 'test')


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'\x00\x00\x08',
        idx_bytes(np.zeros((2, 28, 28), np.uint8))[:-1],
        idx_bytes(np.zeros((2, 28, 28), np.uint8)) + b'\x00',
        idx_bytes(np.zeros(2 * 28 * 28, np.uint8)),
        b'\x00\x00\x0d' + idx_bytes(np.zeros((2, 2, 2), np.uint8))[3:],
    ],
)
def test_damaged_idx_file(tmp_path, content):
    write(tmp_path)
    (tmp_path / 'train-images-idx3-ubyte').write_bytes(content)
    message = r"images-idx3-ubyte' is not an intact idx file of bytes with 3"
    with pytest.raises(ValueError, match=message):
        FashionMNIST(str(tmp_path))


@pytest.mark.parametrize('damage', ['cut', 'not gzip', 'bits'])
def test_damaged_gzip_file(tmp_path, damage):
    write(tmp_path, zipped=True)
    path = tmp_path / 'train-images-idx3-ubyte.gz'
    content = bytearray(path.read_bytes())
    if damage == 'cut':
        content = content[:-20]
    elif damage == 'bits':
        content[20:60] = b'\xff' * 40
    else:
        content = b'text'
    path.write_bytes(content)
    with pytest.raises(ValueError, match='ubyte.gz. is not an intact gzip'):
        FashionMNIST(str(tmp_path))


def test_lengths_differ(tmp_path):
    write(tmp_path)
    labels = idx_bytes(np.zeros(4, np.uint8))
    (tmp_path / 'train-labels-idx1-ubyte').write_bytes(labels)
    with pytest.raises(ValueError, match='has 5 images but labels of shape'):
        FashionMNIST(str(tmp_path))


def test_label_out_of_range(tmp_path):
    write(tmp_path)
    labels = idx_bytes(np.array([0, 1, 10, 2, 11], np.uint8))
    (tmp_path / 'train-labels-idx1-ubyte').write_bytes(labels)
    message = r'FashionMNIST sample 2 has label 10, outside \[0, 10\)'
    with pytest.raises(ValueError, match=message):
        FashionMNIST(str(tmp_path))


def test_empty_file(tmp_path):
    write(tmp_path)
    for name, shape in (('images-idx3', (0, 28, 28)), ('labels-idx1', 0)):
        content = idx_bytes(np.zeros(shape, np.uint8))
        (tmp_path / f'train-{name}-ubyte').write_bytes(content)
    with pytest.raises(ValueError, match='FashionMNIST holds no samples'):
        FashionMNIST(str(tmp_path))


def test_wrong_split(tmp_path):
    with pytest.raises(ValueError, match="FashionMNIST has no split 't10k'"):
        FashionMNIST(str(tmp_path), 't10k')


def test_download(tmp_path, monkeypatch):
    calls = []

    def source(root, train, download):
        calls.append((root, train, download))
        write(tmp_path / 'FashionMNIST' / 'raw')

    monkeypatch.setattr(torchvision.datasets, 'FashionMNIST', source)
    for _ in range(2):
        dataset = FashionMNIST(str(tmp_path), 'test', download=True)
        assert len(dataset) == 3
    assert calls == [(str(tmp_path), False, True)]


def test_failed_download(tmp_path, monkeypatch):
    def source(root, train, download):
        raise RuntimeError('no network')

    monkeypatch.setattr(torchvision.datasets, 'FashionMNIST', source)
    message = r'FashionMNIST could not be downloaded into .*\(no network\)'
    with pytest.raises(RuntimeError, match=message):
        FashionMNIST(str(tmp_path), download=True)
