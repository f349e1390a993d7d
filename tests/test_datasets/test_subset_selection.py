# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import json

import numpy as np
import pytest

from mmgeom.datasets.subset_selection import (
    load_indices,
    select_ldam,
    select_nested,
)


def ldam_reference(labels, counts, seed):
    """The literature's procedure on numpy's global generator."""
    state = np.random.get_state()
    try:
        np.random.seed(seed)
        targets = np.array(labels, dtype=np.int64)
        chosen = []
        for the_class, the_count in enumerate(counts):
            positions = np.where(targets == the_class)[0]
            np.random.shuffle(positions)
            chosen.extend(int(i) for i in positions[:the_count])
        return chosen
    finally:
        np.random.set_state(state)


def random_case(seed):
    generator = np.random.default_rng(seed)
    num_classes = int(generator.integers(2, 12))
    sizes = generator.integers(0, 60, num_classes)
    labels = generator.permutation(np.repeat(np.arange(num_classes), sizes))
    return labels, generator.integers(0, 80, num_classes)


@pytest.mark.parametrize('seed', range(12))
def test_ldam_equals_the_global_generator(seed):
    labels, counts = random_case(seed)
    before = np.random.get_state()[1].copy()
    chosen = select_ldam(labels, counts, seed)
    assert (np.random.get_state()[1] == before).all()
    assert chosen.tolist() == ldam_reference(labels, counts, seed)


def test_ldam_on_balanced_data():
    labels = np.tile(np.arange(10), 50)
    counts = [50, 29, 17, 10, 6, 3, 2, 1, 1, 0]
    chosen = select_ldam(labels, counts)
    assert chosen.tolist() == ldam_reference(labels, counts, 0)
    assert (np.diff(labels[chosen]) >= 0).all()


@pytest.mark.parametrize('seed', range(12))
def test_nested_selection(seed):
    labels, counts = random_case(seed)
    before = np.random.get_state()[1].copy()
    chosen = select_nested(labels, counts, seed)
    assert (np.random.get_state()[1] == before).all()
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    have = np.bincount(labels, minlength=len(counts))
    kept = np.bincount(labels[chosen], minlength=len(counts))
    assert kept.tolist() == np.minimum(have, counts).tolist()
    fewer = select_nested(labels, counts // 2, seed)
    assert set(fewer) <= set(chosen)


def test_nested_does_not_depend_on_other_classes():
    labels = np.tile(np.arange(3), 20)
    alone = select_nested(labels, [0, 5, 0], 3)
    among = select_nested(labels, [20, 5, 1], 3)
    assert set(among[labels[among] == 1]) == set(alone)
    other = select_nested(labels, [0, 5, 0], 4)
    assert set(other) != set(alone)


@pytest.mark.parametrize('rule', [select_ldam, select_nested])
def test_seed_decides(rule):
    labels = np.repeat(np.arange(2), 50)
    one, two = (rule(labels, [10, 10], seed) for seed in (0, 1))
    assert set(one) != set(two)
    assert rule(labels, [10, 10], 0).tolist() == one.tolist()


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if path.suffix == '.npy':
            np.save(path, content)
        else:
            path.write_text(content)
        return str(path)

    return write


def test_three_formats_in_the_order_of_the_file(write):
    wanted = [5, 0, 7]
    for path in (
        write('a.npy', np.array(wanted, dtype=np.uint16)),
        write('a.json', json.dumps(wanted)),
        write('a.txt', '5\n0\n7\n'),
        write('b.txt', '5 0 7'),
    ):
        indices = load_indices(path, 8)
        assert indices.tolist() == wanted
        assert indices.dtype == np.int64


@pytest.mark.parametrize(
    ('name', 'content', 'match'),
    [
        ('a.txt', '1\n1.5\n', 'cannot be read: invalid literal'),
        ('a.txt', '', r'one list of whole numbers, got int64 of shape \(0,'),
        ('a.json', '[]', 'one list of whole numbers'),
        ('a.json', '{"a": 1}', 'one list of whole numbers'),
        ('a.json', '[[1], [2]]', r'got int64 of shape \(2, 1\)'),
        ('a.json', '[[1], [2, 3]]', 'cannot be read'),
        ('a.json', '[1.0]', 'got float64'),
        ('a.json', '[1,', 'cannot be read'),
        ('a.npy', np.array([True, False]), 'got bool'),
        ('a.npy', np.array([0.5]), 'got float64'),
        ('a.npy', np.array([{}]), 'cannot be read'),
        ('a.json', '[0, 8]', r'index 8 of index file .* \[0, 8\): it was'),
        ('a.json', '[-1, 0]', 'index -1 of index file'),
        ('a.json', '[3, 1, 3]', 'index 3 occurs twice in index file'),
    ],
)
def test_bad_index_files(write, name, content, match):
    path = write(name, content)
    with pytest.raises(ValueError, match=match) as caught:
        load_indices(path, 8)
    assert path in str(caught.value)


def test_empty_and_missing_index_files(tmp_path):
    empty = tmp_path / 'a.npy'
    empty.touch()
    with pytest.raises(ValueError, match='cannot be read'):
        load_indices(str(empty), 8)
    missing = str(tmp_path / 'b.txt')
    with pytest.raises(FileNotFoundError, match='does not exist: give the'):
        load_indices(missing, 8)
