# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import csv
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

import mmgeom
from mmgeom.datasets.text_pair_dataset import TextPairDataset
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_values
from mmgeom.registry import DATASETS

SCORES = [0.0, 1.4, 5.0]
STS_B = (
    Path(__file__).resolve().parents[3]
    / 'shared'
    / 'data'
    / 'stsb'
    / 'train_new.tsv'
)


@pytest.fixture
def arrays():
    generator = np.random.default_rng(0)
    u, v = generator.normal(size=(2, 3, 4)).astype(np.float32)
    return dict(u=u, v=v, score=np.array(SCORES))


def build(root, arrays, **kwargs):
    np.savez(root / 'pairs.npz', **arrays)
    return TextPairDataset('pairs.npz', data_root=str(root), **kwargs)


@pytest.fixture(scope='module')
def sts_b():
    return Config.fromfile(mmgeom.config_path('_base_/datasets/sts_b_dir.py'))


def test_features(tmp_path, arrays):
    dataset = build(tmp_path, arrays)
    assert dataset.inputs.shape == (3, 16)
    for row, u, v in zip(dataset.inputs, arrays['u'], arrays['v']):
        expected = [*u, *v]
        expected += [abs(a - b) for a, b in zip(u, v)]
        expected += [a * b for a, b in zip(u, v)]
        assert row.tolist() == expected
    assert dataset.get_inputs().dtype == np.float64
    # Scores stay as they were, for a bin's edge may be near.
    assert dataset_values(dataset).tolist() == SCORES


def test_registry_and_pipeline(tmp_path, arrays, sts_b):
    np.savez(tmp_path / 'train_new.npz', **arrays)
    cfg = sts_b.train_dataloader.dataset.dataset
    cfg.data_root = str(tmp_path)
    item = DATASETS.build(cfg)[1]
    assert item['inputs'].shape == (16,)
    assert item['data_samples'].gt_score.tolist() == [np.float32(1.4)]


def test_split(tmp_path, arrays):
    arrays['split'] = np.array(['train', 'test', 'train'])
    dataset = build(tmp_path, arrays, split='train')
    assert dataset.get_gt_values().tolist() == [0, 5]
    assert np.array_equal(dataset.inputs[1, :4], arrays['u'][2])
    assert 'Split: \ttrain' in repr(dataset)
    assert len(build(tmp_path, arrays)) == 3
    with pytest.raises(ValueError, match="no split 'val': .*'test', 'train'"):
        build(tmp_path, arrays, split='val')
    arrays['split'] = arrays['split'][:2]
    with pytest.raises(ValueError, match=r'3 pairs but split of shape \(2,\)'):
        build(tmp_path, arrays, split='train')


def test_row_of_a_bad_value_is_that_of_the_file(tmp_path, arrays):
    arrays['split'] = np.array(['a', 'b', 'b'])
    arrays['v'][2, 1] = np.nan
    with pytest.raises(ValueError, match=r'npz. row 2 has a value in its v '):
        build(tmp_path, arrays, split='b')
    arrays['v'][2, 1] = 0
    arrays['score'][1] = np.inf
    with pytest.raises(ValueError, match='row 1 has a value in its score '):
        build(tmp_path, arrays, split='b')


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(u=np.zeros((3, 5))), r'u of shape \(3, 5\), v of shape \(3, 4'),
        (dict(score=np.zeros(2)), r'score of shape \(2,\): give \(N, e\)'),
        (dict(score=np.array(['1', '2', '3'])), 'score of dtype <U1: give'),
        (dict(score=None), r"\['u', 'v'\], not \['score'\]: make it with"),
    ],
)
def test_bad_arrays(tmp_path, arrays, change, message):
    arrays.update(change)
    arrays = {k: v for k, v in arrays.items() if v is not None}
    with pytest.raises(ValueError, match=message):
        build(tmp_path, arrays)


def test_no_split_in_file(tmp_path, arrays):
    with pytest.raises(ValueError, match=r"not \['split'\]"):
        build(tmp_path, arrays, split='train')


def test_no_pairs(tmp_path, arrays):
    with pytest.raises(ValueError, match=r'pairs\.npz. holds no samples'):
        build(tmp_path, {k: v[:0] for k, v in arrays.items()})


@pytest.mark.parametrize('content', [b'', b'text', b'PK\x03\x04broken'])
def test_broken_file(tmp_path, content):
    (tmp_path / 'x.npz').write_bytes(content)
    with pytest.raises(ValueError, match=r'x\.npz. is not an intact \.npz'):
        TextPairDataset('x.npz', data_root=str(tmp_path))


def test_other_numpy_files(tmp_path, arrays):
    np.save(tmp_path / 'x.npy', arrays['u'])
    with pytest.raises(ValueError, match=r'\(it holds one array\)'):
        TextPairDataset('x.npy', data_root=str(tmp_path))
    # Nothing that runs code when it is read.
    arrays['score'] = np.array([1, None, 'x'], dtype=object)
    with pytest.raises(ValueError, match='not an intact .* of plain arrays'):
        build(tmp_path, arrays)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match='make it with tools/dataset'):
        TextPairDataset('x.npz', data_root=str(tmp_path))


def test_tenths_fall_into_their_bins(sts_b):
    tenths = np.array([float(f'{k / 10:.1f}') for k in range(51)])
    bins = sts_b.default_hooks.label_distribution.bins
    for values in (tenths, tenths.astype(np.float32)):
        distribution = LabelDistribution.from_values(values, bins)
        assert len(distribution) == 50
        assert distribution.counts.tolist() == [1] * 49 + [2]


def test_groups_are_a_partition(sts_b):
    rule = dict(sts_b.val_evaluator.groups)
    groups = LabelDistribution([1] * 50).groups(**rule)
    sizes = {name: len(index) for name, index in groups.items()}
    assert sizes == dict(many=22, medium=7, few=21)


def test_groups_fit_the_published_split(sts_b):
    if not STS_B.is_file():
        pytest.skip('the file of sentence pairs is not here')
    with STS_B.open(encoding='utf-8') as file:
        lines = csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE)
        scores = [float(line['score']) for line in lines]
    bins = sts_b.default_hooks.label_distribution.bins
    distribution = LabelDistribution.from_values(scores, bins)
    assert distribution.num_samples == 5249
    given = distribution.groups(**sts_b.val_evaluator.groups)
    counted = distribution.groups(by='count', many=100, few=20)
    assert given['many'].tolist() == counted['many'].tolist()
    assert set(given['medium'].tolist()) <= set(counted['medium'].tolist())
