# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Two ranks give the loss and the gradient of one process."""

import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.distribution import LabelDistribution
from mmgeom.models.heads import ETFHead, MultiCenterHead, RotatedETFHead

HEADS = [
    (MultiCenterHead, dict(f=3, frame='random')),
    (MultiCenterHead, dict(f=3, frame='axis', norm_reg_reduction='sum')),
    (MultiCenterHead, dict(f=3, frame='hadamard', loss='regression')),
    (ETFHead, {}),
    (RotatedETFHead, {}),
]


def step(number, part):
    """Loss and gradients of a part of a fixed batch."""
    cls, options = HEADS[number]
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        torch.manual_seed(0)
        wide = dict(feat_expand=16) if cls is MultiCenterHead else {}
        head = cls(4, 8, head_bn=False, **options, **wide)
    head.set_label_distribution(LabelDistribution([9, 5, 3, 1]))
    body = torch.nn.Linear(8, 8)
    x = torch.randn(12, 8)[part]
    labels = [DataSample().set_gt_label(i % 4) for i in range(12)][part]
    losses = head.loss((body(x),), labels)
    loss = sum(v for name, v in losses.items() if 'loss' in name)
    loss.backward()
    state = dict(head.named_buffers())
    parameters = [*body.parameters(), *head.parameters()]
    gradients = [p.grad for p in parameters if p.requires_grad]
    return loss.detach(), gradients, state


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    results = []
    for number in range(len(HEADS)):
        loss, gradients, state = step(number, slice(rank, None, 2))
        for tensor in (loss, *gradients):
            dist.all_reduce(tensor)
            tensor /= 2
        results.append((loss, gradients, state))
    torch.save(results, f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope='module')
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp('ranks')
    spawn(run_rank, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f'rank{rank}.pth') for rank in (0, 1)]


@pytest.mark.parametrize('number', range(len(HEADS)))
def test_two_ranks_equal_one_process(number, ranks):
    loss, gradients, state = step(number, slice(None))
    for result in ranks:
        other_loss, other_gradients, other_state = result[number]
        assert torch.allclose(loss, other_loss, rtol=1e-6)
        for a, b in zip(gradients, other_gradients, strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-7)
        for name, value in state.items():
            assert torch.equal(value, other_state[name]), name
