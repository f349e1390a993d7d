# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import re

import cv2
import numpy as np
import pytest
from mmcv.transforms import LoadImageFromFile
from mmpretrain.datasets import BaseDataset

from mmgeom.datasets.transforms.load_image import LoadImage
from mmgeom.registry import TRANSFORMS


class Paths(BaseDataset):
    """A list of image paths."""

    def __init__(self, paths, **kwargs):
        self.paths = paths
        super().__init__(ann_file='', **kwargs)

    def load_data_list(self):
        return [{'img_path': path, 'gt_label': 0} for path in self.paths]


@pytest.fixture
def files(tmp_path):
    """One intact image and several that cannot be loaded."""
    image = np.full((6, 4, 3), (10, 20, 30), dtype=np.uint8)
    cv2.imwrite(str(tmp_path / 'intact.png'), image)
    (tmp_path / 'damaged.jpg').write_bytes(b'\xff\xd8\xff not an image')
    (tmp_path / 'empty.jpg').write_bytes(b'')
    (tmp_path / 'folder.jpg').mkdir()
    return tmp_path


@pytest.mark.parametrize(
    'kwargs',
    [
        {},
        {'to_float32': True},
        {'color_type': 'grayscale'},
        {'imdecode_backend': 'pillow'},
    ],
)
def test_intact_image_is_as_the_hosts(files, kwargs):
    path = str(files / 'intact.png')
    transform = TRANSFORMS.build({'type': 'mmgeom.LoadImage', **kwargs})
    assert isinstance(transform, LoadImage)
    results = transform({'img_path': path})
    expected = LoadImageFromFile(**kwargs)({'img_path': path})
    assert np.array_equal(results.pop('img'), expected.pop('img'))
    assert results == expected


@pytest.mark.parametrize('test_mode', [False, True])
@pytest.mark.parametrize('name', ['damaged.jpg', 'empty.jpg', 'folder.jpg'])
@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
def test_unreadable_image_is_named(files, name, test_mode, backend):
    path = str(files / name)
    load = {'type': 'mmgeom.LoadImage', 'imdecode_backend': backend}
    dataset = Paths(
        [path, str(files / 'intact.png')],
        pipeline=[load, {'type': 'PackInputs'}],
        test_mode=test_mode,
    )
    message = f"Image file '{re.escape(path)}' cannot be read or decoded"
    with pytest.raises(ValueError, match=message):
        dataset[0]
    assert dataset[1]['inputs'][:, 0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize('test_mode', [False, True])
def test_missing_image_is_named(files, test_mode):
    path = str(files / 'missing.jpg')
    dataset = Paths(
        [path], pipeline=[{'type': 'mmgeom.LoadImage'}], test_mode=test_mode
    )
    message = f"Image file '{re.escape(path)}' does not exist: correct"
    with pytest.raises(FileNotFoundError, match=message):
        dataset[0]


@pytest.mark.parametrize(
    'name', ['damaged.jpg', 'empty.jpg', 'folder.jpg', 'missing.jpg']
)
def test_ignore_empty_skips(files, name):
    transform = LoadImage(ignore_empty=True)
    assert transform({'img_path': str(files / name)}) is None
    intact = transform({'img_path': str(files / 'intact.png')})
    assert intact['img'].shape == (6, 4, 3)


def test_an_image_that_is_there_already_is_left_alone():
    """The host's inferencer hands over arrays, and its own loader's keys."""
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    results = dict(img=image, sample_idx=0)
    assert LoadImage().transform(results) is results
