# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pickle

import numpy as np
import pytest
import torch
from mmengine.dataset import DefaultSampler, pseudo_collate
from mmpretrain.structures import DataSample
from torch.utils.data import DataLoader

from mmgeom.datasets.array_dataset import ArrayDataset
from mmgeom.labels import dataset_labels

LABELS = np.array([0, 1, 2, 1, 0, 2, 2])


class Plain(ArrayDataset):
    """Images and labels given by the test."""

    METAINFO = {'classes': ('a', 'b', 'c')}

    def __init__(self, images=None, labels=LABELS, **kwargs):
        if images is None:
            generator = np.random.default_rng(0)
            shape = (len(labels), 6, 5, 3)
            images = generator.integers(0, 256, shape, dtype=np.uint8)
        self.source = images
        self.source_labels = labels
        super().__init__(**kwargs)

    def load_arrays(self):
        return self.source, self.source_labels


class InPlace:
    """A transform that overwrites the image it is given."""

    def __call__(self, results):
        results['img'][...] = 0
        return results


@pytest.mark.parametrize('serialize_data', [True, False])
def test_items_are_the_arrays(serialize_data):
    dataset = Plain(serialize_data=serialize_data)
    assert len(dataset) == 7
    for index in range(-7, 7):
        info = dataset.get_data_info(index)
        assert np.array_equal(info['img'], dataset.source[index])
        assert info['gt_label'] == LABELS[index]
        assert type(info['gt_label']) is int
        assert info['sample_idx'] == index % 7
        assert dataset.get_cat_ids(index) == [LABELS[index]]
    with pytest.raises(IndexError):
        dataset.get_data_info(7)


@pytest.mark.parametrize('serialize_data', [True, False])
def test_store_survives_transforms_in_place(serialize_data):
    dataset = Plain(serialize_data=serialize_data, pipeline=[InPlace()])
    before = dataset.source.copy()
    assert dataset[3]['img'].sum() == 0
    assert np.array_equal(dataset.source, before)
    with pytest.raises(ValueError, match='read-only'):
        dataset.images[0] = 0


@pytest.mark.parametrize('serialize_data', [True, False])
@pytest.mark.parametrize('indices', [3, -2, [5, 0, 3], []])
def test_indices_and_subsets(serialize_data, indices):
    order = np.arange(7)
    if isinstance(indices, list):
        expected = np.array(indices, dtype=np.int64)
    else:
        expected = order[:indices] if indices > 0 else order[indices:]
    whole = Plain(serialize_data=serialize_data)
    in_place = Plain(serialize_data=serialize_data)
    in_place.get_subset_(indices)
    at_build = Plain(serialize_data=serialize_data, indices=indices)
    for part in (whole.get_subset(indices), in_place, at_build):
        assert len(part) == len(expected)
        assert np.array_equal(part.img_indices, expected)
        assert np.array_equal(part.get_gt_labels(), LABELS[expected])
        for position, index in enumerate(expected):
            info = part.get_data_info(position)
            assert np.array_equal(info['img'], whole.source[index])
            assert info['sample_idx'] == position
    assert len(whole) == 7


def test_subset_of_subset():
    part = Plain().get_subset([6, 4, 1, 0]).get_subset(-3).get_subset([2, 0])
    assert part.img_indices.tolist() == [0, 4]


def test_subset_shares_the_images():
    dataset = Plain()
    part = dataset.get_subset([1, 2])
    assert part.images is dataset.images
    part.pipeline.transforms.append(InPlace())
    assert dataset.pipeline.transforms == []


@pytest.mark.parametrize('serialize_data', [True, False])
def test_get_gt_labels_equals_labels_of_items(serialize_data):
    dataset = Plain(serialize_data=serialize_data, indices=[6, 1, 1, 0])
    slow = [dataset.get_data_info(i)['gt_label'] for i in range(len(dataset))]
    labels = dataset.get_gt_labels()
    assert labels.dtype == np.int64
    assert labels.tolist() == slow == [2, 1, 1, 0]
    assert dataset_labels(dataset).tolist() == slow
    labels[0] = 0
    assert dataset.get_gt_labels()[0] == 2


def test_filter_data_is_respected():
    class Relabelled(Plain):
        def filter_data(self):
            kept = [d for d in self.data_list if d['gt_label'] != 1]
            return [{**d, 'gt_label': 1} for d in kept]

    for serialize_data in (True, False):
        dataset = Relabelled(serialize_data=serialize_data)
        assert dataset.img_indices.tolist() == [0, 2, 4, 5, 6]
        assert dataset.get_gt_labels().tolist() == [1] * 5
        assert dataset.get_data_info(1)['gt_label'] == 1


def test_data_list_holds_no_images():
    dataset = Plain()
    assert dataset.data_bytes.nbytes == 16 * len(dataset)
    assert dataset.data_list == []
    unserialized = Plain(serialize_data=False)
    assert all('img' not in info for info in unserialized.data_list)


