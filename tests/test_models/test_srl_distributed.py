# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""SRL on two ranks gives what one process gives."""

from functools import partial

import pytest
import torch
from mmpretrain.structures import DataSample
from torch import distributed as dist
from torch import nn
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.models.heads.srl_head import SRLHead
from mmgeom.models.losses.error_loss import ErrorLoss

# Rank 0 has labels that rank 1 lacks, and both share some.
TARGET = torch.tensor([0.0, 0, 1, 2, 2, 4, 2, 4, 5, 5, 5, 6])
OPTIONS = [
    dict(),
    dict(resample='iter', projector_hidden=7, homo_normalize=True),
    dict(points='span', resample='epoch', proj_dim=9),
    dict(preset='agedb_code', proj_dim=0),
]
TERMS = ('loss_enveloping', 'loss_homogeneity', 'loss_contrast')
HALVES = (slice(0, 6), slice(6, 12))
UNEVEN = (slice(0, 4), slice(4, 12))


class Model(nn.Module):
    """A body and a head, as much of a model as these tests need."""

    def __init__(self, options):
        super().__init__()
        torch.manual_seed(0)
        arguments = dict(proj_dim=5, loss=ErrorLoss('l1'), num_points=40)
        self.head = SRLHead(8, 7, **{**arguments, **options})
        self.body = nn.Linear(8, 8)
        bins = LabelBins.from_spec(TARGET, width=1.0)
        distribution = LabelDistribution.from_values(TARGET, bins)
        self.head.set_label_distribution(distribution)

    def forward(self, x, target):
        samples = [DataSample().set_gt_score(t[None]) for t in target]
        return self.head.loss((self.body(x),), samples)


def gradients(model):
    # The projector has none for the regression loss, nor the linear layer
    # for the others.
    return [
        torch.zeros_like(p) if p.grad is None else p.grad
        for p in model.parameters()
    ]


def train(options, part, wrap=lambda model: model):
    """Two epochs of two steps on a part of each batch."""
    model = Model(options)
    wrapped = wrap(model)
    results = []
    for epoch in range(2):
        model.head.before_epoch(epoch, 2)
        for step in range(2):
            generator = torch.Generator().manual_seed(10 * epoch + step)
            x = torch.randn(12, 8, generator=generator)
            model.zero_grad()
            losses = wrapped(x[part], TARGET[part])
            sum(v for k, v in losses.items() if 'loss' in k).backward()
            values = {key: value.detach() for key, value in losses.items()}
            results.append((values, [g.clone() for g in gradients(model)]))
        model.head.after_epoch(epoch)
    return results, dict(model.named_buffers())


def trace_terms(part):
    """Loss terms without the regression, in the second epoch."""
    model = Model({})
    for epoch in range(2):
        model.zero_grad()
        model.head.before_epoch(epoch, 2)
        generator = torch.Generator().manual_seed(epoch)
        x = torch.randn(12, 8, generator=generator)
        losses = model(x[part], TARGET[part])
        model.head.after_epoch(epoch)
    total = sum(losses[name] for name in TERMS)
    total.backward()
    values = [losses[name].detach() for name in TERMS]
    return [*values, *gradients(model)], dict(model.named_buffers())


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    runs = []
    for number, options in enumerate(OPTIONS):
        # mmengine does not broadcast buffers by default, torch does.
        wrap = partial(
            DistributedDataParallel, broadcast_buffers=number % 2 == 1
        )
        runs.append(train(options, HALVES[rank], wrap))
    for results, _ in runs:
        for losses, _ in results:  # gradients are averaged already
            for value in losses.values():
                dist.all_reduce(value)
                value /= 2
    tensors, buffers = trace_terms(UNEVEN[rank])
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= 2
    torch.save((runs, tensors, buffers), f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope='module')
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp('ranks')
    spawn(run_rank, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f'rank{rank}.pth') for rank in (0, 1)]


def assert_close(first, second, name):
    assert torch.allclose(first, second, rtol=1e-4, atol=1e-6), (
        f'{name}: {(first - second).abs().max()}'
    )


@pytest.mark.parametrize('number', range(len(OPTIONS)))
def test_two_ranks_equal_one_process(number, ranks):
    expected, state = train(OPTIONS[number], slice(None))
    assert set(TERMS) <= set(expected[-1][0])
    for runs, _, _ in ranks:
        results, buffers = runs[number]
        for (losses, grads), (other, more) in zip(
            expected, results, strict=True
        ):
            assert list(losses) == list(other)
            for name, value in losses.items():
                assert_close(value, other[name], name)
            for one, two in zip(grads, more, strict=True):
                assert_close(one, two, 'gradient')
        for name, value in state.items():
            assert_close(value.float(), buffers[name].float(), name)


def test_batches_of_different_sizes(ranks):
    """Each sample counts alike in the terms of the trace."""
    expected, state = trace_terms(slice(None))
    for _, tensors, buffers in ranks:
        for one, two in zip(expected, tensors, strict=True):
            assert_close(one, two, 'loss or gradient')
        for name, value in state.items():
            assert_close(value.float(), buffers[name].float(), name)


def test_ranks_have_the_same_surrogate(ranks):
    (first, _, _), (second, _, _) = ranks
    for (_, one), (_, two) in zip(first, second, strict=True):
        for name, value in one.items():
            assert torch.equal(value, two[name]), name
