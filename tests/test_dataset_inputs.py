# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset
from tabular_runs import StandInRows
from torch.utils.data import Subset

from mmgeom.labels import dataset_inputs


class Table:
    """The least that is needed."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def get_inputs(self):
        return self.rows


def test_rows():
    dataset = StandInRows(num_samples=5)
    rows = dataset_inputs(dataset)
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, dataset.table)
    rows[:] = 0  # A copy.
    np.testing.assert_array_equal(dataset_inputs(dataset), dataset.table)
    integers = dataset_inputs(Table([[1, 2], [3, 4]]))
    assert integers.dtype == np.float64
    assert integers.tolist() == [[1, 2], [3, 4]]
    assert dataset_inputs(np.eye(2)).tolist() == [[1, 0], [0, 1]]


def test_wrappers():
    dataset = StandInRows(num_samples=5)
    table = dataset.table
    repeated = RepeatDataset(dataset, 2)
    np.testing.assert_array_equal(
        dataset_inputs(repeated), np.concatenate([table, table])
    )
    subset = Subset(dataset, [3, 0])
    np.testing.assert_array_equal(dataset_inputs(subset), table[[3, 0]])
    joined = ConcatDataset([dataset, StandInRows(num_samples=2)])
    assert dataset_inputs(joined).shape == (7, 3)


def test_no_rows():
    with pytest.raises(
        TypeError,
        match=r'rows from range: give it `get_inputs\(\)`.*shape \(N, d\)',
    ):
        dataset_inputs(range(3))
    with pytest.raises(TypeError, match='rows from range'):
        dataset_inputs(Subset(range(3), [1]))


def test_no_table():
    with pytest.raises(
        ValueError, match=r'of Table must have shape \(N, d\), got \(3,\)'
    ):
        dataset_inputs(Table([1.0, 2.0, 3.0]))
