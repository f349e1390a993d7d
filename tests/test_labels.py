# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import gc
import weakref

import mmengine.dataset as mme
import mmpretrain.datasets as mmp
import numpy as np
import pytest
import torch
from torch.utils import data as torch_data

from mmgeom import labels as module
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import (
    dataset_class_names,
    dataset_labels,
    dataset_num_classes,
    dataset_values,
    flat_labels,
)

LABELS = [0, 2, 1, 2, 2, 0, 3]
LISTS = [[0, 1], [2], [], [1, 2, 3]]
VALUES = [0.5, 3.0, 2.25, 1.0]


class Classes(mmp.BaseDataset):
    """mmpretrain's dataset with labels in memory.

    Serialisation, which collects garbage each time, only where asked for.
    """

    METAINFO = dict(classes=tuple('abcd'))

    def __init__(self, labels=LABELS, serialize_data=False, **kwargs):
        self.given = labels
        super().__init__(ann_file='', serialize_data=serialize_data, **kwargs)

    def load_data_list(self):
        return [dict(gt_label=label) for label in self.given]


class MultiLabel(mmp.MultiLabelDataset):
    METAINFO = dict(classes=tuple('abcd'))

    def __init__(self, labels=LISTS, serialize_data=False, **kwargs):
        self.given = labels
        super().__init__(ann_file='', serialize_data=serialize_data, **kwargs)

    load_data_list = Classes.load_data_list


class Plain(mme.BaseDataset):
    """mmengine's own dataset, which knows no `get_cat_ids`."""

    def __init__(self, labels=LABELS, **kwargs):
        self.given = labels
        super().__init__(serialize_data=False, **kwargs)

    load_data_list = Classes.load_data_list


class Regression(mmp.BaseDataset):
    def __init__(self, values=VALUES, **kwargs):
        self.given = values
        super().__init__(ann_file='', serialize_data=False, **kwargs)

    def load_data_list(self):
        return [dict(gt_score=[value]) for value in self.given]


class Torchvision(torch_data.Dataset):
    """The attributes that torchvision's datasets offer."""

    def __init__(self, labels=LABELS, name='targets'):
        self.classes = ['a', 'b', 'c', 'd', 'e']
        setattr(self, name, labels)
        self.size = len(labels)

    def __getitem__(self, index):
        return index

    def __len__(self):
        return self.size


def kfold(dataset, **kwargs):
    """The host's wrapper takes no instance, so its module's registry does."""
    mmp.builder.DATASETS.register_module(
        name='KFoldSource', module=lambda **_: dataset, force=True
    )
    return mmp.KFoldDataset(dict(type='KFoldSource'), **kwargs)


def shuffled(size, seed):
    """The order of the host's KFoldDataset."""
    indices = list(range(size))
    np.random.default_rng(seed).shuffle(indices)
    return indices


WRAPPED = {
    'list': (LABELS, LABELS),
    'array': (np.array(LABELS, dtype=np.int8), LABELS),
    'mmpretrain': (Classes(), LABELS),
    'lazy': (Classes(lazy_init=True), LABELS),
    'serialised': (Classes(serialize_data=True), LABELS),
    'indices': (Classes(indices=[6, 0]), [3, 0]),
    'mmengine': (Plain(), LABELS),
    'concat': (
        mme.ConcatDataset([Classes(), Classes([3, 3])]),
        LABELS + [3, 3],
    ),
    'lazy concat': (
        mme.ConcatDataset(
            [Classes(lazy_init=True), Classes([3], lazy_init=True)],
            lazy_init=True,
        ),
        LABELS + [3],
    ),
    'repeat': (mme.RepeatDataset(Classes(), 3), LABELS * 3),
    'balanced': (
        mme.ClassBalancedDataset(Classes([0, 0, 0, 0, 1]), 0.8),
        [0, 0, 0, 0, 1, 1],
    ),
    'kfold': (kfold(Classes(), fold=0, num_splits=7), LABELS[1:]),
    'shuffled kfold': (
        kfold(Classes(), fold=1, num_splits=3, seed=5, test_mode=True),
        [LABELS[i] for i in shuffled(7, seed=5)[2:4]],
    ),
    'subset': (torch_data.Subset(Classes(), [5, 6]), [0, 3]),
    'subset by range': (torch_data.Subset(Classes(), range(2)), [0, 2]),
    'subset by tensor': (
        torch_data.Subset(Torchvision(), torch.tensor([6, 2])),
        [3, 1],
    ),
    'torch concat': (
        torch_data.ConcatDataset([Torchvision(), Torchvision([4])]),
        LABELS + [4],
    ),
    'targets': (Torchvision(), LABELS),
    'tensor targets': (Torchvision(torch.tensor(LABELS)), LABELS),
    'labels': (Torchvision(np.array(LABELS), 'labels'), LABELS),
    'nested': (
        torch_data.Subset(
            torch_data.ConcatDataset(
                [
                    mme.RepeatDataset(Classes([1, 3]), 2),
                    torch_data.Subset(Torchvision(), [6, 0]),
                    mme.ClassBalancedDataset(Classes([0, 1]), 0.1),
                ]
            ),
            [7, 4, 3],
        ),
        [1, 3, 3],
    ),
}


