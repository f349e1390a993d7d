# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A step of two ranks is the step of one process on the whole batch."""

import pytest
import torch
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample
from tabular_runs import StandInRows, tabular_config
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.engine.hooks.standardization_hook import column_statistics
from mmgeom.registry import MODELS


def step(part, wrap=lambda model: model):
    """Logs and state after a step on a part of a fixed batch."""
    dataset = StandInRows(12)
    cfg = tabular_config('')
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        torch.manual_seed(0)
        model = MODELS.build(
            dict(cfg.model, data_preprocessor=cfg.data_preprocessor)
        )
        model.init_weights()
    model.head.set_target_statistics(
        *column_statistics(dataset.values, 'target')
    )
    model.data_preprocessor.set_input_statistics(
        *column_statistics(dataset.table, 'input')
    )
    targets = torch.from_numpy(dataset.values).float()
    data = dict(
        inputs=torch.from_numpy(dataset.table)[part],
        data_samples=[DataSample().set_gt_score(y) for y in targets[part]],
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logs = wrap(model).train_step(data, OptimWrapper(optimizer))
    logs = {name: value.detach() for name, value in logs.items()}
    return logs, model.state_dict()


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    result = step(slice(rank, None, 2), MMDistributedDataParallel)
    torch.save(result, f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope='module')
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp('ranks')
    spawn(run_rank, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f'rank{rank}.pth') for rank in (0, 1)]


def test_two_ranks_equal_one_process(ranks):
    logs, state = step(slice(None))
    for name in ('loss', 'mae'):
        mean = (ranks[0][0][name] + ranks[1][0][name]) / 2
        torch.testing.assert_close(mean, logs[name])
        assert ranks[0][0][name] != ranks[1][0][name]
    for _, other in ranks:
        assert list(other) == list(state)
        for name, value in state.items():
            torch.testing.assert_close(other[name], value)
