# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Small files in the formats of the public datasets.

Below one folder they lie where the shipped configs look for them.
"""

import json
import pickle
import struct
from pathlib import Path

import cv2
import numpy as np
from scipy.io import savemat

_GENERATOR = np.random.default_rng(0)


def write_all(root: Path) -> None:
    """Write stand-ins of all datasets.

    Args:
        root (Path): Receives the folder ``data``.
    """
    data = root / 'data'
    _write_cifar(data / 'cifar10' / 'cifar-10-batches-py', 10)
    _write_cifar(data / 'cifar100' / 'cifar-100-python', 100)
    _write_fashion_mnist(data / 'fashion-mnist')
    _write_svhn(data / 'svhn')
    _write_stl10(data / 'stl10' / 'stl10_binary')
    for name, prefix in (('imagenet', 'ImageNet'), ('places365', 'Places')):
        _write_lists(data / name, prefix)
    _write_inaturalist(data / 'inaturalist2018')
    for split in ('train', 'val'):
        for label in range(10):
            _write_image(data / 'custom' / split / f'class{label}' / 'a.jpg')
    _write_uci(data / 'uci')
    for name, column in (('agedb', 'AgeDB'), ('imdb_wiki', 'imdb_crop')):
        _write_faces(data / name, name, column)
    _write_text_pairs(data / 'sts_b')


def _pixels(*shape: int) -> np.ndarray:
    return _GENERATOR.integers(0, 256, shape, dtype=np.uint8)


def _write_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), _pixels(40, 48, 3))


def _write_cifar(folder: Path, num_classes: int) -> None:
    """Four images of each class in a training batch."""
    folder.mkdir(parents=True)
    labels = list(range(num_classes)) * 4
    content = {'data': _pixels(len(labels), 3072)}
    content['labels' if num_classes == 10 else 'fine_labels'] = labels
    names = ['train', 'test']
    if num_classes == 10:
        names = [f'data_batch_{i}' for i in range(1, 6)] + ['test_batch']
    for name in names:
        (folder / name).write_bytes(pickle.dumps(content))


def _write_fashion_mnist(folder: Path) -> None:
    folder.mkdir(parents=True)
    labels = np.arange(40, dtype=np.uint8) % 10
    for prefix in ('train', 't10k'):
        for name, array in (
            ('images-idx3-ubyte', _pixels(40, 28, 28)),
            ('labels-idx1-ubyte', labels),
        ):
            header = struct.pack('>BBBB', 0, 0, 8, array.ndim)
            header += struct.pack(f'>{array.ndim}I', *array.shape)
            (folder / f'{prefix}-{name}').write_bytes(header + array.tobytes())


def _write_svhn(folder: Path) -> None:
    """Labels in the files are 1..10."""
    folder.mkdir(parents=True)
    labels = (np.arange(40, dtype=np.uint8) % 10 + 1)[:, None]
    for split in ('train', 'extra', 'test'):
        content = {'X': _pixels(32, 32, 3, 40), 'y': labels}
        savemat(folder / f'{split}_32x32.mat', content)


def _write_stl10(folder: Path) -> None:
    """Labels in the files are 1..10."""
    folder.mkdir(parents=True)
    labels = bytes(label % 10 + 1 for label in range(40))
    for split in ('train', 'test'):
        pixels = _pixels(40, 3, 96, 96)
        (folder / f'{split}_X.bin').write_bytes(pixels.tobytes())
        (folder / f'{split}_y.bin').write_bytes(labels)
    (folder / 'unlabeled_X.bin').write_bytes(b'')


def _write_lists(folder: Path, prefix: str) -> None:
    _write_image(folder / 'train' / 'a b.jpg')
    for split in ('train', 'val', 'test'):
        lines = [f'train/a b.jpg {label}' for label in (0, 3, 364)]
        (folder / f'{prefix}_LT_{split}.txt').write_text('\n'.join(lines))


def _write_inaturalist(folder: Path) -> None:
    name = 'train_val2018/Aves/x.jpg'
    _write_image(folder / name)
    content = {
        'images': [{'id': 1, 'file_name': name}],
        'annotations': [{'id': 1, 'image_id': 1, 'category_id': 5}],
        'categories': [{'id': i, 'name': f's{i}'} for i in range(8142)],
    }
    for split in ('train', 'val'):
        (folder / f'{split}2018.json').write_text(json.dumps(content))


def _write_uci(folder: Path) -> None:
    """80 rows of each of five labels, the label in the last column."""
    folder.mkdir(parents=True)
    label = np.arange(400)[:, None] % 5 + 1
    headers = {
        'airfoil': [f'{i}' for i in range(6)],
        'concrete': [f'{i}' for i in range(9)],
        'real_estate': ['No', *(f'X{i}' for i in range(1, 7)), 'Y'],
        'abalone': ['Sex', *(f'Size{i}' for i in range(7)), 'Rings'],
    }
    for name, header in headers.items():
        table = _GENERATOR.normal(size=(400, len(header) - 1)).round(3)
        rows = np.concatenate([table, label], axis=1).astype(str)
        if name == 'abalone':
            rows[:, 0] = _GENERATOR.choice(['M', 'F', 'I'], 400)
        if name in ('real_estate', 'abalone'):
            rows = [header, *rows]
        lines = [','.join(row) for row in rows]
        (folder / f'{name}.csv').write_text('\n'.join(lines))


def _write_faces(folder: Path, name: str, images: str) -> None:
    _write_image(folder / images / 'x.jpg')
    lines = ['age,path,split']
    for split in ('train', 'val', 'test'):
        lines += [f'{age},{images}/x.jpg,{split}' for age in range(20, 60)]
    (folder / f'{name}.csv').write_text('\n'.join(lines))


def _write_text_pairs(folder: Path) -> None:
    """Embeddings of 384 numbers."""
    folder.mkdir(parents=True)
    for split in ('train', 'dev', 'test'):
        u, v = _GENERATOR.normal(size=(2, 40, 384)).astype(np.float32)
        score = np.linspace(0, 5, 40, dtype=np.float32)
        np.savez(folder / f'{split}_new.npz', u=u, v=v, score=score)
