# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Curves of neural collapse while training."""

import logging
from typing import Any

import torch
from mmengine.dist import all_reduce
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, IterBasedTrainLoop, Runner
from torch import nn

from mmgeom.geometry.class_means import TARGETS
from mmgeom.geometry.collapse_statistics import CollapseStatistics
from mmgeom.registry import HOOKS

from .checkpoint_check_hook import unwrap


@HOOKS.register_module()
class CollapseMonitorHook(Hook):
    r"""Log the metrics of neural collapse of the training features.

    Nothing runs twice: the head keeps the features it has anyway, and the
    hook adds them to sums, which are reduced over the ranks when the window
    ends. A resumed run starts a new window. The features come from a network
    that is learning, so that curves differ from a pass over the data with
    the final weights, as by :class:`mmgeom.evaluation.NeuralCollapse`.

    A head takes part when it has

    - ``num_classes``;
    - ``keep_features``, a bool. While it is true, each training step leaves
      ``kept_feature``, detached, of shape ``(B, d)``, and ``kept_label`` of
      shape ``(B,)``, or None for mixed labels, which are skipped;
    - optionally ``collapse_targets()``, which returns a dict of
      ``directions``, the class vectors, and ``mean_centers``, the points
      that normalised features should reach, both of shape ``(K, d)`` or
      None; and optionally ``target``, the geometry of the class means.

    Values are written as ``train_collapse/nc1`` and so on, to the message
    hub and to the visualizer: ``nc1`` (up to the width
    ``max_scatter_dim``), ``nc2``; with directions ``nc3`` and
    ``variability``; with mean centres ``center_distance_mean``,
    ``center_distance_std``, ``center_element_mean`` and
    ``center_element_std``.

    Before validation and testing the hook hands ``collapse_targets`` to the
    metrics that have ``set_collapse_targets``.

    Args:
        interval (int): A window is every ``interval``-th epoch, and the last
            one; or, with ``by_epoch=False``, each ``interval`` iterations.
            Defaults to 1.
        by_epoch (bool): Whether ``interval`` counts epochs. Must be False
            in iteration-based training. Defaults to True.
        every_n_iters (int): Look at each n-th iteration of a window only,
            which makes second moments of wide features cheaper. Defaults to
            1.
        target (str, optional): Geometry of the class means, ``'simplex'`` or
            ``'orthogonal'``. Defaults to None: what the head says, else
            orthogonal when it has mean centres, else a simplex.
        cosines (bool): Log mean and standard deviation of the cosines of
            class means and class vectors too. Defaults to False.
        max_scatter_dim (int): Largest width of the features for which
            ``nc1`` is logged; it takes ``(d, d)`` memory in float64.
            Defaults to 4096.
        prefix (str): Put before the names. Defaults to
            ``'train_collapse'``, which differs from the prefix of the
            metric, since logs of training and validation share their names.

    Raises:
        ValueError: When an argument is out of its range.
    """

    # Before LoggerHook, so that it logs what a window's last iteration gave.
    priority = 'NORMAL'

    def __init__(
        self,
        interval: int = 1,
        by_epoch: bool = True,
        every_n_iters: int = 1,
        target: str | None = None,
        cosines: bool = False,
        max_scatter_dim: int = 4096,
        prefix: str = 'train_collapse',
    ) -> None:
        for name, value in (
            ('interval', interval),
            ('every_n_iters', every_n_iters),
        ):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f'{name} must be a positive whole number, got {value}.'
                )
        if target not in (None, *TARGETS):
            raise ValueError(
                f'target must be one of {list(TARGETS)} or None, got '
                f'{target!r}.'
            )
        if 'loss' in prefix:
            raise ValueError(
                f"prefix must not contain 'loss', got {prefix!r}: such names "
                'are taken for objectives.'
            )
        self.interval = interval
        self.by_epoch = by_epoch
        self.every_n_iters = every_n_iters
        self.target = target
        self.cosines = cosines
        self.max_scatter_dim = max_scatter_dim
        self.prefix = prefix
        self._head: nn.Module | None = None
        self._statistics: CollapseStatistics | None = None
        self._is_open = False
        self._warned: set[str] = set()

    def before_train(self, runner: Runner) -> None:
        """Find the head.

        Args:
            runner (Runner): The runner.

        Raises:
            ValueError: When the loop has no epochs to count.
        """
        head = head_of(runner)
        self._head = head if hasattr(head, 'keep_features') else None
        self._close()
        if self._head is None:
            self._warn(
                'CollapseMonitorHook does nothing, since the model has no '
                "head with the attribute 'keep_features'."
            )
        elif self.by_epoch and isinstance(
            runner.train_loop, IterBasedTrainLoop
        ):
            raise ValueError(
                f'CollapseMonitorHook counts its interval={self.interval} in '
                'epochs, but the training is iteration-based: set '
                'by_epoch=False and interval to a number of iterations.'
            )

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None
    ) -> None:
        """Let the head keep the features of an iteration to look at."""
        if self._head is None:
            return
        looks = batch_idx % self.every_n_iters == 0
        if self.by_epoch and looks:
            looks = self.every_n_epochs(
                runner, self.interval
            ) or self.is_last_train_epoch(runner)
        self._head.keep_features = looks
        # Not whether features came: ranks must agree on when to reduce.
        self._is_open |= looks

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Any = None,
        outputs: Any = None,
    ) -> None:
        """Add the features; at the end of a window, log."""
        if self._head is None:
            return
        if self._head.keep_features:
            self._take()
        if self.by_epoch:
            ends = self.end_of_epoch(runner.train_dataloader, batch_idx)
        else:
            ends = self.every_n_train_iters(runner, self.interval)
        if ends:
            self._log(runner, runner.iter + 1)

    def after_train_epoch(self, runner: Runner) -> None:
        """Log an epoch that ended before its last batch."""
        if self.by_epoch:
            self._log(runner, runner.iter)

    def after_train(self, runner: Runner) -> None:
        """Log the iterations that are left."""
        self._log(runner, runner.iter)
        self._head = None

    def before_val(self, runner: Runner) -> None:
        """Tell the metrics what the head aims at."""
        _hand_out(runner, runner.val_loop)

    def before_test(self, runner: Runner) -> None:
        """Tell the metrics what the head aims at."""
        _hand_out(runner, runner.test_loop)

    def _take(self) -> None:
        """Move what the head kept into the sums."""
        head = self._head
        feature, label = head.kept_feature, head.kept_label
        head.keep_features = False
        head.kept_feature = head.kept_label = None
        if feature is None or label is None:
            return
        if self._statistics is None:
            self._statistics = self._start(feature.shape[1], feature.device)
        self._statistics.update(feature, label)

    def _start(
        self, width: int, device: torch.device | str = 'cpu'
    ) -> CollapseStatistics:
        """Empty sums; centres are fixed, so any time is right to ask."""
        return CollapseStatistics(
            self._head.num_classes,
            width,
            collapse_targets(self._head).get('mean_centers'),
            self.max_scatter_dim,
            device,
        )

    def _close(self) -> None:
        self._statistics = None
        self._is_open = False

    def _log(self, runner: Runner, step: int) -> None:
        """Reduce, compute and write the window that is open, if any."""
        if self._head is None or not self._is_open:
            return
        statistics = self._reduced()
        self._close()
        if statistics is None:
            self._warn(
                'CollapseMonitorHook saw no feature with a single label: '
                'mixed labels (batch augments) are skipped.'
            )
        elif not statistics.is_finite:
            self._warn(
                'CollapseMonitorHook leaves out windows with NaN or infinite '
                'features: the training has diverged.'
            )
        else:
            _write(runner, self._metrics(statistics), self.prefix, step)

    def _reduced(self) -> CollapseStatistics | None:
        """Sums over all ranks; None when no rank has any."""
        statistics = self._statistics
        width = torch.tensor(statistics.dim if statistics else 0)
        # A rank whose labels were all mixed takes part with zeros.
        all_reduce(width, 'max')
        if width == 0:
            return None
        statistics = statistics or self._start(int(width))
        for value in statistics.state().values():
            all_reduce(value)
        return statistics

    def _metrics(self, statistics: CollapseStatistics) -> dict[str, float]:
        targets = collapse_targets(self._head)
        return statistics.metrics(
            targets.get('directions'),
            self.target or targets.get('target'),
            self.cosines,
        )

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            print_log(message, logger='current', level=logging.WARNING)


