# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Tell modules when an epoch starts and ends."""

import math
from typing import Any

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import nn

from mmgeom.registry import HOOKS

from .checkpoint_check_hook import goes_on, unwrap


@HOOKS.register_module()
class EpochHook(Hook):
    """Call the epoch work of every module of the model that has some.

    That work is the renewal of class centres and surrogates, temperature
    schedules, warm-up: a module offers any of

    * ``before_epoch(epoch, max_epochs)``, called when an epoch starts, and
      when a resumed run goes on inside one; epochs count from 0;
    * ``forget_epoch()``, called before it when the epoch starts with its first
      sample, to forget what was collected of an epoch that was cut short: an
      epoch-based run that is resumed inside an epoch sees all of it again;
    * ``after_epoch(epoch)``, called when it ends, before the checkpoint of
      that epoch is written;
    * ``reset_epochs()``, called once before training unless a run is
      resumed: training that starts from the weights of a checkpoint starts
      its schedules and statistics anew.

    In iteration-based loops an epoch is as many iterations as it takes to
    see as many samples as the training set has. This hook has no state.
    """

    priority = 'NORMAL'

    def before_train(self, runner: Runner) -> None:
        """Start anew unless a run is resumed.

        Args:
            runner (Runner): The runner, weights loaded.
        """
        if not goes_on(runner):
            self._call(runner, 'reset_epochs')

    def before_train_epoch(self, runner: Runner) -> None:
        """Start an epoch.

        The host calls an iteration-based loop one long epoch, which starts
        here too, wherever a resumed run left it.

        Args:
            runner (Runner): The runner.
        """
        if _counts_epochs(runner):
            self._call(runner, 'forget_epoch')
            self._call(runner, 'before_epoch', runner.epoch, runner.max_epochs)
        else:
            self._start_epoch_of_iterations(runner)

    def after_train_epoch(self, runner: Runner) -> None:
        """End an epoch of an epoch-based loop.

        Args:
            runner (Runner): The runner.
        """
        if _counts_epochs(runner):
            self._call(runner, 'after_epoch', runner.epoch)

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None
    ) -> None:
        """Start an epoch of an iteration-based loop.

        Args:
            runner (Runner): The runner.
            batch_idx (int): Index of the iteration.
            data_batch (Any): Not used. Defaults to None.
        """
        if _counts_epochs(runner) or runner.iter == 0:
            return
        if runner.iter % epoch_length(runner) == 0:
            self._start_epoch_of_iterations(runner)

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Any = None,
        outputs: dict | None = None,
    ) -> None:
        """End an epoch of an iteration-based loop.

        Args:
            runner (Runner): The runner.
            batch_idx (int): Index of the iteration.
            data_batch (Any): Not used. Defaults to None.
            outputs (dict, optional): Not used. Defaults to None.
        """
        if _counts_epochs(runner):
            return
        length = epoch_length(runner)
        if (runner.iter + 1) % length == 0:
            self._call(runner, 'after_epoch', runner.iter // length)

    def _start_epoch_of_iterations(self, runner: Runner) -> None:
        length = epoch_length(runner)
        if runner.iter % length == 0:
            self._call(runner, 'forget_epoch')
        epochs = math.ceil(runner.max_iters / length)
        self._call(runner, 'before_epoch', runner.iter // length, epochs)

    def _call(self, runner: Runner, name: str, *args: int) -> None:
        for module in modules_with(unwrap(runner.model), name):
            getattr(module, name)(*args)


def modules_with(model: nn.Module, method: str) -> list[nn.Module]:
    """Modules that offer a method.

    Args:
        model (nn.Module): The model, unwrapped.
        method (str): Name of the method.

    Returns:
        list[nn.Module]: In the order of ``model.modules()``.
    """
    return [
        module
        for module in model.modules()
        if callable(getattr(module, method, None))
    ]


def epoch_length(runner: Runner) -> int:
    """Iterations in which an iteration-based loop sees the training set once.

    Args:
        runner (Runner): The runner, its training loop built.

    Returns:
        int: At least 1.
    """
    loader = runner.train_dataloader
    size = loader.batch_size
    if size is None:  # A batch sampler was given.
        size = getattr(loader.batch_sampler, 'batch_size', 1)
    return max(1, math.ceil(len(loader.dataset) / (size * get_world_size())))


def _counts_epochs(runner: Runner) -> bool:
    return isinstance(runner.train_loop, EpochBasedTrainLoop)
