# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import pickle
import random
from pathlib import Path

import mmengine.dataset as mme
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.datasets import BaseDataset, PackInputs

from mmgeom.binning import LabelBins
from mmgeom.datasets import LongTailedDataset
from mmgeom.datasets.imbalanced_regression_dataset import (
    ImbalancedRegressionDataset,
)
from mmgeom.datasets.tabular_dataset import TabularDataset
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_inputs, dataset_values
from mmgeom.registry import DATASETS

SPLITS = ('train', 'val', 'test')
UNIT = dict(width=1.0)
# Labels 0..5 with very different counts.
SIZES = [3, 40, 100, 60, 10, 1]
LABELS = np.random.default_rng(0).permutation(np.repeat(range(6), SIZES))


@DATASETS.register_module()
class RegressionSource(BaseDataset):
    """Labels in memory; the image tells the sample's own index."""

    def __init__(self, labels=LABELS, serialize_data=False, **kwargs):
        self.given = np.asarray(labels, dtype=np.float64)
        super().__init__(ann_file='', serialize_data=serialize_data, **kwargs)

    def load_data_list(self):
        return [
            dict(
                gt_score=np.atleast_1d(label).astype(np.float32),
                img=np.full((2, 2, 3), index),
            )
            for index, label in enumerate(self.given)
        ]


class Sheet(RegressionSource):
    """A source that offers its rows too."""

    def get_inputs(self):
        return np.stack([self.given, np.arange(len(self.given))], axis=1)


def wrap(dataset=None, bins=UNIT, **kwargs):
    dataset = RegressionSource() if dataset is None else dataset
    return ImbalancedRegressionDataset(dataset, bins=bins, **kwargs)


def held_out(split, **kwargs):
    options = dict(test_per_bin=8, val_per_bin=4)
    return wrap(split=split, **{**options, **kwargs})


def sizes(dataset):
    values = dataset.get_gt_values().astype(int)
    return np.bincount(values, minlength=6).tolist()


# Balanced test data ----------------------------------------------------------
def test_splits_are_balanced_disjoint_and_complete():
    train, val, test = (held_out(split) for split in SPLITS)
    # Of 10 samples 5 may be held out, of 3 one, of 1 none.
    assert sizes(test) == [1, 8, 8, 8, 4, 0]
    assert sizes(val) == [0, 4, 4, 4, 1, 0]
    assert sizes(train) == [2, 28, 88, 48, 5, 1]
    parts = [set(part.indices) for part in (train, val, test)]
    assert set.union(*parts) == set(range(len(LABELS)))
    assert sum(map(len, parts)) == len(LABELS)
    for part in (train, val, test):
        assert part.indices == sorted(part.indices)
        assert (part.get_gt_values() == LABELS[part.indices]).all()


def test_held_out_data_do_not_depend_on_the_density():
    for split in ('val', 'test'):
        thinned = held_out(split, density=dict(type='uniform'), num_samples=9)
        assert thinned.indices == held_out(split).indices


def test_the_seed_decides():
    assert held_out('test').indices == held_out('test').indices
    assert held_out('test', seed=1).indices != held_out('test').indices
    assert sizes(held_out('test', seed=1)) == sizes(held_out('test'))


def test_share_held_out():
    assert sizes(held_out('test', max_held_out_share=0.9)) == [
        2,
        8,
        8,
        8,
        6,
        0,
    ]
    only_test = held_out('train', val_per_bin=0)
    assert sizes(only_test) == [2, 32, 92, 52, 5, 1]


def test_bins_of_the_training_labels_are_those_of_all():
    for bins in (dict(width=0.7), dict(unique=True)):
        train = held_out('train', bins=bins, test_per_bin=2, val_per_bin=1)
        whole = LabelDistribution.from_values(LABELS, bins)
        assert LabelDistribution.from_dataset(train, bins=bins).bins == (
            whole.bins
        )


def test_bins_by_edges_and_as_object():
    edges = [0.0, 2.0, 6.0]
    for bins in (dict(edges=edges), LabelBins(edges)):
        test = held_out('test', bins=bins)
        counts = sizes(test)
        assert [sum(counts[:2]), sum(counts[2:])] == [8, 8]
    with pytest.raises(ValueError, match='target 5 lies outside the bins'):
        held_out('test', bins=dict(edges=[0, 4]))


