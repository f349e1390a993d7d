# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch

from mmgeom.datasets.long_tailed_profile import long_tailed_counts
from mmgeom.geometry.allocation import allocate_centers, checked_centers

CIFAR10 = {
    200: ([1, 1, 2, 3, 5, 9, 16, 28, 49, 86], 'tail'),
    100: ([1, 2, 3, 4, 7, 11, 18, 29, 47, 78], 'tail'),
    50: ([2, 3, 4, 5, 9, 13, 20, 30, 45, 69], 'tail'),
    10: ([5, 6, 8, 12, 14, 18, 23, 29, 37, 48], 'tail'),
}


def slow_class_aware(counts, f, surplus):
    """The steps of the strategy, one class at a time."""
    k, n = len(counts), sum(counts)
    sign = 1 if surplus == 'tail' else -1
    order = sorted(range(k), key=lambda c: (sign * counts[c], c))
    numbers = [(f - 1) * k * counts[c] // n + 1 for c in order][::-1]
    rank = 0
    while sum(numbers) < f * k:
        numbers[rank] += 1
        rank += 1
    result = [0] * k
    for place, c in enumerate(order):
        result[c] = numbers[place]
    return result


@pytest.mark.parametrize(
    ('counts', 'surplus', 'expected'),
    [
        ((1, 3, 3), 'tail', (4, 4, 1)),
        ((3, 3, 1), 'tail', (4, 1, 4)),
        ((3, 1, 3), 'tail', (4, 4, 1)),
        ((3, 3, 1), 'head', (2, 4, 3)),
    ],
)
def test_worked_example(counts, surplus, expected):
    got = allocate_centers(torch.tensor(counts), 3, surplus=surplus)
    assert tuple(got.tolist()) == expected


@pytest.mark.parametrize('factor', list(CIFAR10))
def test_cifar10(factor):
    counts = torch.tensor(long_tailed_counts(10, 5000, factor))
    expected, surplus = CIFAR10[factor]
    assert allocate_centers(counts, 20, surplus=surplus).tolist() == expected


def test_literal_text_on_cifar():
    counts = torch.tensor(long_tailed_counts(10, 5000, 200))
    got = allocate_centers(counts, 20, surplus='head').tolist()
    assert got == [2, 2, 3, 4, 5, 9, 15, 27, 48, 85]
    counts = torch.tensor(long_tailed_counts(100, 500, 200))
    tied = counts == 2
    tail = allocate_centers(counts, 20)[tied].tolist()
    head = allocate_centers(counts, 20, surplus='head')[tied].tolist()
    assert tail == [101, 96, 91, 86]
    assert head == [85, 90, 95, 100]


def test_random_counts_equal_the_slow_steps_and_keep_the_order():
    generator = torch.Generator().manual_seed(0)
    broken = 0
    for _ in range(1000):
        k = int(torch.randint(2, 12, (1,), generator=generator))
        f = int(torch.randint(1, 9, (1,), generator=generator))
        counts = torch.randint(1, 200, (k,), generator=generator)
        for surplus in ('tail', 'head'):
            got = allocate_centers(counts, f, surplus=surplus)
            assert got.tolist() == slow_class_aware(
                counts.tolist(), f, surplus
            )
            assert got.sum() == f * k and got.min() >= 1
            rarer = counts[:, None] < counts[None]
            fewer = got[:, None] < got[None]
            if surplus == 'tail':
                assert not (rarer & fewer).any()
            else:
                broken += bool((rarer & fewer).any())
    assert broken > 100  # the literal text does not keep the order


@pytest.mark.parametrize('mode', ['class_aware', 'average', 'inverse'])
def test_one_center_each(mode):
    got = allocate_centers(torch.tensor([7, 3, 1]), 1, mode)
    assert got.tolist() == [1, 1, 1]


def test_inverse_is_proportional():
    counts = torch.tensor([600, 300, 200])
    got = allocate_centers(counts, 101, 'inverse') - 1
    assert got.tolist() == [50, 100, 150]


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(f=0), 'f must be at least 1, got 0'),
        (dict(f=3, mode='even'), "center mode 'even' is unknown"),
        (dict(f=3, surplus='middle'), "surplus must be .* got 'middle'"),
        (dict(f=3), r'classes \[1\] have none'),
        (dict(f=3, mode='inverse'), r'classes \[1\] have none'),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        allocate_centers(torch.tensor([3, 0, 2]), **arguments)


def test_average_needs_no_samples():
    assert allocate_centers(torch.tensor([3, 0]), 4, 'average').min() == 4


@pytest.mark.parametrize('numbers', [[1, 2], [1, 2, 0], [1, 2, 2.5]])
def test_explicit_numbers_are_checked(numbers):
    with pytest.raises(ValueError, match='3 whole numbers of at least 1'):
        checked_centers(numbers, 3)


def test_mirror_is_inverse_for_exponential_counts():
    """The pairing of the strategy is inverse proportionality there."""
    rank = torch.arange(10).double() / 9
    counts = 5000 * 0.01**rank
    product = counts * counts.flip(0)
    assert torch.allclose(product, product[:1], rtol=1e-14)
