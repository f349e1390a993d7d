# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
from mmengine.config import Config

import mmgeom
from mmgeom.datasets.operator_learning_dataset import OperatorLearningDataset
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_values
from mmgeom.registry import DATASETS

both = pytest.mark.parametrize('kind', ['linear', 'nonlinear'])
LOCATIONS = [0.565132, 0.479875, 0.754658]
LINEAR = [-0.386063, 0.464312, -1.025465]
NONLINEAR = [1.233771, 1.253944, 0.929967]
EDGES = [0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1]


@pytest.fixture(scope='module')
def config():
    def read(kind):
        path = f'_base_/datasets/operator_{kind}_dir.py'
        return Config.fromfile(mmgeom.config_path(path))

    return read


@both
def test_sample(kind):
    dataset = OperatorLearningDataset(kind, num_samples=7)
    width = dict(linear=101, nonlinear=241)[kind]
    assert dataset.inputs.shape == (7, width)
    assert dataset.targets.shape == (7, 1)
    item = dataset[-2]
    assert item['inputs'].tolist() == dataset.inputs[5].tolist()
    sample = item['data_samples']
    assert sample.gt_score.tolist() == dataset.targets[5].tolist()
    assert sample.group_value == dataset.inputs[5, -1].item()
    assert sample.to_dict()['group_value'] == sample.group_value
    assert sample.sample_idx == 5
    assert len(dataset_values(dataset)) == 7
    assert f'Operator: \t{kind}' in repr(dataset)


@both
@pytest.mark.parametrize('split', ['train', 'val', 'test'])
def test_rows_depend_on_the_seed_alone(kind, split):
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    first = OperatorLearningDataset(kind, split, num_samples=5)
    assert np.array_equal(np.random.get_state()[1], state)
    again = OperatorLearningDataset(kind, split, num_samples=5)
    assert np.array_equal(first.inputs, again.inputs)
    assert np.array_equal(first.get_gt_values(), again.get_gt_values())
    other = OperatorLearningDataset(kind, split, num_samples=5, seed=1)
    assert not np.isin(first.inputs[:, -1], other.inputs[:, -1]).any()
    assert not np.isin(first.inputs[:, 0], other.inputs[:, 0]).any()


@both
def test_splits_differ(kind):
    splits = [
        OperatorLearningDataset(kind, split, num_samples=20, keep_share=1)
        for split in ('train', 'val', 'test')
    ]
    rows = np.concatenate([split.inputs[:, [0, -1]] for split in splits])
    assert len(np.unique(rows[:, 0])) == len(np.unique(rows[:, 1])) == 60


def test_default_rows_are_these():
    # A change would make results of different versions incomparable.
    dataset = OperatorLearningDataset('linear', num_samples=3)
    assert dataset.inputs[:, -1].tolist() == pytest.approx(LOCATIONS)
    assert dataset.get_gt_values() == pytest.approx(LINEAR, abs=1e-5)
    dataset = OperatorLearningDataset('nonlinear', num_samples=3)
    assert dataset.inputs[:, -1].tolist() == pytest.approx(LOCATIONS)
    assert dataset.get_gt_values() == pytest.approx(NONLINEAR, abs=1e-5)


def test_training_is_imbalanced():
    dataset = OperatorLearningDataset('linear')
    assert len(dataset) == 10000
    counts = np.histogram(dataset.inputs[:, -1], EDGES)[0]
    density = counts / np.diff(EDGES) / 10000
    # Kept with probability 1 - exp(-w t), t = 2.16, of the 16,667 drawn.
    weights = np.array([0.1, 0.3, 0.6, 1, 0.6, 0.3, 0.1])
    expected = (1 - np.exp(-2.16 * weights)) / 0.6
    assert density == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ('split', 'options'),
    [('val', {}), ('test', {}), ('train', dict(keep_share=1))],
)
def test_evaluation_is_balanced(split, options):
    dataset = OperatorLearningDataset(
        'linear', split, num_samples=10000, **options
    )
    counts = np.histogram(dataset.inputs[:, -1], EDGES)[0]
    assert counts / np.diff(EDGES) == pytest.approx(10000, rel=0.07)


def test_other_weights():
    dataset = OperatorLearningDataset(
        'linear',
        num_samples=1000,
        keep_share=0.5,
        location_edges=[0, 0.5, 1],
        location_weights=[1e-9, 1],
    )
    # The pool has about as many in the upper half as are kept.
    assert (dataset.inputs[:, -1] > 0.5).mean() > 0.95


@both
def test_targets_lie_in_the_bins_of_the_config(kind, config):
    cfg = config(kind)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    bins = cfg.default_hooks.label_distribution.bins
    # Raises for a target outside.
    distribution = LabelDistribution.from_dataset(dataset, bins=bins)
    assert len(distribution) == 100
    # They fill most of the range.
    assert (distribution.counts > 0).sum() > 60
    assert cfg.data_preprocessor.in_channels == len(dataset[0]['inputs'])
    assert len(dataset) == cfg.train_dataloader.batch_size


@both
def test_sizes_of_the_config(kind, config):
    cfg = config(kind)
    sizes = dict(train=10000, val=10000, test=100000)
    for split, size in sizes.items():
        options = dict(cfg[f'{split}_dataloader'].dataset, lazy_init=True)
        options['dataset'] = dict(options['dataset'], lazy_init=True)
        dataset = DATASETS.build(options).dataset
        assert dataset.split == split
        assert dataset.num_samples == size


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(kind='cubic'), "'linear' or 'nonlinear', got 'cubic'"),
        (dict(split='dev'), "no split 'dev': .*'train', 'val', 'test'"),
        (dict(num_samples=0), 'num_samples .* at least 1, got 0'),
        (dict(num_samples=1.5), r'num_samples .* at least 1, got 1\.5'),
        (dict(seed=-1), 'seed .* at least 0, got -1'),
        (dict(keep_share=0), r'keep_share .* \(0, 1\], got 0'),
        (dict(keep_share=1.1), r'keep_share .* \(0, 1\], got 1\.1'),
        (dict(location_edges=[0, 0.5]), r'from 0 to 1, got \[0, 0\.5\]'),
        (dict(location_edges=[0, 0.5, 0.5, 1]), 'from 0 to 1'),
        (dict(location_edges=[]), 'from 0 to 1'),
        (dict(location_edges=[0, 1]), '1 intervals .* positive'),
        (dict(location_weights=[1, 2]), '7 intervals .* positive'),
        (dict(location_weights=[1, 1, 1, 0, 1, 1, 1]), '7 intervals'),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        OperatorLearningDataset(
            **{'kind': 'linear', 'lazy_init': True, **options}
        )