# Imbalanced training data ----------------------------------------------------
def test_counts_follow_a_density_as_far_as_no_bin_is_too_small():
    labels = np.repeat(range(6), 40)
    weights = [8, 4, 2, 1, 2, 4]
    dataset = wrap(
        RegressionSource(labels),
        density=dict(
            type='piecewise', edges=[0.5, 1.5, 2.5, 3.5, 4.5], weights=weights
        ),
    )
    assert sizes(dataset) == [40, 20, 10, 5, 10, 20]
    # The least frequent label limits all others where data are scarce.
    scarce = wrap(density=dict(type='uniform'), bins=dict(edges=[0, 4, 6]))
    assert [sum(sizes(scarce)[:4]), sum(sizes(scarce)[4:])] == [22, 11]


def test_counts_follow_a_normal_density():
    labels = np.random.default_rng(1).uniform(0, 20, 4000)
    dataset = wrap(
        RegressionSource(labels),
        bins=dict(edges=np.arange(21)),
        density=dict(type='normal', mean=6, std=3),
    )
    counts = np.histogram(dataset.get_gt_values(), np.arange(21))[0]
    expected = np.exp(-0.5 * ((np.arange(20) + 0.5 - 6) / 3) ** 2)
    expected *= counts.max() / expected.max()
    assert (abs(counts - expected) <= 1).all()


def test_size_of_the_training_set():
    for options, size in (
        (dict(num_samples=50), 50),
        (dict(keep_share=0.25), round(0.25 * sum(SIZES))),
    ):
        dataset = wrap(density=dict(type='uniform'), **options)
        assert len(dataset) == size
        # Rare labels give what they have, the others the same number.
        counts = sizes(dataset)
        assert (counts[0], counts[5]) == (3, 1)
        assert max(counts[1:4]) - min(counts[1:4]) <= 1
    assert sizes(wrap(density=dict(type='uniform'), keep_share=1.0)) == SIZES


def test_fewer_samples_are_a_subset_of_more():
    kept = [
        set(
            wrap(
                density=dict(type='normal', mean=2, std=1), num_samples=n
            ).indices
        )
        for n in (5, 40, 120)
    ]
    assert kept[0] < kept[1] < kept[2]


def test_weights_of_samples():
    """60 % of a pool, as the operator-learning sets draw theirs."""
    labels = np.random.default_rng(2).uniform(0, 1, 5000)
    edges, weights = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [1, 3, 6, 10, 6, 3, 1]
    options = dict(
        bins=None,
        density=dict(type='piecewise', edges=edges, weights=weights),
        sampling='weights',
        keep_share=0.6,
    )
    dataset = wrap(RegressionSource(labels), **options)
    assert len(dataset) == 3000
    have = np.histogram(labels, [0, *edges, 1])[0]
    kept = np.histogram(dataset.get_gt_values(), [0, *edges, 1])[0]
    # Of infinitely many samples 1 - exp(-w s) stay, with s set by the size.
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        share = 1 - np.exp(-middle * np.array(weights))
        small = (share * have).sum() < 3000
        low, high = (middle, high) if small else (low, middle)
    deviation = np.sqrt(have * share * (1 - share))
    assert (abs(kept - have * share) < 4 * deviation + 1).all()
    again = wrap(RegressionSource(labels), **options, seed=0)
    assert again.indices == dataset.indices


def test_weights_leave_held_out_samples_alone():
    train = held_out(
        'train',
        density=dict(type='uniform'),
        sampling='weights',
        keep_share=0.5,
    )
    pool = held_out('train')
    assert len(train) == round(len(pool) / 2)
    assert set(train.indices) < set(pool.indices)


def test_global_generators_are_left_alone():
    def states():
        return (
            random.getstate(),
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
        )

    before = states()
    held_out('train', density=dict(type='uniform'))
    wrap(density=dict(type='uniform'), sampling='weights', num_samples=9)
    assert states() == before