def head_of(runner: Runner) -> nn.Module | None:
    """The head of the model.

    Args:
        runner (Runner): The runner; its model may be wrapped.

    Returns:
        nn.Module | None: None when the model has no head.
    """
    return getattr(unwrap(runner.model), 'head', None)


def collapse_targets(head: nn.Module) -> dict:
    """What the features of a head aim at.

    Args:
        head (nn.Module): The head.

    Returns:
        dict: Empty when the head does not say.
    """
    return getattr(head, 'collapse_targets', dict)() or {}


def _hand_out(runner: Runner, loop: BaseLoop) -> None:
    """Give metrics the head's method; averages of weights come later."""
    method = getattr(head_of(runner), 'collapse_targets', None)
    if method is None:
        return
    for metric in getattr(loop.evaluator, 'metrics', []):
        if hasattr(metric, 'set_collapse_targets'):
            metric.set_collapse_targets(method)


def _write(
    runner: Runner, metrics: dict[str, float], prefix: str, step: int
) -> None:
    """Write to the message hub and to the visualizer, under one name."""
    named = {f'train/{prefix}/{key}': v for key, v in metrics.items()}
    for name, value in named.items():
        runner.message_hub.update_scalar(name, value)
    if not getattr(runner.log_processor, 'log_with_hierarchy', False):
        named = {k.removeprefix('train/'): v for k, v in named.items()}
    if named:
        runner.visualizer.add_scalars(named, step=step)