@pytest.mark.parametrize(
    'use',
    [
        len,
        lambda d: d[0],
        lambda d: d.get_gt_labels(),
        lambda d: d.get_cat_ids(0),
        lambda d: d.get_data_info(0),
        lambda d: d.get_subset(2),
        lambda d: d.images,
        lambda d: d.img_indices,
    ],
)
def test_lazy_init(use):
    dataset = Plain(lazy_init=True)
    assert not dataset._fully_initialized
    assert dataset.CLASSES == ('a', 'b', 'c')
    use(dataset)
    assert dataset._fully_initialized
    assert len(dataset) == 7


def test_pipeline_gives_data_samples_in_rgb_order():
    images = np.zeros((1, 4, 6, 3), dtype=np.uint8)
    images[..., 0] = 200
    dataset = Plain(images, np.array([2]), pipeline=[{'type': 'PackInputs'}])
    item = dataset[0]
    assert item['inputs'].shape == (3, 4, 6)
    assert (item['inputs'][0] == 200).all()
    assert (item['inputs'][1:] == 0).all()
    assert isinstance(item['data_samples'], DataSample)
    assert item['data_samples'].gt_label.tolist() == [2]


def test_host_transforms_take_grey_images():
    images = np.full((1, 8, 8), 9, dtype=np.uint8)
    pipeline = [
        {'type': 'RandomFlip', 'prob': 1.0},
        {'type': 'RandomCrop', 'crop_size': 8, 'padding': 2},
        {'type': 'Resize', 'scale': 16},
        {'type': 'PackInputs'},
    ]
    item = Plain(images, np.array([0]), pipeline=pipeline)[0]
    assert item['inputs'].shape == (1, 16, 16)


def test_data_loader_with_workers():
    dataset = Plain(pipeline=[{'type': 'PackInputs'}])
    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=1,
        sampler=DefaultSampler(dataset, shuffle=False),
        collate_fn=pseudo_collate,
        multiprocessing_context='fork',
    )
    batches = list(loader)
    inputs = torch.stack([x for batch in batches for x in batch['inputs']])
    expected = torch.from_numpy(dataset.source).permute(0, 3, 1, 2)
    assert torch.equal(inputs, expected)


def test_pickle_round_trip():
    copy = pickle.loads(pickle.dumps(Plain(indices=[2, 0])))
    assert copy.get_gt_labels().tolist() == [2, 0]


def test_views_are_not_made_contiguous():
    stored = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    dataset = Plain(stored.transpose(0, 2, 3, 1), np.array([0, 1]))
    assert np.shares_memory(dataset.images, stored)
    image = dataset.get_data_info(1)['img']
    assert image.flags.c_contiguous
    assert np.array_equal(image, stored[1].transpose(1, 2, 0))


@pytest.mark.parametrize(
    ('labels', 'classes', 'message'),
    [
        ([0, 3, 7], None, r'Plain sample 1 has label 3, outside \[0, 3\)'),
        ([0, 1, -1], None, r'Plain sample 2 has label -1, outside \[0, 3\)'),
        ([0, 1, 2], ['x', 'y'], r'sample 2 has label 2, outside \[0, 2\)'),
    ],
)
def test_label_out_of_range(labels, classes, message):
    with pytest.raises(ValueError, match=message):
        Plain(labels=np.array(labels), classes=classes)


def test_labels_without_known_classes():
    class Nameless(Plain):
        METAINFO = {}

    assert Nameless(labels=np.array([0, 99])).get_gt_labels().max() == 99
    with pytest.raises(ValueError, match=r'label -2, outside \[0, K\)'):
        Nameless(labels=np.array([0, -2]))
    with pytest.raises(ValueError, match=r'label 99, outside \[0, 5\)'):
        Nameless(labels=np.array([0, 99]), metainfo={'num_classes': 5})


@pytest.mark.parametrize(
    ('images', 'labels', 'error', 'message'),
    [
        (np.zeros((2, 4, 4)), [0, 1], TypeError, 'dtype float64: give uint8'),
        (
            np.zeros((2, 3, 4, 4), np.uint8),
            [0, 1],
            ValueError,
            r'shape \(2, 3, 4, 4\): give \(N, H, W\)',
        ),
        (
            np.zeros((2, 4, 4), np.uint8),
            [0],
            ValueError,
            r'2 images but labels of shape \(1,\)',
        ),
        (
            np.zeros((2, 4, 4), np.uint8),
            [0.0, 1.0],
            TypeError,
            'labels have dtype float64: give integers',
        ),
        (
            np.zeros((0, 4, 4), np.uint8),
            [],
            ValueError,
            'Plain holds no samples',
        ),
    ],
)
def test_wrong_arrays(images, labels, error, message):
    with pytest.raises(error, match=message):
        Plain(images, np.array(labels))


def test_base_class_is_abstract():
    with pytest.raises(TypeError, match='load_arrays'):
        ArrayDataset()
