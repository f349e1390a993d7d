# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hand the statistics of the training data to whoever standardises."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, Runner
from torch import Tensor

from mmgeom.labels import dataset_inputs, dataset_values
from mmgeom.registry import HOOKS

from .checkpoint_check_hook import evaluated_models, goes_on
from .epoch_hook import modules_with
from .input_columns import InputColumns, check_columns, dataset_columns

#: More columns than this are only counted in the message.
_SHOWN_COLUMNS = 4


@HOOKS.register_module()
class StandardizationHook(Hook):
    """Compute mean and standard deviation of targets and inputs once.

    Before training, and not when a run is resumed, it reads the training
    dataset and calls ``set_target_statistics(mean, std)`` of every module of
    the model that has it, and ``set_input_statistics(mean, std)`` of every
    module that has that. The modules keep them in buffers, so that a
    checkpoint alone is enough for evaluation. A module whose attribute
    ``uses_target_statistics`` or ``uses_input_statistics`` is False is left
    out, and without any such module nothing is read, so that a model of
    classes may keep this hook.

    Targets are read by :func:`mmgeom.labels.dataset_values`, input rows by
    :func:`mmgeom.labels.dataset_inputs`. Each sample of the dataset counts
    once, whatever the sampler does. The standard deviation is that of the
    population (divisor N); of a constant column it is 1, and where that is
    a target, a warning says so.

    Where datasets name their input columns, as ``TabularDataset`` does, those
    of validation and test data must be those of the training data, with the
    same categories in the same order. Without training they are compared with
    the meta information in the checkpoint.
    """

    # After EMAHook, which may overwrite the model's buffers before training.
    priority = 'BELOW_NORMAL'

    def __init__(self) -> None:
        self._columns: InputColumns | None = None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare columns with those that the model was trained with.

        Training from the weights of a checkpoint may use other columns.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): As loaded.

        Raises:
            ValueError: When evaluated data, or the training data of a
                resumed run, have other input columns.
        """
        meta = (checkpoint.get('meta') or {}).get('dataset_meta')
        columns = InputColumns.from_metainfo(meta)
        if not isinstance(runner._train_loop, BaseLoop):
            self._columns = columns
            self._check_columns(runner, 'val', 'test')
        elif runner._resume:
            self._columns = columns
            self._check_columns(runner, 'train')

    def before_train(self, runner: Runner) -> None:
        """Read the training data and hand out their statistics.

        Args:
            runner (Runner): The runner, weights loaded.

        Raises:
            TypeError: When the dataset offers no targets or no input rows.
            ValueError: When a number is not finite, a module expects
                another number of columns, or the validation data have other
                input columns.
        """
        found = dataset_columns(runner.train_loop.dataloader.dataset)
        self._columns = found[0] if found else None
        self._check_columns(runner, 'train', 'val')
        if goes_on(runner):
            return
        parts = [
            _hand_out(runner, kind, read)
            for kind, read in (
                ('target', dataset_values),
                ('input', dataset_inputs),
            )
        ]
        parts = [part for part in parts if part]
        if parts:
            print_log(f'Standardization: {"; ".join(parts)}', logger='current')

    def before_test(self, runner: Runner) -> None:
        """Compare columns, where a test follows the training.

        Args:
            runner (Runner): The runner.

        Raises:
            ValueError: When the test data have other input columns than the
                training data.
        """
        self._check_columns(runner, 'test')

    def _check_columns(self, runner: Runner, *modes: str) -> None:
        for mode in modes:
            loop = getattr(runner, f'_{mode}_loop', None)
            if self._columns is not None and isinstance(loop, BaseLoop):
                check_columns(loop.dataloader.dataset, mode, self._columns)


def column_statistics(table: np.ndarray, kind: str) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of columns.

    .. math::
        \mu_j = \frac1N \sum_i x_{ij}, \quad
        \sigma_j^2 = \frac1N \sum_i (x_{ij} - \mu_j)^2

    Args:
        table (np.ndarray): Shape ``(N, D)``, or ``(N,)`` for one column,
            N at least 1.
        kind (str): What a row is, for the message.

    Returns:
        tuple[Tensor, Tensor]: Mean and standard deviation, shape ``(D,)``,
        float64; the latter is 1 for a constant column.

    Raises:
        ValueError: When the table is empty or a number is not finite.
    """
    table = np.asarray(table, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if len(table) == 0:
        raise ValueError(
            f'the training data holds no {kind} to standardise with: give a '
            'dataset with at least one sample.'
        )
    finite = np.isfinite(table)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise ValueError(
            f'the {kind} of training sample {row} is {table[row, column]} in '
            f'column {column}: remove the sample or give it a finite number.'
        )
    std = table.std(axis=0)
    # Rounding of the mean leaves a constant column a tiny spread.
    std[np.ptp(table, axis=0) == 0] = 1.0
    return torch.from_numpy(table.mean(axis=0)), torch.from_numpy(std)


def _hand_out(
    runner: Runner, kind: str, read: Callable[[Any], np.ndarray]
) -> str:
    """Statistics of one kind; returns the part of the message."""
    takers = [
        module
        for model in evaluated_models(runner)
        for module in modules_with(model, f'set_{kind}_statistics')
        if getattr(module, f'uses_{kind}_statistics', True)
    ]
    if not takers:
        return ''
    table = read(runner.train_loop.dataloader.dataset)
    mean, std = column_statistics(table, kind)
    if kind == 'target':
        _warn_of_constant(table)
    for module in takers:
        getattr(module, f'set_{kind}_statistics')(mean, std)
    return f'{kind}s with {_described(mean, std)}'


def _warn_of_constant(targets: np.ndarray) -> None:
    targets = targets.reshape(len(targets), -1)
    constant = np.flatnonzero(np.ptp(targets, axis=0) == 0).tolist()
    if constant:
        print_log(
            f'All {len(targets)} training samples have the same target, '
            f'{targets[0, constant].tolist()} in column {constant}, from '
            'which nothing can be learnt: check the target of the data.',
            logger='current',
            level=logging.WARNING,
        )


def _described(mean: Tensor, std: Tensor) -> str:
    if len(mean) > _SHOWN_COLUMNS:
        return f'{len(mean)} columns'
    values = [
        ', '.join(f'{value:.4g}' for value in column.tolist())
        for column in (mean, std)
    ]
    return f'mean {values[0]} and standard deviation {values[1]}'
