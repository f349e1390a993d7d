# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch

from mmgeom.datasets.tabular_dataset import TabularDataset
from mmgeom.datasets.tabular_rows import RowEncoder, as_rows, as_table

TEXT = 'size,sex,grade,y\n1.5,F,2,0\n2.5,M,1,0\n-1,I,10,0\n'
NAMES = ['size', 'sex=F', 'sex=I', 'sex=M', 'grade=1', 'grade=10', 'grade=2']


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / 'rows.csv'
    path.write_text(TEXT)
    return TabularDataset(str(path), categorical=['grade', 'sex'])


@pytest.fixture
def encoder(dataset):
    return RowEncoder.from_metainfo(dataset.metainfo)


def test_columns(dataset, encoder):
    assert dataset.metainfo['input_names'] == NAMES
    assert encoder.columns == ['size', 'sex', 'grade']
    assert encoder.num_inputs == len(NAMES)


@pytest.mark.parametrize(
    'row',
    [
        [2.5, 'M', 1],
        (2.5, 'M', '1'),
        np.array([2.5, 'M', 1], dtype=object),
        ['2.5', ' M ', 1.0],
        dict(grade='1', sex='M', size=2.5, y=3.0),
        dict(size='2.5', sex='M', grade=1),
    ],
)
def test_as_the_reader_does(dataset, encoder, row):
    np.testing.assert_array_equal(encoder(row), dataset.get_inputs()[1])


def test_encoded_rows_are_left_alone(encoder):
    row = [2.5, 0, 0, 1, 1, 0, 0]
    assert encoder(torch.tensor(row)).tolist() == row


@pytest.mark.parametrize(
    ('row', 'message'),
    [
        ([1, 'F'], r"row 4 has 2 values.*\['size', 'sex', 'grade'\]"),
        (dict(size=1, sex='F'), r"row 4 has no value of \['grade'\]"),
        ([1, 'X', 2], r"row 4, column 'sex' holds 'X'.*\['F', 'I', 'M'\]"),
        ([1, 'F', 3.0], "row 4, column 'grade' holds 3.0, which is none"),
        (['big', 'F', 2], "row 4, column 'size' holds 'big', which is not"),
    ],
)
def test_bad_rows(encoder, row, message):
    with pytest.raises(ValueError, match=message):
        encoder(row, 4)


def test_without_names():
    for metainfo in (None, {}, dict(classes=['a'])):
        assert RowEncoder.from_metainfo(metainfo) is None


def test_names_that_look_like_categories():
    encoder = RowEncoder(['a=1', 'b', 'a=2'], dict(a=['1', '2']))
    assert encoder.columns == ['a=1', 'b', 'a=2']


def test_tables():
    assert as_table([[1, 2]]).tolist() == [[1, 2]]
    assert as_table([torch.ones(2)]).dtype == np.float64
    for other in ('a', [['a', 1]], [[1, 2], [1]], {}, [dict(a=1)]):
        assert as_table(other) is None


@pytest.mark.parametrize(
    ('given', 'rows'),
    [
        (['a', 1], [['a', 1]]),
        ([['a', 1], ('b', 2)], [['a', 1], ('b', 2)]),
        (dict(x=1), [dict(x=1)]),
        ([dict(x=1)], [dict(x=1)]),
        (np.array([['a', '1']]), [['a', '1']]),
        (np.array([1.0, 2.0]), [[1.0, 2.0]]),
    ],
)
def test_rows(given, rows):
    assert as_rows(given) == rows


def test_text_is_no_row():
    with pytest.raises(ValueError, match="the input 'a.csv' is no row"):
        as_rows('a.csv')
