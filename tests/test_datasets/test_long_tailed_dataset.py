# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import itertools
import pickle
import random

import mmengine.dataset as mme
import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.datasets import BaseDataset, MultiLabelDataset, PackInputs

from mmgeom.datasets import Digits, LongTailedDataset
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_labels
from mmgeom.registry import DATASETS


@DATASETS.register_module()
class LongTailedSource(BaseDataset):
    """Labels in memory; the image tells the sample's own index.

    Serialisation, which collects garbage each time, only where asked for.
    """

    METAINFO = dict(classes=tuple('abcde'))

    def __init__(self, labels, serialize_data=False, **kwargs):
        self.given = labels
        super().__init__(ann_file='', serialize_data=serialize_data, **kwargs)

    def load_data_list(self):
        return [
            dict(gt_label=int(label), img=np.full((2, 2, 3), i), tags=[i])
            for i, label in enumerate(self.given)
        ]


class Many(mme.BaseDataset):
    """Fifty thousand labels that cost nothing."""

    def __init__(self, num_classes):
        self.given = np.tile(np.arange(num_classes), 50000 // num_classes)
        super().__init__(
            metainfo=dict(num_classes=num_classes), serialize_data=False
        )

    def load_data_list(self):
        return [dict(gt_label=0)]

    def get_gt_labels(self):
        return self.given

    def __len__(self):
        return len(self.given)


NAMES = ('a', 'b', 'c', 'd', 'e')
BALANCED = np.random.default_rng(0).permutation(np.repeat(range(5), 40))
UNBALANCED = np.repeat(range(5), [10, 50, 3, 30, 20])


def source(labels=BALANCED, **kwargs):
    return LongTailedSource(labels, **kwargs)


def class_sizes(dataset, num_classes=5):
    return np.bincount(dataset.get_gt_labels(), minlength=num_classes).tolist()


def global_states():
    return (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
    )


@pytest.fixture(scope='module')
def balanced_cifar():
    return {k: Many(k) for k in (10, 100)}


CIFAR_LT = [
    (10, 200, 11203, [7, 3, 0], [5000, 2775, 1540, 854, 474, 263, 146, 81]),
    (10, 100, 12406, [8, 2, 0], [5000, 2997, 1796, 1077, 645, 387, 232]),
    (10, 50, 13996, [9, 1, 0], [5000, 3237, 2096, 1357, 878, 568, 368]),
    (10, 10, 20431, [10, 0, 0], [5000]),
    (100, 200, 9502, [30, 31, 39], [500]),
    (100, 100, 10847, [35, 35, 30], [500]),
    (100, 50, 12608, [41, 41, 18], [500]),
    (100, 10, 19573, [69, 31, 0], [500]),
]


@pytest.mark.parametrize(('k', 'factor', 'total', 'sizes', 'first'), CIFAR_LT)
@pytest.mark.parametrize('protocol', ['ldam', 'nested'])
def test_table_of_cifar_lt(
    balanced_cifar, protocol, k, factor, total, sizes, first
):
    dataset = LongTailedDataset(
        balanced_cifar[k], imbalance_factor=factor, protocol=protocol
    )
    assert len(dataset) == total
    counts = class_sizes(dataset, k)
    assert counts[: len(first)] == first
    assert counts[-1] == 50000 // k // factor
    assert counts == [
        int(50000 / k * (1 / factor) ** (c / (k - 1))) for c in range(k)
    ]
    groups = LabelDistribution.from_dataset(dataset).groups()
    assert [len(index) for index in groups.values()] == sizes


@pytest.mark.parametrize(
    'labels', [BALANCED, UNBALANCED, np.random.default_rng(1).permutation(100)]
)
def test_ldam_indices_equal_the_plain_procedure(labels):
    labels = labels % 5
    dataset = LongTailedDataset(
        source(labels), imbalance_factor=20, protocol='ldam'
    )
    largest = len(labels) / 5
    state = np.random.get_state()
    np.random.seed(0)
    expected = []
    for c in range(5):
        positions = np.where(labels == c)[0]
        np.random.shuffle(positions)
        size = int(largest * 0.05 ** (c / (5 - 1.0)))
        expected.extend(positions[:size].tolist())
    np.random.set_state(state)
    assert dataset.indices == expected
    assert dataset.get_gt_labels().tolist() == labels[expected].tolist()


@pytest.mark.parametrize('protocol', ['ldam', 'nested'])
def test_global_random_state_is_not_touched(protocol):
    before = global_states()
    dataset = LongTailedDataset(
        source(),
        imbalance_factor=10,
        protocol=protocol,
        class_order='random',
        seed=3,
    )
    dataset.get_data_info(0)
    dataset[1]
    assert global_states() == before


@pytest.mark.parametrize('profile', ['exp', 'step', 'pareto'])
def test_a_stronger_imbalance_keeps_a_subset(profile):
    kept = [
        set(
            LongTailedDataset(
                source(), imbalance_factor=factor, profile=profile
            ).indices
        )
        for factor in (40, 10, 2, 1)
    ]
    for small, large in itertools.pairwise(kept):
        assert small < large
    assert kept[-1] == set(range(len(BALANCED)))


# The selection -------------------------------------------------------------
def test_profiles_and_their_arguments():
    step = LongTailedDataset(
        source(),
        imbalance_factor=10,
        profile='step',
        profile_args=dict(step_fraction=0.2),
    )
    assert class_sizes(step) == [40, 4, 4, 4, 4]
    pareto = LongTailedDataset(
        source(),
        imbalance_factor=16,
        profile='pareto',
        profile_args=dict(pareto_alpha=2),
        max_count=32,
    )
    assert class_sizes(pareto) == [32, 10, 5, 3, 2]


@pytest.mark.parametrize(
    ('order', 'expected'),
    [
        ('index', [32, 16, 8, 4, 2]),
        ([4, 3, 2, 1, 0], [2, 4, 8, 16, 32]),
        ((1, 0, 2, 3, 4), [16, 32, 8, 4, 2]),
        (np.array([1, 0, 2, 3, 4]), [16, 32, 8, 4, 2]),
    ],
)
def test_class_order(order, expected):
    dataset = LongTailedDataset(
        source(), imbalance_factor=16, max_count=32, class_order=order
    )
    assert class_sizes(dataset) == expected


def test_class_order_by_frequency_and_shortage():
    # Frequencies 10, 50, 3, 30, 20: classes 1, 3, 4, 0, 2 in this order.
    dataset = LongTailedDataset(
        source(UNBALANCED),
        imbalance_factor=16,
        max_count=32,
        class_order='frequency',
    )
    assert class_sizes(dataset) == [4, 32, 2, 16, 8]
    short = LongTailedDataset(
        source(UNBALANCED), imbalance_factor=16, max_count=32
    )
    assert class_sizes(short) == [10, 16, 3, 4, 2]
    assert LongTailedDataset(
        source(), imbalance_factor=2, class_order='frequency'
    ).indices == (LongTailedDataset(source(), imbalance_factor=2).indices)


def test_random_class_order_is_decided_by_the_seed():
    sizes = [
        class_sizes(
            LongTailedDataset(
                source(),
                imbalance_factor=16,
                max_count=32,
                class_order='random',
                seed=seed,
            )
        )
        for seed in (0, 0, 1, 2, 3)
    ]
    assert all(sorted(s) == [2, 4, 8, 16, 32] for s in sizes)
    assert sizes[0] == sizes[1]
    assert len({tuple(s) for s in sizes}) > 1


def test_explicit_counts():
    dataset = LongTailedDataset(source(), counts=(0, 7, 40, 99, 1))
    assert class_sizes(dataset) == [0, 7, 40, 40, 1]
    assert dataset.CLASSES == NAMES


@pytest.mark.parametrize('suffix', ['.npy', '.json', '.txt'])
def test_index_file(tmp_path, suffix):
    wanted = [7, 3, 120]
    path = tmp_path / f'kept{suffix}'
    if suffix == '.npy':
        np.save(path, wanted)
    else:
        path.write_text('[7, 3, 120]' if suffix == '.json' else '7\n3\n120')
    dataset = LongTailedDataset(source(), index_file=str(path))
    assert dataset.indices == wanted
    assert dataset.get_gt_labels().tolist() == BALANCED[wanted].tolist()


# What a wrapper owes the host ----------------------------------------------
@pytest.fixture
def dataset():
    return LongTailedDataset(source(), imbalance_factor=10)


def test_metainfo_is_a_deep_copy(dataset):
    dataset.metainfo['classes'] = 'changed'
    assert dataset.metainfo == dict(classes=tuple('abcde'))
    nested = LongTailedDataset(
        source(metainfo=dict(extra=dict(a=[1]))), imbalance_factor=2
    )
    nested.metainfo['extra']['a'].append(2)
    assert nested.metainfo['extra'] == dict(a=[1])
    assert nested.dataset.metainfo['extra'] == dict(a=[1])


def test_class_names(dataset):
    assert dataset.CLASSES == NAMES
    assert dataset.class_to_idx == dict(a=0, b=1, c=2, d=3, e=4)


@pytest.mark.parametrize(
    'use',
    [
        len,
        lambda d: d[0],
        lambda d: d.get_data_info(0),
        lambda d: d.get_cat_ids(0),
        lambda d: d.get_gt_labels(),
        lambda d: d.indices,
        lambda d: d._get_ori_dataset_idx(0),
        dataset_labels,
    ],
)
def test_lazy_init(use):
    inner = source(lazy_init=True)
    dataset = LongTailedDataset(inner, imbalance_factor=10, lazy_init=True)
    assert not dataset._fully_initialized
    assert not inner._fully_initialized
    assert dataset.metainfo['classes'] == tuple('abcde')
    assert 'unread' in repr(dataset)
    use(dataset)
    assert dataset._fully_initialized
    assert inner._fully_initialized
    assert len(dataset) == len(
        LongTailedDataset(source(), imbalance_factor=10)
    )


def test_full_init_selects_once(dataset):
    kept = dataset._indices
    dataset.full_init()
    assert dataset._indices is kept


def test_samples_and_indices(dataset):
    assert repr(dataset).startswith(f'LongTailedDataset({len(dataset)} sam')
    for i, inner in enumerate(dataset.indices):
        info = dataset.get_data_info(i)
        assert info['tags'] == [inner]
        assert info['sample_idx'] == i
        assert info['gt_label'] == BALANCED[inner]
        assert dataset.get_cat_ids(i) == [BALANCED[inner]]
        item = dataset[i]
        assert item['img'][0, 0, 0] == inner
        assert item['sample_idx'] == i
    assert type(dataset.get_cat_ids(0)[0]) is int
    assert dataset._get_ori_dataset_idx(2) == dataset.indices[2]
    last = len(dataset) - 1
    assert dataset.get_data_info(-1)['sample_idx'] == last
    assert dataset[-1]['sample_idx'] == last
    assert dataset[-1]['tags'] == [dataset.indices[-1]]
    with pytest.raises(IndexError):
        dataset[last + 1]


def test_labels_are_a_copy(dataset):
    labels = dataset.get_gt_labels()
    assert labels.dtype == np.int64
    labels[:] = 99
    assert dataset.get_gt_labels().max() < 5
    dataset.indices.clear()
    assert len(dataset.indices) == len(dataset)


@pytest.mark.parametrize('serialize', [True, False])
def test_what_a_caller_changes_stays_with_the_caller(serialize):
    dataset = LongTailedDataset(
        source(serialize_data=serialize), imbalance_factor=10
    )
    expected = copy.deepcopy(dataset.get_data_info(3))
    for info in (dataset.get_data_info(3), dataset[3]):
        info['gt_label'] = 99
        info['img'][:] = 99
        info['tags'].append(99)
    again = dataset.get_data_info(3)
    assert again['gt_label'] == expected['gt_label']
    assert again['tags'] == expected['tags']
    assert (again['img'] == expected['img']).all()
    inner = dataset.dataset.get_data_info(dataset.indices[3])
    assert inner['sample_idx'] == dataset.indices[3]


def test_pipeline_is_the_wrapped_datasets(dataset):
    assert dataset.pipeline is dataset.dataset.pipeline
    new = mme.Compose([lambda results: dict(seen=results['sample_idx'])])
    dataset.pipeline = new
    assert dataset.dataset.pipeline is new
    assert dataset[4] == dict(seen=dataset.indices[4])


def test_packed_sample_carries_the_index_of_this_dataset():
    dataset = LongTailedDataset(
        source(pipeline=[PackInputs()]), imbalance_factor=10
    )
    for i in (0, 5, -1):
        sample = dataset[i]['data_samples']
        assert sample.sample_idx == range(len(dataset))[i]
        assert sample.gt_label.tolist() == dataset.get_cat_ids(i)


def test_by_config_and_by_instance():
    by_instance = LongTailedDataset(source(), imbalance_factor=10)
    config = dict(
        type='mmgeom.LongTailedDataset',
        imbalance_factor=10,
        dataset=dict(
            type='mmgeom.LongTailedSource',
            labels=BALANCED.tolist(),
            _scope_='mmpretrain',
        ),
    )
    by_config = DATASETS.build(config)
    assert isinstance(by_config.dataset, LongTailedSource)
    assert by_config.indices == by_instance.indices
    assert config['dataset']['type'] == 'mmgeom.LongTailedSource'


def test_host_types_need_no_prefix(tmp_path):
    for name in ('a/0.jpg', 'a/1.jpg', 'b/0.jpg', 'b/1.jpg'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    dataset = DATASETS.build(
        dict(
            type='LongTailedDataset',
            imbalance_factor=2,
            dataset=dict(type='CustomDataset', data_root=str(tmp_path)),
        )
    )
    assert class_sizes(dataset, 2) == [2, 1]
    assert dataset.CLASSES == ('a', 'b')


def lt_config(**kwargs):
    return dict(
        type='mmgeom.LongTailedDataset',
        dataset=dict(type='mmgeom.LongTailedSource', labels=BALANCED.tolist()),
        **kwargs,
    )


def test_inside_the_hosts_wrappers():
    one, two = lt_config(imbalance_factor=10), lt_config(counts=[1] * 5)
    plain = DATASETS.build(one)
    # The scope of every shipped config, which a runner sets.
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        both = DATASETS.build(dict(type='ConcatDataset', datasets=[one, two]))
        repeated = DATASETS.build(
            dict(type='RepeatDataset', dataset=one, times=2)
        )
        balanced = DATASETS.build(
            dict(type='ClassBalancedDataset', dataset=one, oversample_thr=1e-3)
        )
    labels = plain.get_gt_labels().tolist()
    assert dataset_labels(both).tolist() == labels + (
        DATASETS.build(two).get_gt_labels().tolist()
    )
    assert both.metainfo == plain.metainfo
    assert dataset_labels(repeated).tolist() == labels * 2
    assert dataset_labels(balanced).tolist() == labels
    last = len(plain) - 1
    assert repeated[len(plain) + last]['tags'] == plain[last]['tags']
    assert both.get_data_info(last)['tags'] == plain[last]['tags']
    total = LabelDistribution.from_dataset(both)
    assert total.counts.tolist() == [41, 23, 13, 8, 5]


def test_around_wrappers_and_itself():
    inner = mme.RepeatDataset(source(), 2)
    dataset = LongTailedDataset(inner, imbalance_factor=10)
    assert class_sizes(dataset) == [80, 44, 25, 14, 8]
    again = LongTailedDataset(dataset, counts=[8, 8, 8, 8, 8])
    assert class_sizes(again) == [8] * 5
    assert len(dataset_labels(again)) == 40
    for i in range(len(again)):
        outer = dataset.indices[again.indices[i]]
        assert again[i]['tags'] == [outer % len(BALANCED)]
        assert again.get_data_info(i)['sample_idx'] == i
        assert again.get_cat_ids(i) == [again[i]['gt_label']]
    joined = LongTailedDataset(
        mme.ConcatDataset([source(), source(UNBALANCED)]), counts=[0] * 4 + [9]
    )
    assert joined.get_gt_labels().tolist() == [4] * 9


def test_around_a_reader():
    dataset = LongTailedDataset(Digits(), imbalance_factor=20)
    sizes = class_sizes(dataset, 10)
    assert sizes[0] == 128  # of the 129.7 wanted
    assert sizes[-1] == 6
    assert LabelDistribution.from_dataset(dataset).class_names == tuple(
        '0123456789'
    )
    index = dataset.indices[17]
    assert (dataset[17]['img'] == dataset.dataset.images[index]).all()


def test_pickled_for_a_worker():
    dataset = LongTailedDataset(Digits(), imbalance_factor=20)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.indices == dataset.indices
    assert (again[3]['img'] == dataset[3]['img']).all()
    assert copy.deepcopy(dataset).get_cat_ids(3) == dataset.get_cat_ids(3)


# Errors ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        ({}, 'give exactly one of .*, got none'),
        (
            dict(imbalance_factor=2, counts=[1] * 5),
            r"got \['imbalance_factor', 'counts'\]",
        ),
        (
            dict(imbalance_factor=2, protocol='mixed'),
            "protocol must be 'nested' or 'ldam', got 'mixed'",
        ),
        (dict(imbalance_factor=0.01), 'at least 1, got 0.01'),
        (
            dict(imbalance_factor=2, profile='linear'),
            "profile 'linear' is unknown",
        ),
        (
            dict(
                imbalance_factor=2,
                profile='step',
                profile_args=dict(step_fraction=2),
            ),
            'step_fraction must lie in',
        ),
        (
            dict(imbalance_factor=2, max_count=0),
            'max_count must be at least 1, got 0',
        ),
        (
            dict(counts=[1] * 5, max_count=3),
            'they need imbalance_factor, but counts was given',
        ),
        (
            dict(index_file='x.txt', profile_args=dict(step_fraction=0.1)),
            'they need imbalance_factor, but index_file was given',
        ),
        (
            dict(counts=[1] * 4),
            'counts must hold 5 whole numbers, .* got 4 with minimum 1',
        ),
        (dict(counts=[1, 1, 1, 1, -1]), 'got 5 with minimum -1'),
        (dict(counts=[1, 1, 1, 1, 2.5]), 'counts must hold 5 whole numbers'),
        (dict(counts=[]), 'counts must hold 5 .* got 0'),
        (dict(counts=[0] * 5), 'keeps no sample at all: raise its counts'),
        (
            dict(imbalance_factor=2, class_order='size'),
            "class_order must be .* list of all 5 labels, got 'size'",
        ),
        (
            dict(imbalance_factor=2, class_order=[0, 1, 2, 3, 3]),
            r'class_order must be .* got \[0, 1, 2, 3, 3\]',
        ),
        (
            dict(imbalance_factor=2, class_order=[0, 1]),
            r'class_order must be .* got \[0, 1\]',
        ),
    ],
)
def test_argument_errors(kwargs, match):
    with pytest.raises(ValueError, match=match):
        LongTailedDataset(source(), **kwargs)


