# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import json
import re

import cv2
import numpy as np
import pytest
from mmpretrain.structures import DataSample

from mmgeom.datasets.inaturalist import INaturalist2018
from mmgeom.registry import DATASETS

CONTENT = {
    'images': [
        {'id': 12, 'file_name': 'train_val2018/Aves/x.jpg'},
        {'id': 4, 'file_name': 'train_val2018/Aves/y.jpg'},
        {'id': 7, 'file_name': 'train_val2018/Fungi/z.jpg'},
    ],
    'annotations': [
        {'id': 0, 'image_id': 7, 'category_id': 30},
        {'id': 1, 'image_id': 12, 'category_id': 5},
        {'id': 2, 'image_id': 4, 'category_id': 11},
    ],
    'categories': [
        {'id': 30, 'name': 'Amanita muscaria'},
        {'id': 5, 'name': 'Parus major'},
        {'id': 11, 'name': 'Turdus merula'},
    ],
}
NAMES = ('Parus major', 'Turdus merula', 'Amanita muscaria')


def build(root, content=CONTENT, **kwargs):
    (root / 'train2018.json').write_text(json.dumps(content))
    return INaturalist2018(data_root=str(root), **kwargs)


def changed(key, index, **entries):
    """The content with some entries of one element changed."""
    content = copy.deepcopy(CONTENT)
    content[key][index].update(entries)
    return content


def without(key, index, field=None):
    """The content without an element, or without one of its fields."""
    content = copy.deepcopy(CONTENT)
    if field is None:
        del content[key][index]
    else:
        del content[key][index][field]
    return content


def test_labels_follow_sorted_category_ids(tmp_path):
    dataset = build(tmp_path)
    assert dataset.CLASSES == NAMES
    infos = [dataset.get_data_info(i) for i in range(3)]
    files = [image['file_name'] for image in CONTENT['images']]
    assert [i['img_path'] for i in infos] == [
        str(tmp_path / name) for name in files
    ]
    assert [i['gt_label'] for i in infos] == [0, 1, 2]
    assert dataset.get_gt_labels().tolist() == [0, 1, 2]


def test_category_without_image_counts_as_a_class(tmp_path):
    content = copy.deepcopy(CONTENT)
    content['categories'].append({'id': 6, 'name': 'Corvus corax'})
    dataset = build(tmp_path, content)
    assert len(dataset.CLASSES) == 4
    assert dataset.get_gt_labels().tolist() == [0, 2, 3]


def test_lazy_init(tmp_path):
    dataset = build(tmp_path, lazy_init=True)
    assert dataset.CLASSES is None
    assert len(dataset) == 3
    assert dataset.CLASSES == NAMES


@pytest.mark.parametrize('test_mode', [False, True])
def test_registry_and_pipeline(tmp_path, test_mode):
    (tmp_path / 'train2018.json').write_text(json.dumps(CONTENT))
    for image in CONTENT['images']:
        path = tmp_path / 'img' / image['file_name']
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.zeros((4, 5, 3), np.uint8))
    dataset = DATASETS.build(
        {
            'type': 'mmgeom.INaturalist2018',
            'data_root': str(tmp_path),
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
    assert item['inputs'].shape == (3, 4, 5)
    assert isinstance(item['data_samples'], DataSample)
    labels = [dataset[i]['data_samples'].gt_label.item() for i in range(2)]
    assert dataset.get_gt_labels().tolist() == labels == [2, 1]


def test_given_class_names(tmp_path):
    assert build(tmp_path, classes=['a', 'b', 'c']).CLASSES == ('a', 'b', 'c')
    with pytest.raises(ValueError, match=r'different numbers of .*\[2, 3\]'):
        build(tmp_path, classes=['a', 'b'])


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (
            without('images', 1),
            "annotates image id 4, which is not in 'images'",
        ),
        (
            without('annotations', 0),
            "has image id 7, which is not in 'annotations'",
        ),
        (
            without('categories', 2),
            'gives image id 4 the category id 11, which is not in '
            "'categories'",
        ),
        (
            changed('images', 1, id=12),
            "has 3 entries in 'images' but 2 different values of 'id'",
        ),
        (
            changed('annotations', 1, image_id=7),
            "has 3 entries in 'annotations' but 2 different values "
            "of 'image_id'",
        ),
        (
            changed('categories', 1, id=30),
            "has 3 entries in 'categories' but 2 different values of 'id'",
        ),
        (
            without('images', 0, 'file_name'),
            "has an entry without 'file_name' in 'images'",
        ),
        (
            without('annotations', 0, 'category_id'),
            "has an entry without 'category_id' in 'annotations'",
        ),
        ({**CONTENT, 'images': []}, 'holds no samples'),
        (
            {key: CONTENT[key] for key in ('images', 'categories')},
            "has no list 'annotations'",
        ),
        ([1, 2], "has no list 'images'"),
    ],
)
def test_inconsistent_file(tmp_path, content, message):
    message = f"train2018.json' {re.escape(message)}"
    with pytest.raises(ValueError, match=message):
        build(tmp_path, content)


def test_broken_json(tmp_path):
    (tmp_path / 'train2018.json').write_text('{"images": [')
    with pytest.raises(ValueError, match="2018.json' is not an intact json"):
        INaturalist2018(data_root=str(tmp_path))


def test_missing_file_or_folder(tmp_path):
    message = r"train2018.json' does not exist: get it from https://github"
    with pytest.raises(FileNotFoundError, match=message):
        INaturalist2018(data_root=str(tmp_path))
    message = r"nowhere' does not exist: get the images from https://github"
    with pytest.raises(FileNotFoundError, match=message):
        build(tmp_path, data_prefix='nowhere')
