# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from mmgeom.distribution import LabelDistribution
from mmgeom.visualization.class_table import class_table


def cells(text):
    return [line.split() for line in text.splitlines()]


def test_all_classes_by_count():
    distribution = LabelDistribution(
        [5, 500, 50], class_names=['[red]cat', '1', 'dog']
    )
    table = class_table(distribution, other_counts=dict(test=[7, 8, 9]))
    rows = cells(table)
    assert rows[0] == ['class', 'group', 'training', 'test']
    assert rows[2:] == [
        ['1', 'many', '500', '8'],
        ['2', 'dog', 'medium', '50', '9'],
        ['0', '[red]cat', 'few', '5', '7'],
    ]


def test_first_and_last_of_many():
    table = class_table(LabelDistribution(range(1, 31)), limit=20)
    rows = cells(table)[2:]
    assert [row[0] for row in rows] == [
        *('29', '28', '27', '26', '25'),
        '...',
        *('4', '3', '2', '1', '0'),
    ]


def test_class_in_no_group():
    groups = dict(by='given', groups=dict(a=[0]))
    rows = cells(class_table(LabelDistribution([2, 1]), groups))
    assert rows[3] == ['1', '-', '1']