# What a wrapper owes the host ------------------------------------------------
@pytest.mark.parametrize(
    'use',
    [
        len,
        lambda d: d[0],
        lambda d: d.get_data_info(0),
        lambda d: d.get_gt_values(),
        lambda d: d.get_inputs(),
        lambda d: d.indices,
        lambda d: d._get_ori_dataset_idx(0),
        dataset_values,
    ],
)
def test_lazy_init(use):
    inner = Sheet(lazy_init=True)
    dataset = wrap(inner, test_per_bin=2, lazy_init=True)
    assert not dataset._fully_initialized
    assert not inner._fully_initialized
    assert 'unread' in repr(dataset)
    use(dataset)
    assert dataset._fully_initialized
    assert inner._fully_initialized
    kept = dataset._indices
    dataset.full_init()
    assert dataset._indices is kept


@pytest.mark.parametrize('serialize', [True, False])
def test_samples(serialize):
    inner = RegressionSource(serialize_data=serialize)
    dataset = wrap(inner, split='test', test_per_bin=3)
    for position, index in enumerate(dataset.indices):
        assert dataset._get_ori_dataset_idx(position) == index
        for item in (dataset.get_data_info(position), dataset[position]):
            assert item['sample_idx'] == position
            assert item['gt_score'].tolist() == [LABELS[index]]
            assert item['img'][0, 0, 0] == index
    last = len(dataset) - 1
    assert dataset.get_data_info(-1)['sample_idx'] == last
    assert dataset[-1]['sample_idx'] == last
    assert (
        inner.get_data_info(dataset.indices[2])['sample_idx']
        == (dataset.indices[2])
    )
    with pytest.raises(IndexError):
        dataset[last + 1]


def test_packed_samples_carry_the_index_of_this_dataset():
    inner = RegressionSource(pipeline=[PackInputs()])
    dataset = wrap(inner, split='test', test_per_bin=3)
    for index in (0, 5, -1):
        sample = dataset[index]['data_samples']
        assert sample.sample_idx == range(len(dataset))[index]
        assert sample.gt_score.item() == dataset.get_gt_values()[index]


def test_metainfo_pipeline_and_repr():
    inner = RegressionSource(metainfo=dict(extra=dict(a=[1])))
    dataset = held_out('val', dataset=inner, density=dict(type='uniform'))
    dataset.metainfo['extra']['a'].append(2)
    assert dataset.metainfo == dict(extra=dict(a=[1]))
    new = mme.Compose([lambda results: dict(seen=results['sample_idx'])])
    dataset.pipeline = new
    assert inner.pipeline is new
    assert dataset[1] == dict(seen=dataset.indices[1])
    text = repr(dataset)
    assert text.startswith(f'ImbalancedRegressionDataset({len(dataset)} sam')
    for part in ('val (seed 0)', '8 test and 4 validation', "'uniform'"):
        assert part in text


def test_values_and_inputs_through_wrappers():
    inner = Sheet()
    dataset = wrap(inner, test_per_bin=2)
    rows = dataset.get_inputs()
    assert rows[:, 1].tolist() == dataset.indices
    values = dataset.get_gt_values()
    values[:] = 99
    assert dataset.get_gt_values().max() < 6

    joined = mme.ConcatDataset([Sheet(), Sheet()])
    double = wrap(joined, split='test', test_per_bin=2)
    assert sizes(double) == [2, 2, 2, 2, 2, 1]
    expected = np.concatenate([LABELS, LABELS])[double.indices]
    assert (dataset_values(double) == expected).all()
    assert (dataset_inputs(double)[:, 0] == expected).all()

    twice = wrap(dataset, split='test', test_per_bin=1)
    assert sizes(twice) == [1, 1, 1, 1, 1, 0]
    original = [dataset.indices[i] for i in twice.indices]
    assert (twice.get_gt_values() == LABELS[original]).all()
    assert twice[0]['img'][0, 0, 0] == original[0]

    config = dict(
        type='mmgeom.ImbalancedRegressionDataset',
        dataset=dict(type='mmgeom.RegressionSource'),
        bins=UNIT,
        test_per_bin=2,
    )
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        repeated = mme.RepeatDataset(config, 3)
    assert dataset_values(repeated).tolist() == (
        dataset.get_gt_values().tolist() * 3
    )
    subset = torch.utils.data.Subset(twice, [4, 0])
    assert dataset_values(subset).tolist() == (
        twice.get_gt_values()[[4, 0]].tolist()
    )
    assert dataset_inputs(subset).shape == (2, 2)


