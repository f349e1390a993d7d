# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from types import SimpleNamespace

import torch
from torch import distributed as dist
from torch import nn
from torch.multiprocessing import spawn

from mmgeom.engine.hooks import SyncRunningStatisticsHook


def make_runner(shift):
    """A runner whose batch norm has seen data of its own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model.register_buffer('count', torch.tensor([shift]))
    model.train()(torch.randn(8, 2) * (1 + shift) + shift)
    return SimpleNamespace(model=model)


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    runner = make_runner(rank)
    SyncRunningStatisticsHook().after_train_epoch(runner)
    torch.save(runner.model.state_dict(), f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


def test_two_ranks_share_their_mean(tmp_path):
    spawn(run_rank, args=(str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f'rank{rank}.pth') for rank in (0, 1)]
    own = [make_runner(rank).model.state_dict() for rank in (0, 1)]
    for name in ('1.running_mean', '1.running_var'):
        assert not torch.equal(own[0][name], own[1][name])
        expected = (own[0][name] + own[1][name]) / 2
        for state in ranks:
            assert torch.allclose(state[name], expected)
    assert [state['count'].item() for state in ranks] == [0, 1]


def test_one_process_is_left_alone():
    runner = make_runner(0)
    before = {k: v.clone() for k, v in runner.model.state_dict().items()}
    SyncRunningStatisticsHook().before_val_epoch(runner)
    for name, value in runner.model.state_dict().items():
        assert torch.equal(value, before[name])