@pytest.mark.parametrize('name', WRAPPED)
def test_labels_through_every_wrapper(name):
    dataset, expected = WRAPPED[name]
    labels = dataset_labels(dataset)
    assert isinstance(labels, np.ndarray)
    assert labels.dtype == np.int64
    assert labels.tolist() == expected
    if hasattr(dataset, 'get_data_info'):
        assert expected == [
            dataset.get_data_info(i)['gt_label'] for i in range(len(dataset))
        ]


MULTI_LABEL = {
    'lists': (LISTS, LISTS),
    'one-hot': (
        np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]]),
        [[1, 2], [0], []],
    ),
    'boolean': (np.array([[True, False], [True, True]]), [[0], [0, 1]]),
    'ragged': (MultiLabel(), LISTS),
    'serialised': (MultiLabel(serialize_data=True), LISTS),
    'equal length': (MultiLabel([[0, 3], [1, 2]]), [[0, 3], [1, 2]]),
    'two classes': (MultiLabel([[0, 1], [0, 1]]), [[0, 1], [0, 1]]),
    'mmengine': (Plain(LISTS), LISTS),
    'concat': (mme.ConcatDataset([MultiLabel(), MultiLabel()]), LISTS * 2),
    'mixed concat': (
        mme.ConcatDataset([Classes([3, 0]), MultiLabel()]),
        [[3], [0], *LISTS],
    ),
    'repeat': (mme.RepeatDataset(MultiLabel(), 2), LISTS * 2),
    'balanced': (mme.ClassBalancedDataset(MultiLabel(), 1e-3), LISTS),
    'subset': (torch_data.Subset(MultiLabel(), [3, 2]), [[1, 2, 3], []]),
    'kfold': (kfold(MultiLabel(), fold=0, num_splits=4), LISTS[1:]),
}


@pytest.mark.parametrize('name', MULTI_LABEL)
def test_several_labels_a_sample(name):
    dataset, expected = MULTI_LABEL[name]
    labels = dataset_labels(dataset)
    assert isinstance(labels, list)
    assert [item.tolist() for item in labels] == expected
    flat = flat_labels(labels)
    assert flat.dtype == np.int64
    assert flat.tolist() == [label for item in expected for label in item]


def test_flat_labels_of_nothing():
    assert flat_labels([]).tolist() == []
    assert flat_labels([]).dtype == np.int64


def test_one_label_in_a_list_is_a_single_label():
    assert dataset_labels(MultiLabel([[1], [0]])).tolist() == [1, 0]


@pytest.mark.parametrize(
    'dataset',
    [
        [0.5, 1.0],
        np.array([1.0, 2.0]),
        Torchvision([0.1, 0.2]),
        Classes([0.5, 1.5]),
        mme.RepeatDataset(Classes([0.5, 1.5]), 2),
        [[0.5], [1.0]],
    ],
)
def test_float_labels_are_refused_with_a_hint(dataset):
    with pytest.raises(
        TypeError, match=r'must be integers, got float.*bins=dict\(width=1.0'
    ):
        dataset_labels(dataset)


def test_regression_dataset_without_bins_gets_the_hint():
    with pytest.raises(TypeError, match=r"hold no 'gt_label'.*bins=dict"):
        LabelDistribution.from_dataset(Regression())
    with pytest.raises(TypeError, match='Classes holds no regression targets'):
        LabelDistribution.from_dataset(Classes(), bins=dict(width=1))


def test_no_known_interface():
    class Mute:
        def __len__(self):
            return 3

    with pytest.raises(TypeError, match='labels from Mute: give it `get_gt'):
        dataset_labels(Mute())


def test_wrapper_that_does_not_tell_its_indices():
    class Wrapper:
        dataset = Classes()

        def __len__(self):
            return 2

    with pytest.raises(TypeError, match='Wrapper wraps a dataset but does'):
        dataset_labels(Wrapper())


@pytest.mark.parametrize(
    ('wrap', 'expected'),
    [
        (lambda d: d, VALUES),
        (lambda d: mme.RepeatDataset(d, 2), VALUES * 2),
        (lambda d: mme.ConcatDataset([d, Regression([9.0])]), VALUES + [9.0]),
        (lambda d: torch_data.Subset(d, [2, 0]), [2.25, 0.5]),
        (lambda d: kfold(d, fold=0, num_splits=4), VALUES[1:]),
        (
            lambda d: kfold(d, fold=0, num_splits=2, seed=1),
            [VALUES[i] for i in shuffled(4, seed=1)[2:]],
        ),
        (
            lambda d: torch_data.Subset(mme.RepeatDataset(d, 2), [5, 4]),
            [3.0, 0.5],
        ),
    ],
)
def test_values_through_wrappers(wrap, expected):
    dataset = wrap(Regression())
    values = dataset_values(dataset)
    assert values.dtype == np.float64
    assert values.tolist() == expected
    distribution = LabelDistribution.from_dataset(dataset, bins=dict(width=1))
    assert distribution.num_samples == len(expected)
    index = distribution.bins.index(expected)
    assert distribution.counts.tolist() == index.bincount().tolist()