def test_arrays_of_an_in_memory_dataset(tmp_path):
    path = tmp_path / 'rows.npz'
    x = np.random.default_rng(0).normal(size=(len(LABELS), 3))
    np.savez(path, x=x, y=LABELS)
    dataset = wrap(TabularDataset(str(path)), split='test', test_per_bin=5)
    assert dataset.inputs.dtype == dataset.targets.dtype == np.float32
    assert np.allclose(dataset.inputs, x[dataset.indices])
    assert dataset.targets[:, 0].tolist() == LABELS[dataset.indices].tolist()
    assert not hasattr(wrap(test_per_bin=2), 'inputs')
    again = pickle.loads(pickle.dumps(dataset))
    assert again.indices == dataset.indices
    assert torch.equal(again[3]['inputs'], dataset[3]['inputs'])


def test_copies_and_pickles_with_a_density():
    dataset = wrap(density=dict(type='normal', mean=1, std=2))
    for other in (copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert other.indices == dataset.indices


def test_by_config():
    config = dict(
        type='mmgeom.ImbalancedRegressionDataset',
        dataset=dict(type='mmgeom.RegressionSource', labels=LABELS.tolist()),
        bins=UNIT,
        test_per_bin=2,
        density=dict(type='exponential', scale=2.0),
        num_samples=30,
    )
    dumped = Config(dict(dataset=config)).dump()
    dataset = DATASETS.build(Config.fromstring(dumped, '.py').dataset)
    assert isinstance(dataset.dataset, RegressionSource)
    assert len(dataset) == 30
    assert dataset.indices == DATASETS.build(config).indices


def test_several_targets():
    labels = np.stack([LABELS, LABELS[::-1]], axis=1)
    inner = RegressionSource(labels)
    dataset = wrap(inner, split='test', test_per_bin=2, target=1)
    values = dataset.get_gt_values()
    assert np.bincount(values[:, 1].astype(int)).tolist() == [1] + [2] * 4
    assert (values == labels[dataset.indices]).all()
    with pytest.raises(ValueError, match=r'2 targets .* target=0..1, got Non'):
        wrap(inner, test_per_bin=2)


# Shipped data sets -----------------------------------------------------------
DATA_CONFIGS = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets'


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Random files with the published columns, below `data/uci`."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / 'data' / 'uci'
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)

    def write(name, header, columns):
        rows = zip(*(np.asarray(column).tolist() for column in columns))
        lines = [','.join(str(cell) for cell in row) for row in rows]
        text = '\n'.join([*header, *lines])
        (folder / f'{name}.csv').write_text(text)

    def numbers(count):
        return list(generator.normal(size=(count, 1500)))

    label = 40 + 7 * generator.normal(size=1500)
    write('airfoil', [], [*numbers(5), label])
    write('concrete', [], [*numbers(8), label])
    write(
        'abalone',
        ['"Rings","Sex","Length","Diameter","Height","a","b","c","d"'],
        [generator.binomial(28, 0.3, 4000) + 1]
        + [generator.choice(list('MFI'), 4000)]
        + list(generator.normal(size=(7, 4000))),
    )
    write(
        'real_estate',
        ['No,X1 date,X2 age,X3 distance,X4 number,X5 lat,X6 long,Y price'],
        [np.arange(1500), *numbers(6), label],
    )


@pytest.mark.parametrize(
    'name',
    ['uci_airfoil', 'uci_concrete', 'uci_abalone', 'uci_real_estate']
    + ['diabetes'],
)
def test_shipped_data_sets(name, stand_ins):
    cfg = Config.fromfile(DATA_CONFIGS / f'{name}_dir.py')
    cfg = Config.fromstring(cfg.dump(), '.py')
    parts = [
        DATASETS.build(cfg[f'{split}_dataloader'].dataset) for split in SPLITS
    ]
    # Training data may be in a further wrapper.
    assert sum(map(len, parts)) == len(parts[2].dataset)
    bins = cfg.default_hooks.label_distribution.bins
    train = LabelDistribution.from_dataset(parts[0], bins=bins)
    assert 15 <= len(train) <= 100
    # Balanced: many bins have the same number, none has more.
    counts = LabelDistribution.from_dataset(parts[2], bins=train.bins).counts
    options = cfg.test_dataloader.dataset
    assert counts.max() == options.test_per_bin
    assert (counts == options.test_per_bin).sum() >= 10
    assert train.imbalance_factor > 3
    item = parts[2][0]
    assert item['inputs'].shape == (cfg.data_preprocessor.in_channels,)
    assert item['data_samples'].gt_score.shape == (1,)
    assert cfg.default_hooks.label_distribution.type == (
        'mmgeom.LabelDistributionHook'
    )


