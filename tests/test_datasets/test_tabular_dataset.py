# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import default_collate
from mmpretrain.structures import DataSample

from mmgeom.datasets.tabular_dataset import TabularDataset
from mmgeom.labels import dataset_inputs, dataset_labels, dataset_values
from mmgeom.registry import DATASETS

ROOT = Path(__file__).resolve().parents[2]
UCI = ROOT.parent / 'shared' / 'data' / 'uci'
SEX = 'rings,sex,length\n15,M,0.5\n7,F,0.25\n\n9, M ,1e-1\n4,I,2\n'


@pytest.fixture
def write(tmp_path):
    def write(text, name='rows.csv'):
        path = tmp_path / name
        path.write_text(text, encoding='utf-8')
        return str(path)

    return write


@pytest.fixture
def rows(tmp_path):
    """Ten rows as npz file: x = (i, -i), y = 10 i."""
    number = np.arange(10.0)
    path = tmp_path / 'rows.npz'
    np.savez(path, x=np.stack([number, -number], 1), y=10 * number)
    return str(path)


# Text files ------------------------------------------------------------------
def test_header_and_default_target(write):
    dataset = TabularDataset(write('a,b,c\n1,2,3\n4,5,6\n'))
    assert dataset.get_inputs().tolist() == [[1, 2], [4, 5]]
    assert dataset.get_gt_values().tolist() == [3, 6]
    assert dataset.metainfo == dict(
        input_names=['a', 'b'], target_names=['c'], column_categories={}
    )


@pytest.mark.parametrize('target', ['a', 0, -3])
def test_target_by_name_or_index(write, target):
    dataset = TabularDataset(write('a,b,c\n1,2,3\n4,5,6\n'), target=target)
    assert dataset.get_inputs().tolist() == [[2, 3], [5, 6]]
    assert dataset.get_gt_values().tolist() == [1, 4]


def test_no_header_other_delimiter_and_byte_order_mark(write):
    path = write('\ufeff1;2;3\n4;5;6', 'rows.txt')
    dataset = TabularDataset(path, header=False, delimiter=';')
    assert dataset.get_inputs().tolist() == [[1, 2], [4, 5]]
    assert dataset.metainfo['input_names'] == ['column 0', 'column 1']


def test_categories_in_sorted_order(write):
    dataset = TabularDataset(write(SEX), target='rings', categorical=['sex'])
    assert dataset.metainfo['input_names'] == [
        'sex=F',
        'sex=I',
        'sex=M',
        'length',
    ]
    assert dataset.metainfo['column_categories'] == dict(sex=['F', 'I', 'M'])
    expected = [[0, 0, 1, 0.5], [1, 0, 0, 0.25], [0, 0, 1, 0.1], [0, 1, 0, 2]]
    assert dataset.get_inputs() == pytest.approx(np.array(expected))
    # All categories of the file, whatever rows the split holds.
    part = TabularDataset(
        write(SEX), target=0, categorical=[1], split='test', test_share=0.25
    )
    assert part.inputs.shape == (1, 4)


def test_categories_in_the_order_given(write):
    dataset = TabularDataset(
        write(SEX), target='rings', categorical=dict(sex=['M', 'X', 'F', 'I'])
    )
    assert dataset.metainfo['column_categories'] == dict(
        sex=['M', 'X', 'F', 'I']
    )
    expected = [
        [1, 0, 0, 0, 0.5],
        [0, 0, 1, 0, 0.25],
        [1, 0, 0, 0, 0.1],
        [0, 0, 0, 1, 2],
    ]
    assert dataset.get_inputs() == pytest.approx(np.array(expected))
    # Columns by index, and numbers as categories.
    dataset = TabularDataset(
        write('a,b,y\n1,7,0\n2,8,0\n'), categorical={1: [8, 7], 0: [1, 2]}
    )
    assert dataset.metainfo['input_names'] == ['a=1', 'a=2', 'b=8', 'b=7']
    assert dataset.get_inputs().tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]


def test_ignored_columns_may_have_gaps(write):
    path = write('a,b,c\n1,,3\n4,x,6\n')
    dataset = TabularDataset(path, ignore_columns=['b'])
    assert dataset.get_inputs().tolist() == [[1], [4]]


