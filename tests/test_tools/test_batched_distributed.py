# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Two processes on batches equal one on samples."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='compares processes on the CPU'
)
SCRIPT = Path(__file__).resolve().parents[2] / 'tools' / 'dist_train.sh'

# 13 batches of 32 samples, or of 16 in each of two processes; without batch
# norm, which sees the batch of a process.
CHANGES = """
model = dict(backbone=dict(norm_cfg=dict(type='GN', num_groups=2)))
optim_wrapper = dict(optimizer=dict(lr=0.01))
train_dataloader = dict(
    batch_size=32,
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        dataset=dict(
            imbalance_factor=None,
            counts=[100, 80, 64, 50, 40, 30, 22, 14, 10, 6],
        ),
    ),
)
data_preprocessor = dict(augmentations=[])
"""


def test_two_processes(tmp_path, write_config, command, free_port, load):
    path = write_config(tmp_path, CHANGES)
    words = ['bash', SCRIPT, path, 2, '--work-dir', tmp_path / 'ranks']
    words += ['--cfg-options', 'train_dataloader.batch_size=16']
    command(*words, cwd=tmp_path, PORT=free_port)

    cfg = Config.fromfile(path)
    loader = cfg.train_dataloader
    assert loader.dataset.type == 'mmgeom.BatchedDataset'
    loader.dataset = loader.dataset.dataset
    cfg.work_dir = str(tmp_path / 'single')
    runner = Runner.from_cfg(cfg)
    initial = runner.model.backbone.conv1.weight.detach().clone()
    runner.train()
    found = load(tmp_path / 'ranks' / 'epoch_2.pth')['state_dict']
    assert found.pop('data_preprocessor.steps.step') == 0  # nothing random
    expected = runner.model.state_dict()
    assert expected.pop('data_preprocessor.steps.step') == 0
    assert list(found) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-3, atol=1e-5, msg=name
        )
    assert not torch.allclose(found['backbone.conv1.weight'], initial)
