# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Running statistics of batch normalisation that all ranks share."""

from mmengine.dist import all_reduce, get_world_size
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.nn.modules.batchnorm import _BatchNorm

from mmgeom.registry import HOOKS


@HOOKS.register_module()
class SyncRunningStatisticsHook(Hook):
    """Average the running statistics of batch norms over the ranks.

    Each rank updates them from its own batches and only those of rank 0 are
    saved, so that without this an evaluation of several ranks is not that of
    the checkpoint. Runs at the end of an epoch, before the checkpoint is
    written, and before a validation. Does nothing in a single process. Other
    buffers are left alone, unlike by mmengine's ``SyncBuffersHook``.
    """

    # Before EMAHook and CheckpointHook look at the model.
    priority = 'ABOVE_NORMAL'

    def after_train_epoch(self, runner: Runner) -> None:
        """Average before the checkpoint of the epoch.

        Args:
            runner (Runner): The runner.
        """
        self._average(runner)

    def before_val_epoch(self, runner: Runner) -> None:
        """Average before a validation inside an endless epoch.

        Args:
            runner (Runner): The runner.
        """
        self._average(runner)

    def _average(self, runner: Runner) -> None:
        if get_world_size() == 1:
            return
        for module in runner.model.modules():
            if isinstance(module, _BatchNorm) and module.track_running_stats:
                all_reduce(module.running_mean, 'mean')
                all_reduce(module.running_var, 'mean')