def test_several_targets(write):
    path = write('a,b,c,d\n1,2,3,4\n5,6,7,8\n')
    dataset = TabularDataset(path, target=['d', 1], ignore_columns=['a'])
    assert dataset.get_gt_values().tolist() == [[4, 2], [8, 6]]
    assert dataset.get_inputs().tolist() == [[3], [7]]
    assert dataset.metainfo['target_names'] == ['d', 'b']
    assert dataset.get_data_info(1)['gt_score'].tolist() == [8, 6]
    assert dataset_values(dataset).shape == (2, 2)


@pytest.mark.parametrize(
    ('text', 'options', 'message'),
    [
        ('a,b\n1,2\n3,nan\n', {}, "line 3, column 'b' holds 'nan', which is"),
        ('a,b\n\n1,2\ninf,2', {}, "line 4, column 'a' holds 'inf', which is"),
        ('a,b\n1,1e99\n', {}, "holds '1e99', which is not a finite number"),
        ('a,b\n1,2\n?,2\n', {}, "line 3, column 'a' holds '\\?', which is no"),
        (
            'a,b,c\n1,2,3\n,2,3\n,,3\n',
            {},
            "line 3, column 'a' is missing .*all: 3, in columns: 2.: fill "
            'them in, remove the rows, or name',
        ),
        ('a,b\n1,2\n', dict(header=False), 'line 1.*or set header=True'),
        (
            'a,b\nx,2\n',
            {},
            'line 2.*in `categorical` or `ignore_columns`\\.$',
        ),
        (
            'a;b\n1;-2,5\n',
            dict(delimiter=';'),
            "holds '-2,5', .*: write decimals with a point instead of a",
        ),
        ('1,2\n3,4\n', {}, 'holds numbers only.*set header=False'),
        ('a,b\n1,2\n1,2,3\n', {}, 'line 3 has 3 cells instead of 2'),
        ('a;b\n1,2\n', {}, "line 2 has 2 cells instead of 1.*delimiter ','"),
        ('a,b\n', {}, 'holds no samples'),
        ('\n\n', {}, 'holds no samples'),
        ('a,a\n1,2\n', {}, "two columns of .* are named 'a'"),
        ('a,b\n1,2\n', dict(target='z'), "no column 'z': its columns are"),
        ('a,b\n1,2\n', dict(target=2), 'no column 2: its columns are'),
        ('a;b\n1;2\n', dict(target='b'), "; its delimiter may be ';'"),
        ('a,b\n1,2\n', dict(target=[]), 'no target column'),
        ('a,b\n1,2\n', dict(ignore_columns=['a']), 'is left as input'),
        (
            'a,b\n1,2\n',
            dict(categorical=['b']),
            "'b' of .* is named as target and as categorical",
        ),
        (
            'a,b\n,2\n',
            dict(categorical=['a']),
            "line 2, column 'a' is missing.*with a category of their own",
        ),
        (
            'a,b\nx,2\nz,2\n',
            dict(categorical=dict(a=['x', 'y'])),
            r"line 3, column 'a' holds 'z', which is none of .*\['x', 'y'\]",
        ),
        ('a,b\nx,2\n', dict(categorical=dict(a=[])), 'each named once, got'),
        (
            'a,b\nx,2\n',
            dict(categorical=dict(a=['x', 'x'])),
            'each named once, got',
        ),
        ('a,b\nx,2\n', dict(categorical=dict(c=['x'])), "no column 'c'"),
        ('a,b\n1,2\n', dict(delimiter=''), 'must be one character'),
    ],
)
def test_bad_text_files(write, text, options, message):
    with pytest.raises(ValueError, match=message):
        TabularDataset(write(text), **options)


def test_column_list_that_is_no_list(write):
    with pytest.raises(TypeError, match=r"lists of columns, got 'a'"):
        TabularDataset(write('a,b\n1,2\n'), categorical='a')


def test_categories_that_are_no_list(write):
    with pytest.raises(TypeError, match=r"must be a list, got 'xy'"):
        TabularDataset(write('a,b\nx,2\n'), categorical=dict(a='xy'))


def test_spreadsheet_instead_of_text(tmp_path):
    path = tmp_path / 'rows.xls'
    path.write_bytes(b'\xd0\xcf\x11\xe0\xff')
    with pytest.raises(ValueError, match='is not a text file.*save the tabl'):
        TabularDataset(str(path))


