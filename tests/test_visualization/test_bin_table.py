# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.visualization.bin_table import bin_table


def table(counts, *args, **kwargs):
    bins = LabelBins(np.arange(len(counts) + 1))
    text = bin_table(LabelDistribution(counts, bins), *args, **kwargs)
    rows = [line.split() for line in text.splitlines()]
    return rows[0], rows[2:]


def test_a_row_for_each_bin():
    head, rows = table([200, 50, 0], other_counts=dict(test=[1, 2, 3]))
    assert head == ['label', 'bins', 'groups', 'training', 'test']
    assert rows == [
        ['0', 'to', '1', '1', 'many', '200', '1'],
        ['1', 'to', '2', '1', 'medium', '50', '2'],
        ['2', 'to', '3', '1', 'few', '0', '3'],
    ]


def test_neighbouring_bins_share_a_row():
    groups = dict(by='given', groups=dict(a=[1], b=[2, 3]))
    _, rows = table([1, 2, 3, 4, 5], groups, limit=3)
    assert rows == [
        ['0', 'to', '2', '2', 'a', '3'],
        ['2', 'to', '4', '2', 'b', '7'],
        ['4', 'to', '5', '1', '-', '5'],
    ]
    _, rows = table([1, 2, 3, 4, 5], groups, limit=2)
    assert rows[0] == ['0', 'to', '3', '3', 'a,', 'b', '6']
    assert len(rows) == 2


@pytest.mark.parametrize(
    'edges, labels',
    [
        ([-2.8 + 0.056 * k for k in (0, 50, 100)], ['-2.8', '0', '2.8']),
        ([0.0, 1e-6, 3e-6], ['0', '1e-06', '3e-06']),
        ([0.0, 1e7, 2.5e7], ['0', '1e+07', '2.5e+07']),
    ],
)
def test_edges_are_legible(edges, labels):
    text = bin_table(LabelDistribution([1, 1], LabelBins(edges)))
    first, second = [line.split() for line in text.splitlines()[2:]]
    assert [first[0], first[2], second[2]] == labels


@pytest.mark.parametrize('size', [1, 20, 21, 40, 41, 101])
def test_no_more_rows_than_the_limit(size):
    _, rows = table([1] * size)
    assert len(rows) <= 20
    assert sum(int(row[-1]) for row in rows) == size


def test_classes_are_no_bins():
    with pytest.raises(ValueError, match='a table of bins needs bins'):
        bin_table(LabelDistribution([2, 1]))