# Errors ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({}, 'has nothing to do'),
        (dict(split='dev', test_per_bin=1), "no split 'dev'"),
        (dict(split='test'), 'the test split needs test_per_bin > 0'),
        (dict(split='val', test_per_bin=1), 'needs val_per_bin > 0'),
        (dict(test_per_bin=-1), 'test_per_bin must be a whole number .* -1'),
        (dict(val_per_bin=0.5), 'val_per_bin must be a whole number .* 0.5'),
        (dict(test_per_bin=1, seed=-1), 'seed must be a whole number'),
        (dict(test_per_bin=1, max_held_out_share=1), r'in \[0, 1\), got 1'),
        (dict(test_per_bin=1, bins=None), 'need label bins'),
        (dict(density=dict(type='uniform'), bins=None), 'need label bins'),
        (dict(test_per_bin=1, num_samples=5), 'need a density'),
        (dict(test_per_bin=1, sampling='all'), "'weights', got 'all'"),
        (dict(density=dict(type='gamma')), 'is unknown'),
        (
            dict(density=dict(type='uniform'), sampling='weights'),
            'needs num_samples or keep_share',
        ),
        (
            dict(density=dict(type='uniform'), num_samples=5, keep_share=0.5),
            'give one of num_samples=5 and keep_share=0.5',
        ),
        (dict(density=dict(type='uniform'), num_samples=0), 'must be positi'),
        (dict(density=dict(type='uniform'), keep_share=1.5), r'\(0, 1\], got'),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        wrap(**options, lazy_init=True)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (
            dict(test_per_bin=40, val_per_bin=20),
            'largest of 6 label bins holds 100 .* out 50, but 60 are asked',
        ),
        (dict(test_per_bin=5, bins=dict(width=0.001)), None),
        (
            dict(density=dict(type='uniform'), num_samples=999),
            '999 samples are asked for, but only 214',
        ),
        (
            dict(density=dict(type='piecewise', edges=[7], weights=[0, 1])),
            'is 0 wherever there are samples',
        ),
        (
            dict(
                density=dict(type='uniform'),
                sampling='weights',
                keep_share=1e-6,
                bins=None,
            ),
            'ImbalancedRegressionDataset keeps no sample of Regression',
        ),
    ],
)
def test_impossible_selections(options, message):
    if message is None:  # every sample has a bin of its own
        inner = RegressionSource(np.random.default_rng(0).uniform(0, 6, 200))
        with pytest.raises(ValueError, match='widen the bins, or lower'):
            wrap(inner, **options)
        return
    with pytest.raises(ValueError, match=message):
        wrap(**options)


def test_bad_datasets():
    with pytest.raises(ValueError, match='target nan of sample 1 .* not fini'):
        wrap(RegressionSource([1, np.nan, 2]), test_per_bin=1)
    with pytest.raises(ValueError, match='holds no samples'):
        wrap(RegressionSource([]), test_per_bin=1)
    with pytest.raises(TypeError, match='a dataset of mmengine, got list'):
        wrap([1.0, 2.0], test_per_bin=1)


def test_classification_dataset():
    class Classes(RegressionSource):
        METAINFO = dict(classes=('a', 'b'))

        def load_data_list(self):
            return [dict(gt_label=index % 2) for index in range(20)]

    with pytest.raises(TypeError, match='Classes holds no regression targets'):
        wrap(Classes(), test_per_bin=1)
    with pytest.raises(TypeError, match='for regression targets'):
        LongTailedDataset(wrap(test_per_bin=1), imbalance_factor=2)