def test_missing_file(tmp_path):
    for name in ('rows.csv', 'rows.npz'):
        with pytest.raises(FileNotFoundError, match='correct `data_root`'):
            TabularDataset(name, data_root=str(tmp_path))


# Arrays and scikit-learn -----------------------------------------------------
def test_npz(rows):
    dataset = TabularDataset(rows)
    assert dataset.get_inputs()[3].tolist() == [3, -3]
    assert dataset.get_gt_values()[3] == 30
    assert dataset.metainfo['input_names'] == ['x0', 'x1']
    assert dataset.metainfo['target_names'] == ['y0']


@pytest.mark.parametrize(
    ('arrays', 'message'),
    [
        (dict(x=np.ones((2, 1))), r"holds the arrays \['x'\]"),
        (dict(x=np.ones((2, 1)), y=np.ones(3)), r'inputs of shape \(2, 1\)'),
        (dict(x=np.ones(2), y=np.ones(2)), r'inputs of shape \(2,\)'),
        (dict(x=np.ones((2, 0)), y=np.ones(2)), r'inputs of shape \(2, 0\)'),
        (dict(x=np.ones((0, 2)), y=np.ones(0)), 'holds no samples'),
        (
            dict(x=np.array([[1, 2], [3, np.nan]]), y=np.ones(2)),
            'row 1, input column 1 holds nan',
        ),
        (
            dict(x=np.ones((3, 2)), y=np.array([1, 1, -np.inf])),
            'row 2, target column 0 holds -inf',
        ),
        (dict(x=np.array([['a']]), y=np.ones(1)), 'are not numbers'),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    path = tmp_path / 'rows.npz'
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        TabularDataset(str(path))


def test_file_that_is_no_npz(write):
    with pytest.raises(ValueError, match='cannot be read as an npz file'):
        TabularDataset(write('not an archive', 'rows.npz'))


def test_sklearn():
    sklearn = pytest.importorskip('sklearn.datasets')
    dataset = TabularDataset(source='sklearn:diabetes')
    expected = sklearn.load_diabetes(scaled=False)
    assert np.allclose(dataset.get_inputs(), expected.data)
    assert dataset.get_gt_values().tolist() == expected.target.tolist()
    assert dataset.metainfo['input_names'] == expected.feature_names
    several = TabularDataset(source='sklearn:linnerud')
    assert several.targets.shape == (20, 3)
    assert several.metainfo['target_names'] == ['Weight', 'Waist', 'Pulse']


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({}, "either ann_file or source.*got ann_file='' and source=None"),
        (dict(ann_file='a.csv', source='sklearn:diabetes'), 'either ann_file'),
        (dict(source='diabetes'), "must be 'sklearn:' and the name"),
        (dict(source='sklearn:iris'), "no regression set 'iris'"),
        (
            dict(source='sklearn:diabetes', target=0, header=False),
            r"\['target', 'header'\] describe a text file",
        ),
        (
            dict(ann_file='a.npz', categorical=dict(a=['x'])),
            r"\['categorical'\] describe",
        ),
        (dict(ann_file='a.npz', delimiter=';'), r"\['delimiter'\] describe"),
        (dict(ann_file='a.csv', split='dev'), "no split 'dev'"),
        (dict(ann_file='a.csv', val_share=-0.1), 'must not be negative'),
        (dict(ann_file='a.csv', val_share=0.5, test_share=0.5), 'must leave'),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        TabularDataset(**options)


# Splits ----------------------------------------------------------------------
def test_splits_are_disjoint_and_complete(rows):
    def values(split, **kwargs):
        dataset = TabularDataset(rows, split=split, **kwargs)
        return dataset.get_gt_values().tolist()

    parts = [values(split) for split in ('train', 'val', 'test')]
    assert [len(part) for part in parts] == [7, 1, 2]
    assert sorted(parts[0] + parts[1] + parts[2]) == [
        10 * i for i in range(10)
    ]
    assert all(part == sorted(part) for part in parts)
    assert values('test') == parts[2]
    others = [values('test', seed=seed) for seed in range(1, 6)]
    assert any(other != parts[2] for other in others)


def test_empty_split(rows):
    with pytest.raises(ValueError, match='the val split of 10 rows is empty'):
        TabularDataset(rows, split='val', val_share=0.0)


def test_global_generators_are_left_alone(rows):
    np.random.seed(3)
    before = np.random.get_state()[1].tolist()
    TabularDataset(rows, split='train')
    assert np.random.get_state()[1].tolist() == before


# What a dataset owes the host ------------------------------------------------
@pytest.mark.parametrize('serialize', [True, False])
def test_items(rows, serialize):
    dataset = TabularDataset(rows, serialize_data=serialize)
    for index in (0, 4, -1):
        info = dataset.get_data_info(index)
        assert info['sample_idx'] == index % 10
        assert torch.equal(
            info['img'], torch.tensor([1.0, -1.0]) * (index % 10)
        )
        assert info['img'].dtype == torch.float32
        assert info['gt_score'].dtype == np.float32
        assert info['gt_score'].tolist() == [10 * (index % 10)]
    dataset.get_data_info(4)['img'][:] = 99
    assert dataset.get_data_info(4)['img'].tolist() == [4, -4]
    with pytest.raises(IndexError):
        dataset.get_data_info(10)


def test_batch(rows):
    dataset = TabularDataset(rows)
    batch = default_collate([dataset[i] for i in (2, 5, 7)])
    assert batch['inputs'].shape == (3, 2)
    assert batch['inputs'].dtype == torch.float32
    samples = batch['data_samples']
    assert all(isinstance(sample, DataSample) for sample in samples)
    assert [sample.gt_score.tolist() for sample in samples] == [
        [20],
        [50],
        [70],
    ]
    assert [sample.sample_idx for sample in samples] == [2, 5, 7]


@pytest.mark.parametrize('serialize', [True, False])
@pytest.mark.parametrize('indices', [3, -2, [5, 0, 3]])
def test_subsets(rows, serialize, indices):
    expected = np.arange(10)
    expected = (
        expected[indices]
        if isinstance(indices, list)
        else expected[:indices]
        if indices > 0
        else expected[indices:]
    )
    whole = TabularDataset(rows, serialize_data=serialize)
    in_place = TabularDataset(rows, serialize_data=serialize)
    in_place.get_subset_(indices)
    at_build = TabularDataset(rows, serialize_data=serialize, indices=indices)
    for part in (whole.get_subset(indices), in_place, at_build):
        assert len(part) == len(expected)
        assert part.get_gt_values().tolist() == (10 * expected).tolist()
        assert part.get_inputs()[:, 0].tolist() == expected.tolist()
        assert part.inputs.shape == (len(expected), 2)
        assert part.targets.shape == (len(expected), 1)
        last = part.get_data_info(-1)
        assert last['gt_score'].tolist() == [10 * expected[-1]]
    assert whole.get_subset(3)._inputs is whole._inputs


def test_protocols(rows):
    dataset = TabularDataset(rows, lazy_init=True)
    assert dataset.metainfo == {}
    assert dataset_values(dataset).tolist() == [10 * i for i in range(10)]
    assert dataset_inputs(dataset).shape == (10, 2)
    with pytest.raises(TypeError, match='for regression targets give the bi'):
        dataset_labels(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(copy.inputs, dataset.inputs)
    text = repr(TabularDataset(rows, split='val'))
    assert 'rows.npz' in text
    assert 'val (seed 0)' in text


def test_by_config(rows):
    dataset = DATASETS.build(
        dict(type='mmgeom.TabularDataset', ann_file=rows, pipeline=[])
    )
    assert isinstance(dataset, TabularDataset)
    assert set(dataset[0]) == {'img', 'gt_score', 'sample_idx'}


# Real files, where they are at hand ------------------------------------------
@pytest.mark.parametrize(
    ('name', 'shape', 'first'),
    [
        ('airfoil', (1503, 5), 8.8281),
        ('concrete', (1030, 8), 44.172),
        ('abalone', (4177, 10), 15),
    ],
)
def test_uci(name, shape, first):
    path = UCI / f'{name}.csv'
    if not path.is_file():
        pytest.skip('the UCI files are not here')
    config = Config.fromfile(
        ROOT / 'configs' / '_base_' / 'datasets' / f'uci_{name}_dir.py'
    )
    cfg = config.train_dataloader.dataset
    while 'dataset' in cfg:
        cfg = cfg.dataset
    dataset = DATASETS.build({**cfg, 'ann_file': str(path)})
    assert dataset.inputs.shape == shape
    assert config.data_preprocessor.in_channels == shape[1]
    assert dataset.get_gt_values()[0] == pytest.approx(first, abs=1e-3)
