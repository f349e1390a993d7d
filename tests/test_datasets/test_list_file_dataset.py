# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import re

import cv2
import numpy as np
import pytest
from mmpretrain.structures import DataSample

from mmgeom.datasets.list_file_dataset import (
    ImageNetLT,
    ListFileDataset,
    PlacesLT,
)
from mmgeom.labels import dataset_labels
from mmgeom.registry import DATASETS

LINES = 'a/x.png 1\n\nb/two words.png 0\n   \na/y.png\t2\n'


@pytest.fixture
def root(tmp_path):
    """A folder with a list of three images below 'img'."""
    (tmp_path / 'list.txt').write_text(LINES)
    for number, name in enumerate(['a/x', 'b/two words', 'a/y']):
        path = tmp_path / 'img' / f'{name}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        image = np.full((4, 5, 3), (number, 100, 200), dtype=np.uint8)
        cv2.imwrite(str(path), image)
    return tmp_path


def build(root, **kwargs):
    kwargs = {'ann_file': 'list.txt', 'data_prefix': 'img', **kwargs}
    return ListFileDataset(data_root=str(root), **kwargs)


@pytest.mark.parametrize('ending', ['\n', '\r\n'])
@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig'])
def test_lines(root, ending, encoding):
    content = LINES.replace('\n', ending).encode(encoding)
    (root / 'list.txt').write_bytes(content)
    dataset = build(root)
    paths = [dataset.get_data_info(i)['img_path'] for i in range(3)]
    names = ['a/x.png', 'b/two words.png', 'a/y.png']
    assert paths == [str(root / 'img' / name) for name in names]
    assert dataset.get_gt_labels().tolist() == [1, 0, 2]
    assert dataset_labels(dataset).tolist() == [1, 0, 2]
    assert dataset.get_cat_ids(2) == [2]


@pytest.mark.parametrize('test_mode', [False, True])
def test_registry_and_pipeline(root, test_mode):
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.ListFileDataset',
            'ann_file': 'list.txt',
            'data_root': str(root),
            'data_prefix': 'img',
            'indices': [2, 1],
            'test_mode': test_mode,
            'pipeline': [
                {'type': 'LoadImageFromFile'},
                {'type': 'PackInputs'},
            ],
        }
    )
    item = dataset[0]
    # The host's loader gives BGR.
    assert item['inputs'][:, 0, 0].tolist() == [2, 100, 200]
    assert item['inputs'].shape == (3, 4, 5)
    assert isinstance(item['data_samples'], DataSample)
    assert item['data_samples'].img_path == str(root / 'img' / 'a/y.png')
    labels = [dataset[i]['data_samples'].gt_label.item() for i in range(2)]
    assert dataset.get_gt_labels().tolist() == labels == [2, 0]


@pytest.mark.parametrize('lazy_init', [False, True])
def test_num_classes(root, lazy_init):
    dataset = build(root, num_classes=7, lazy_init=lazy_init)
    assert dataset._fully_initialized is not lazy_init
    assert dataset.metainfo == {'num_classes': 7}
    assert build(root, lazy_init=lazy_init).metainfo == {}
    named = build(root, classes=['a', 'b', 'c'], num_classes=3)
    assert named.metainfo == {'classes': ('a', 'b', 'c')}
    with pytest.raises(ValueError, match=r'different numbers of .*\[3, 4\]'):
        build(root, classes=['a', 'b', 'c'], num_classes=4)


@pytest.mark.parametrize(
    'line', ['a/x.png', '3', 'a/x.png one', 'a/x.png 1.0', 'a/x.png,1']
)
def test_malformed_line(root, line):
    (root / 'list.txt').write_text(f'a/x.png 0\n\n{line}\n')
    message = re.escape(f"list.txt' line 3 is '{line}': write `path label`")
    with pytest.raises(ValueError, match=message):
        build(root)


@pytest.mark.parametrize(
    ('label', 'kwargs', 'message'),
    [
        (3, {'num_classes': 3}, r'label 3, outside \[0, 3\)'),
        (2, {'classes': ['a', 'b']}, r'label 2, outside \[0, 2\)'),
        (9, {'metainfo': {'num_classes': 4}}, r'label 9, outside \[0, 4\)'),
        (-1, {}, r'label -1, outside \[0, K\)'),
    ],
)
def test_label_out_of_range(root, label, kwargs, message):
    (root / 'list.txt').write_text(f'a/x.png 0\na/y.png {label}\n')
    with pytest.raises(ValueError, match=rf"list.txt' line 2 has {message}"):
        build(root, **kwargs)


@pytest.mark.parametrize('content', ['', '\n  \n'])
def test_empty_list(root, content):
    (root / 'list.txt').write_text(content)
    with pytest.raises(ValueError, match=r"list.txt' holds no samples"):
        build(root)


def test_missing_file_or_folder(root):
    message = r"other.txt' does not exist: correct `data_root` and `ann_file"
    with pytest.raises(FileNotFoundError, match=message):
        build(root, ann_file='other.txt')
    message = r"nowhere' does not exist: correct `data_root` and `data_prefix"
    with pytest.raises(FileNotFoundError, match=message):
        build(root, data_prefix='nowhere')


@pytest.mark.parametrize(
    ('cls', 'name', 'num_classes'),
    [(ImageNetLT, 'ImageNet_LT', 1000), (PlacesLT, 'Places_LT', 365)],
)
def test_long_tailed_lists(root, cls, name, num_classes):
    config = {'type': f'mmgeom.{cls.__name__}', 'data_root': str(root)}
    remedy = f'{name}_train.txt.* does not exist: get the .* lists from http'
    with pytest.raises(FileNotFoundError, match=remedy):
        DATASETS.build(config)
    path = root / f'{name}_train.txt'
    path.write_text(f'a/x.png {num_classes - 1}\n')
    dataset = DATASETS.build(config)
    assert type(dataset) is cls
    assert dataset.get_gt_labels().tolist() == [num_classes - 1]
    declared = dataset.metainfo.get('num_classes')
    assert num_classes in (declared, len(dataset.CLASSES or ()))
    with pytest.raises(FileNotFoundError, match="nowhere' .* images .*from h"):
        DATASETS.build({**config, 'data_prefix': 'nowhere'})
    path.write_text(f'a/x.png {num_classes}\n')
    with pytest.raises(ValueError, match=rf'outside \[0, {num_classes}\)'):
        DATASETS.build(config)


def test_imagenet_class_names(root):
    (root / 'list.txt').write_text('a/x.png 0\n')
    dataset = ImageNetLT('list.txt', data_root=str(root))
    assert dataset.CLASSES[0].startswith('tench')