def test_bad_arguments_fail_before_any_data_are_read():
    inner = source(lazy_init=True)
    with pytest.raises(ValueError, match='at least 1'):
        LongTailedDataset(inner, imbalance_factor=0.1)
    assert not inner._fully_initialized


def test_index_file_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match='index file .*gone.npy does'):
        LongTailedDataset(source(), index_file=str(tmp_path / 'gone.npy'))
    path = tmp_path / 'far.json'
    path.write_text('[0, 200]')
    with pytest.raises(ValueError, match=r'index 200 .* outside \[0, 200\)'):
        LongTailedDataset(source(), index_file=str(path))


class NoSamples(BaseDataset):
    def load_data_list(self):
        return []


class TwoLabels(MultiLabelDataset):
    def load_data_list(self):
        return [dict(gt_label=[0, 1]), dict(gt_label=[0])]


@pytest.mark.parametrize(
    ('labels', 'match'),
    [
        ([0, 1, 5], r'label 5 of sample 2 lies outside \[0, 5\)'),
        ([0, -1], r'label -1 of sample 1 lies outside \[0, 5\)'),
    ],
)
def test_labels_out_of_range(labels, match):
    with pytest.raises(ValueError, match=match):
        LongTailedDataset(source(labels), imbalance_factor=2)


def test_negative_labels_without_class_names():
    class Unnamed(LongTailedSource):
        METAINFO = {}

    with pytest.raises(ValueError, match='label -1 of sample 2'):
        LongTailedDataset(Unnamed([0, 1, -1]), imbalance_factor=2)
    three = LongTailedDataset(Unnamed([0, 1, 2] * 4), imbalance_factor=4)
    assert class_sizes(three, 3) == [4, 2, 1]
    assert three.CLASSES is None


def test_unfit_datasets():
    with pytest.raises(TypeError, match='or a dataset of mmengine, got list'):
        LongTailedDataset([0, 1], imbalance_factor=2)
    with pytest.raises(TypeError, match='one label a sample, but TwoLabels'):
        LongTailedDataset(TwoLabels(''), imbalance_factor=2)
    with pytest.raises(ValueError, match='NoSamples holds no samples'):
        LongTailedDataset(
            NoSamples('', serialize_data=False), imbalance_factor=2
        )
