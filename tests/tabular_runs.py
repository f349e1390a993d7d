# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A small tabular dataset and the config of a run of it."""

import copy
import itertools
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmpretrain.datasets import BaseDataset

import mmgeom.engine.hooks.standardization_hook
import mmgeom.models.backbones.mlp
import mmgeom.models.data_preprocessors.tabular_data_preprocessor
import mmgeom.models.heads.regressor_head
import mmgeom.models.losses.error_loss
import mmgeom.models.regressors  # noqa: F401
from mmgeom.registry import DATASETS

_NAMES = itertools.count()

CONFIG = dict(
    default_scope='mmpretrain',
    model=dict(
        type='mmgeom.ImageRegressor',
        backbone=dict(type='mmgeom.MLP', in_channels=3, hidden_channels=(8,)),
        head=dict(type='mmgeom.RegressorHead', in_channels=8),
    ),
    data_preprocessor=dict(
        type='mmgeom.TabularDataPreprocessor', in_channels=3
    ),
    train_dataloader=dict(
        dataset=dict(type='mmgeom.StandInRows'),
        sampler=dict(type='DefaultSampler', shuffle=True),
        batch_size=8,
        num_workers=0,
        collate_fn=dict(type='default_collate'),
    ),
    train_cfg=dict(by_epoch=True, max_epochs=2),
    optim_wrapper=dict(optimizer=dict(type='Adam', lr=0.01)),
    default_hooks=dict(
        checkpoint=dict(type='CheckpointHook', interval=1),
        logger=dict(type='LoggerHook', interval=1),
        check=dict(type='mmgeom.CheckpointCheckHook'),
    ),
    custom_hooks=[dict(type='mmgeom.StandardizationHook')],
    randomness=dict(seed=0),
)


@DATASETS.register_module(force=True)
class StandInRows(BaseDataset):
    """Rows of three numbers; the targets are functions of them.

    The last column is constant.

    Args:
        num_samples (int): Defaults to 30.
        num_targets (int): D. Defaults to 1.
        unit (float): Factor of the targets. Defaults to 1.0.
        bad_target (int, optional): Sample whose target is NaN.
        bad_input (int, optional): Sample whose second input is infinite.
    """

    def __init__(
        self,
        num_samples: int = 30,
        num_targets: int = 1,
        unit: float = 1.0,
        bad_target: int | None = None,
        bad_input: int | None = None,
        **kwargs,
    ) -> None:
        generator = np.random.default_rng(0)
        table = generator.normal([2.0, -50.0, 0.0], [1.0, 9.0, 0.0], (1000, 3))
        table[:, 2] = 0.1
        self.table = table[:num_samples]
        first = 40 + 5 * self.table[:, :1] - 0.2 * self.table[:, 1:2]
        targets = [first, -first / 1000, first**2]
        self.values = unit * np.concatenate(targets[:num_targets], axis=1)
        if bad_target is not None:
            self.values[bad_target] = np.nan
        if bad_input is not None:
            self.table[bad_input, 1] = np.inf
        super().__init__(
            ann_file='', pipeline=[dict(type='PackInputs')], **kwargs
        )

    def load_data_list(self) -> list[dict]:
        return [
            dict(
                img=torch.tensor(row, dtype=torch.float32),
                gt_score=target.astype(np.float32),
            )
            for row, target in zip(self.table, self.values)
        ]

    def get_gt_values(self) -> np.ndarray:
        return self.values[:, 0] if self.values.shape[1] == 1 else self.values

    def get_inputs(self) -> np.ndarray:
        return self.table


def tabular_config(work_dir: Path, options: dict | None = None) -> Config:
    """Config of a tiny tabular run.

    Args:
        work_dir (Path): Its work directory.
        options (dict, optional): Dotted settings. Defaults to None.

    Returns:
        Config: To be given to ``Runner.from_cfg``.
    """
    cfg = Config(copy.deepcopy(CONFIG))
    cfg.merge_from_dict(copy.deepcopy(options or {}))
    cfg.work_dir = str(work_dir)
    cfg.experiment_name = f'rows_{next(_NAMES)}'
    return cfg
