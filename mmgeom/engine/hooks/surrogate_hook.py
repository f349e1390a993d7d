# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""One more pass over the training data for the surrogate of SRL."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import nn

from mmgeom.geometry.step_generator import StepGenerator
from mmgeom.registry import HOOKS

from .checkpoint_check_hook import unwrap


@HOOKS.register_module()
class SurrogateHook(Hook):
    """Take the surrogate from a pass over the training data of its own.

    Without this hook :class:`mmgeom.models.SRLHead` renews its surrogate from
    the features that the training steps of the epoch had, with the weights of
    each step. With it, the training data go through the model once more at
    the end of the epoch, without gradient and with the weights at its end, as
    in the released code. Each epoch costs one more forward pass of the data.

    As in that code the model stays in training mode: data augmentation and
    dropout take part, and the running statistics of batch norms, which are
    saved and evaluated with, move on by another epoch of batches. The pass
    leaves the random generators of this process and those of the model
    (:class:`~mmgeom.geometry.StepGenerator`) as they were, and sees the
    samples in the order of the epoch, so that training goes on as without it.

    The head must offer ``forget_sums()`` and
    ``accumulate(feats, data_samples)``. A model without any head is left
    alone.

    Source: the code of SRL (CVPR 2025), where FDS takes this pass.

    Args:
        interval (int): Take the pass at the end of each such number of
            epochs; others keep the features of the training steps. Defaults
            to 1.

    Raises:
        ValueError: When the interval is not positive.
    """

    # Before running statistics are synchronised and the surrogate renewed.
    priority = 'HIGH'

    def __init__(self, interval: int = 1) -> None:
        if interval < 1:
            raise ValueError(f'interval must be positive, got {interval}.')
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Check that the pass is possible.

        Args:
            runner (Runner): The runner.

        Raises:
            ValueError: When the head takes no features, or the loop does not
                count epochs.
        """
        head = _head(runner)
        if head is None:
            return
        for name in ('accumulate', 'forget_sums'):
            if not callable(getattr(head, name, None)):
                raise ValueError(
                    f'SurrogateHook needs a head with {name}(), such as '
                    f'mmgeom.SRLHead, got {type(head).__name__}: remove the '
                    'hook or change the head.'
                )
        if not isinstance(runner.train_loop, EpochBasedTrainLoop):
            raise ValueError(
                'SurrogateHook passes over the training data after each '
                'epoch, which needs by_epoch=True in train_cfg, got '
                f'{type(runner.train_loop).__name__}: change the loop or '
                'remove the hook.'
            )

    def after_train_epoch(self, runner: Runner) -> None:
        """Take the pass.

        Args:
            runner (Runner): The runner.
        """
        head = _head(runner)
        if head is None or not self.every_n_epochs(runner, self.interval):
            return
        head.forget_sums()
        model = unwrap(runner.model)
        runner.model.train()
        with (
            _same_random_state(model),
            torch.no_grad(),
            runner.optim_wrapper.optim_context(runner.model),
        ):
            for batch in runner.train_dataloader:
                data = model.data_preprocessor(batch, True)
                feats = model.extract_feat(data['inputs'])
                head.accumulate(feats, data['data_samples'])


def _head(runner: Runner) -> nn.Module | None:
    return getattr(unwrap(runner.model), 'head', None)


@contextmanager
def _same_random_state(model: nn.Module) -> Iterator[None]:
    """Leave the generators of this process and the model as they are."""
    devices = []
    if torch.cuda.is_available():
        devices.append(torch.cuda.current_device())
    python, numpy = random.getstate(), np.random.get_state()
    steps = {
        module: module.steps_taken
        for module in model.modules()
        if isinstance(module, StepGenerator)
    }
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for module, step in steps.items():
            module.go_to(step)
