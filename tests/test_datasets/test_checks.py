# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import sys

import pytest

from mmgeom.datasets.checks import (
    declared_num_classes,
    require_module,
    require_path,
    require_samples,
    require_split,
)


def test_require_path(tmp_path):
    require_path(str(tmp_path), 'get it')
    require_path('https://example.org/file', 'get it')
    missing = str(tmp_path / 'x.txt')
    with pytest.raises(FileNotFoundError) as caught:
        require_path(missing, 'get it')
    assert str(caught.value) == f"'{missing}' does not exist: get it."


def test_require_samples():
    require_samples(1, 'X')
    with pytest.raises(ValueError, match='X holds no samples'):
        require_samples(0, 'X')


def test_require_split():
    require_split('X', 'test', ('train', 'test'))
    with pytest.raises(ValueError, match="X has no split 'val': choose one o"):
        require_split('X', 'val', ('train', 'test'))


def test_require_module(monkeypatch):
    assert require_module('json', 'json', 'X').dumps(1) == '1'
    monkeypatch.setitem(sys.modules, 'scipy.io', None)
    with pytest.raises(ImportError, match='X needs the package scipy'):
        require_module('scipy.io', 'scipy', 'X')


@pytest.mark.parametrize(
    ('metainfo', 'argument', 'expected'),
    [
        ({}, None, None),
        ({}, 4, 4),
        ({'num_classes': 3}, None, 3),
        ({'classes': ('a', 'b')}, None, 2),
        ({'classes': ('a', 'b'), 'num_classes': 2}, 2, 2),
    ],
)
def test_declared_num_classes(metainfo, argument, expected):
    assert declared_num_classes('X', metainfo, argument) == expected


@pytest.mark.parametrize(
    ('metainfo', 'argument', 'message'),
    [
        ({'classes': ('a', 'b')}, 3, r'different numbers of classes, \[2, 3'),
        ({'num_classes': 5}, 3, r'different numbers of classes, \[3, 5\]'),
        ({}, 0, 'num_classes=0: it must be a positive integer'),
        ({}, 2.0, 'num_classes=2.0: it must be a positive integer'),
        ({'classes': ()}, None, 'num_classes=0'),
    ],
)
def test_contradicting_numbers_of_classes(metainfo, argument, message):
    with pytest.raises(ValueError, match=message):
        declared_num_classes('X', metainfo, argument)
