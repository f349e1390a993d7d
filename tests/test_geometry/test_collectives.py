# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Sums and concatenations over two real processes."""

import pytest
import torch
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.geometry import (
    all_gather_rows,
    all_reduce_sum,
    broadcast_,
    rank,
    reduce_sum_,
    remote_rows,
    row_counts,
    supervised_contrastive_loss,
    world_size,
)

ROWS = {0: slice(0, 7), 1: slice(7, 11)}
# Class 4 is on rank 1 only, and a single sample; class 0 on rank 0 only.
LABELS = torch.tensor([0, 0, 1, 2, 1, 3, 3, 1, 2, 4, 3])
TEMPERATURE = torch.tensor([0.5, 0.1, 1.0, 0.2, 0.3]).double()
CASES = [
    dict(form=form, reduction=reduction, implementation=implementation)
    for form in ('sample', 'class_averaged')
    for reduction in ('mean', 'sum')
    for implementation in ('dense', 'tiled')
]


def contrast(part, **options):
    """Loss, and gradients of a map of the features and of prototypes."""
    generator = torch.Generator().manual_seed(0)
    x, weight, keys = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((11, 6), (4, 6), (5, 4))
    )
    weight.requires_grad_()
    keys.requires_grad_()
    features = torch.nn.functional.normalize(x[part] @ weight.T, dim=1)
    loss = supervised_contrastive_loss(
        features,
        LABELS[part],
        TEMPERATURE,
        extra_keys=torch.nn.functional.normalize(keys, dim=1),
        extra_labels=torch.arange(5),
        across_ranks=True,
        tile=3,
        **options,
    )
    return loss.detach(), *torch.autograd.grad(loss, (weight, keys))


def primitives():
    """Results of the primitives, each rank with numbers of its own."""
    own = rank()
    x = torch.full((2, 2), 1.0 + own, requires_grad=True)
    total = all_reduce_sum(x)
    (total * (own + 1)).sum().backward()
    rows = torch.full((3 * own, 2), 1.0 + own, requires_grad=True)
    every = all_gather_rows(rows)
    (every * (own + 1)).sum().backward()
    counted, sent = torch.ones(2), torch.full((2,), float(own))
    reduce_sum_(counted)
    broadcast_(sent, source=1)
    sizes = row_counts(rows)
    return dict(
        total=total.detach(),
        total_grad=x.grad,
        every=every.detach(),
        rows_grad=rows.grad,
        counted=counted,
        sent=sent,
        sizes=sizes,
        remote=remote_rows(rows, sizes).detach(),
        world=world_size(),
    )


def run_rank(number, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=number, world_size=2
    )
    losses = []
    for options in CASES:
        result = contrast(ROWS[number], **options)
        for tensor in result:
            dist.all_reduce(tensor)
            tensor /= 2
        losses.append(result)
    torch.save((losses, primitives()), f'{folder}/rank{number}.pth')
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope='module')
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp('ranks')
    spawn(run_rank, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f'rank{number}.pth') for number in (0, 1)]


@pytest.mark.parametrize('case', range(len(CASES)))
def test_contrast_of_two_ranks_equals_one_process(case, ranks):
    expected = contrast(slice(None), **CASES[case])
    for losses, _ in ranks:
        for value, other in zip(expected, losses[case], strict=True):
            assert torch.allclose(value, other, rtol=1e-10, atol=1e-12)


def test_primitives_of_two_ranks(ranks):
    for number, (_, result) in enumerate(ranks):
        assert result['world'] == 2
        assert torch.equal(result['total'], torch.full((2, 2), 3.0))
        assert torch.equal(result['total_grad'], torch.full((2, 2), 3.0))
        assert result['sizes'] == [0, 3]
        assert torch.equal(result['every'], torch.full((3, 2), 2.0))
        expected = torch.full((3 * number, 2), 3.0)
        assert torch.equal(result['rows_grad'], expected)
        assert len(result['remote']) == 3 * (1 - number)
        assert torch.equal(result['counted'], torch.full((2,), 2.0))
        assert torch.equal(result['sent'], torch.ones(2))


def test_a_single_process_changes_nothing():
    x = torch.ones(2, 3)
    assert (rank(), world_size(), row_counts(x)) == (0, 1, [2])
    assert all_reduce_sum(x) is x
    assert all_gather_rows(x) is x
    assert remote_rows(x, [2]).shape == (0, 3)
    reduce_sum_(x)
    broadcast_(x)
    assert torch.equal(x, torch.ones(2, 3))