def test_values_of_several_targets_and_by_method():
    assert dataset_values(Regression(VALUES[:2])).shape == (2,)

    class Table:
        stored = np.array([[1.0, 2.0], [3.0, 4.0]])

        def get_gt_values(self):
            return self.stored

        def __len__(self):
            return 2

    table = Table()
    values = dataset_values(table)
    assert values.tolist() == [[1, 2], [3, 4]]
    values[:] = 0
    assert table.stored[0, 0] == 1
    assert dataset_values(table).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match='one target a sample'):
        LabelDistribution.from_dataset(table, bins=dict(width=1))


def test_distribution_of_a_dataset_uses_its_class_names():
    distribution = LabelDistribution.from_dataset(Classes([0, 0, 1]))
    assert distribution.counts.tolist() == [2, 1, 0, 0]
    assert distribution.class_names == ('a', 'b', 'c', 'd')
    wider = LabelDistribution.from_dataset(Classes([0, 1]), num_classes=6)
    assert (wider.num_classes, wider.class_names) == (6, None)
    with pytest.raises(ValueError, match=r'label 7 at position 1 lies outsi'):
        LabelDistribution.from_dataset(Classes([0, 7]))
    with pytest.raises(ValueError, match='holds no samples'):
        LabelDistribution.from_dataset(Torchvision([]))


def test_class_names_through_wrappers():
    names = tuple('abcd')
    assert dataset_class_names(Classes()) == names
    assert dataset_class_names(mme.RepeatDataset(Classes(), 2)) == names
    assert dataset_class_names(torch_data.Subset(Classes(), [0])) == names
    both = torch_data.ConcatDataset([Classes(), Classes()])
    assert dataset_class_names(both) == names
    assert dataset_num_classes(both) == 4
    vision = torch_data.Subset(Torchvision(), [0])
    assert dataset_class_names(vision) == tuple('abcde')
    assert dataset_class_names(Plain()) is None
    assert dataset_class_names([0, 1]) is None
    assert dataset_num_classes([0, 1]) is None
    declared = Plain(metainfo=dict(num_classes=9))
    assert dataset_num_classes(declared) == 9
    assert LabelDistribution.from_dataset(declared).num_classes == 9


def test_labels_are_read_once_per_dataset(monkeypatch):
    dataset = Classes()
    calls = []
    read = Classes.get_gt_labels
    monkeypatch.setattr(
        Classes, 'get_gt_labels', lambda self: calls.append(0) or read(self)
    )
    first = dataset_labels(dataset)
    first[:] = -1  # what a caller does to them stays with the caller
    assert dataset_labels(dataset).tolist() == LABELS
    dataset_labels(mme.RepeatDataset(dataset, 2))
    assert len(calls) == 1
    lists = dataset_labels(MULTI_LABEL['ragged'][0])
    lists[0][:] = 99
    assert dataset_labels(MULTI_LABEL['ragged'][0])[0].tolist() == [0, 1]


def test_a_changed_length_reads_anew():
    dataset = Classes()
    repeated = mme.RepeatDataset(Classes(), 2)
    assert len(dataset_labels(dataset)) == len(LABELS)
    assert len(dataset_labels(repeated)) == 2 * len(LABELS)
    dataset.get_subset_([1, 6])
    repeated.times = 3
    assert dataset_labels(dataset).tolist() == [2, 3]
    assert dataset_labels(repeated).tolist() == LABELS * 3
    growing = [0, 1]
    assert dataset_labels(growing).tolist() == [0, 1]
    growing.append(5)
    assert dataset_labels(growing).tolist() == [0, 1, 5]
    growing[0] = 4  # lists are not cached at all
    assert dataset_labels(growing).tolist() == [4, 1, 5]


def test_labels_and_values_of_one_dataset_do_not_mix():
    class Both(Classes):
        def get_gt_values(self):
            return [0.25] * len(self)

    dataset = Both()
    assert dataset_labels(dataset).tolist() == LABELS
    assert dataset_values(dataset).tolist() == [0.25] * len(LABELS)
    assert dataset_labels(dataset).dtype == np.int64


def test_cache_does_not_keep_a_dataset_alive():
    dataset = Torchvision([0, 1])
    dataset_labels(dataset)
    assert dataset in module._CACHE
    reference = weakref.ref(dataset)
    del dataset
    gc.collect()
    assert reference() is None
