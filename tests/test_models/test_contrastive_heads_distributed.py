# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Two ranks give loss, gradient and statistics of one process."""

import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.distribution import LabelDistribution
from mmgeom.models.heads import BCLHead, FeatReconHead, SupConHead

# Rank 1 has fewer samples; class 3 is on rank 1 only, class 2 on rank 0 only.
LABELS = torch.tensor([0, 0, 1, 2, 0, 1, 2, 0, 3, 1, 0])
PARTS = {0: slice(0, 7), 1: slice(7, 11)}
HEADS = [
    (SupConHead, {}),
    (BCLHead, {}),
    (FeatReconHead, {}),
    (FeatReconHead, dict(feature_store='stream')),
    (FeatReconHead, dict(syn_as_anchor=True, gen_mode='const')),
    (FeatReconHead, dict(stat_momentum=0.5, max_gen=7)),
]


def train(number, part):
    """Three epochs; losses of the last, its gradients, and all buffers."""
    cls, options = HEADS[number]
    torch.manual_seed(0)
    body = torch.nn.Linear(5, 8)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        head = cls(
            4,
            8,
            hidden_channels=10,
            out_channels=6,
            projector_norm=False,
            # Cross-entropy is a mean of each rank's own batch.
            lambda_x=0.0,
            **options,
        )
    for module in head.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(LabelDistribution([50, 9, 4, 2]))
    samples = [DataSample().set_gt_label(int(y)) for y in LABELS[part]]
    for epoch in range(3):
        if cls is FeatReconHead:
            head.before_epoch(epoch, 3)
        for _ in range(2):
            views = torch.randn(3, len(LABELS), 5)[:, part].flatten(0, 1)
            losses = head.loss((body(views),), samples)
        if cls is FeatReconHead:
            head.after_epoch(epoch)
    loss = losses['loss_contrast']
    loss.backward()
    parameters = [*body.parameters(), *head.projector.parameters()]
    if cls is BCLHead:
        parameters += head.prototype_projector.parameters()
    gradients = [parameter.grad for parameter in parameters]
    monitored = {n: v for n, v in losses.items() if 'loss' not in n}
    return loss.detach(), gradients, dict(head.named_buffers()), monitored


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    results = []
    for number in range(len(HEADS)):
        loss, gradients, state, monitored = train(number, PARTS[rank])
        for tensor in (loss, *gradients):
            dist.all_reduce(tensor)
            tensor /= 2
        results.append((loss, gradients, state, monitored))
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
    loss, gradients, state, monitored = train(number, slice(None))
    for result in ranks:
        other_loss, other_gradients, other_state, other = result[number]
        assert torch.allclose(loss, other_loss, rtol=1e-5)
        for a, b in zip(gradients, other_gradients, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)
        for name, value in state.items():
            assert torch.allclose(
                value, other_state[name], rtol=1e-4, atol=1e-5
            ), name
        assert monitored.keys() == other.keys()
        for name, value in monitored.items():
            assert torch.allclose(value, other[name], rtol=1e-4), name
    # And the ranks among themselves agree to the last bit.
    for name, value in ranks[0][number][2].items():
        assert torch.equal(value, ranks[1][number][2][name]), name
    if HEADS[number][0] is FeatReconHead:
        assert 'synthetic_few' in monitored
