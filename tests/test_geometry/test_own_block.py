# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch

from mmgeom.geometry.own_block import chosen_products


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize('share', [0.0, 0.4, 1.0])
def test_chosen_products_are_those_of_the_whole_matrix(share):
    x = torch.randn(7, 6, generator=generator(), dtype=torch.float64)
    matrix = torch.randn(30, 6, generator=generator(1), dtype=torch.float64)
    index = torch.randint(0, 30, (7, 5), generator=generator(2))
    used = torch.rand(7, 5, generator=generator(3)) < share
    used[0, 0] = True
    x.requires_grad_()
    chosen = chosen_products(x, matrix, index, used)
    expected = (x @ matrix.T).gather(1, index)
    torch.testing.assert_close(chosen[used], expected[used])
    assert chosen.isfinite().all()
    grads = [
        torch.autograd.grad((values * used).square().sum(), x)[0]
        for values in (chosen, expected)
    ]
    torch.testing.assert_close(*grads)


def test_chosen_products_multiply_with_used_rows_only():
    matrix = torch.full((9, 2), torch.inf)
    matrix[4] = torch.tensor([1.0, 2.0])
    index = torch.tensor([[4, 8], [0, 4]])
    used = index == 4
    chosen = chosen_products(torch.ones(2, 2), matrix, index, used)
    # What is not used may be wrong, but is a number.
    assert chosen.tolist() == [[3, 3], [3, 3]]


def test_no_sample_at_all():
    index = torch.zeros(0, 3, dtype=torch.int64)
    chosen = chosen_products(
        torch.zeros(0, 2), torch.eye(2), index, index == 0
    )
    assert chosen.shape == (0, 3)
