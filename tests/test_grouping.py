# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch

from mmgeom.grouping import RULES, group_classes

COUNTS = torch.tensor([100, 500, 20, 0, 101, 19, 1])


def plain(groups):
    return {name: index.tolist() for name, index in groups.items()}


def test_by_count_uses_the_conventional_limits():
    assert plain(group_classes(COUNTS)) == dict(
        many=[1, 4], medium=[0, 2], few=[3, 5, 6]
    )
    assert plain(group_classes(COUNTS, many=19, few=19)) == dict(
        many=[0, 1, 2, 4], medium=[5], few=[3, 6]
    )
    assert plain(group_classes(COUNTS, 'count', many=1000, few=0)) == dict(
        many=[], medium=list(range(7)), few=[]
    )


def test_by_range():
    groups = group_classes(
        torch.ones(100),
        'range',
        ranges=dict(many=(0, 36), medium=(36, 71), few=(71, 100)),
    )
    assert [len(g) for g in groups.values()] == [36, 35, 29]
    assert groups['medium'].tolist() == list(range(36, 71))
    assert groups['few'].dtype == torch.int64


def test_by_thirds_puts_empty_classes_into_few():
    assert plain(group_classes(COUNTS, 'thirds')) == dict(
        many=[1, 4], medium=[0, 2], few=[3, 5, 6]
    )
    ten = plain(group_classes(torch.arange(10, 0, -1), 'thirds'))
    assert ten == dict(many=[0, 1, 2, 3], medium=[4, 5, 6], few=[7, 8, 9])
    tied = plain(group_classes(torch.tensor([5, 5, 5]), 'thirds'))
    assert tied == dict(many=[0], medium=[1], few=[2])
    one = plain(group_classes(torch.tensor([5]), 'thirds'))
    assert one == dict(many=[0], medium=[], few=[])


def test_given_sorts_and_may_leave_classes_out():
    groups = group_classes(
        COUNTS, 'given', groups=dict(head=[4, 1], tail=(6,), none=[])
    )
    assert plain(groups) == dict(head=[1, 4], tail=[6], none=[])


def test_given_names_the_rest():
    groups = group_classes(
        COUNTS, 'given', groups=dict(many=[4, 1], medium=[2]), rest='few'
    )
    assert plain(groups) == dict(many=[1, 4], medium=[2], few=[0, 3, 5, 6])
    full = dict(a=range(7))
    assert plain(group_classes(COUNTS, 'given', groups=full, rest='b')) == {
        'a': list(range(7)),
        'b': [],
    }


@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (dict(by='median'), "group rule 'median' is unknown"),
        (dict(few=200), 'few <= many, got few=200, many=100'),
        (dict(by='range'), "'range' does not take the arguments"),
        (dict(by='thirds', many=3), "'thirds' does not take .*many"),
        (dict(by='count', few_shot=3), "'count' does not take .*few_shot"),
        (dict(by='given', groups={}), 'at least one group of classes'),
        (
            dict(by='given', groups=dict(a=[6]), rest='a'),
            "'a' is both given and the rest",
        ),
        (dict(by='given', groups=dict(a=[7])), r'class 7 .* outside \[0, 7\)'),
        (dict(by='given', groups=dict(a=[-1])), 'class -1 of a shot group'),
        (
            dict(by='given', groups=dict(a=[1, 2], b=[2])),
            'class 2 is in two shot groups',
        ),
        (dict(by='range', ranges=dict(a=(0, 8))), 'class 7 of a shot group'),
        (
            dict(by='range', ranges=dict(a=(0, 3), b=(2, 5))),
            'class 2 is in two shot groups',
        ),
        (
            dict(by='range', ranges=dict(a=(5, 2))),
            r"range of shot group 'a' must be \(start, stop\).*got \(5, 2\)",
        ),
        (dict(by='range', ranges=dict(a=(0, 3, 1))), r'got \(0, 3, 1\)'),
    ],
)
def test_errors(kwargs, match):
    with pytest.raises(ValueError, match=match):
        group_classes(COUNTS, **kwargs)


def test_all_rules_are_reachable():
    arguments = dict(
        range=dict(ranges=dict(a=(0, 7))),
        rank=dict(ranges=dict(a=(0, 7))),
        given=dict(groups=dict(a=[0])),
    )
    for rule in RULES:
        groups = group_classes(COUNTS, rule, **arguments.get(rule, {}))
        assert all(g.dtype == torch.int64 for g in groups.values())


def test_ranks_are_places_by_count():
    counts = torch.tensor([5, 50, 7, 500])
    ranges = dict(many=(0, 1), medium=(1, 3), few=(3, 4))
    groups = group_classes(counts, 'rank', ranges=ranges)
    assert {k: v.tolist() for k, v in groups.items()} == {
        'many': [3],
        'medium': [1, 2],
        'few': [0],
    }
