# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Refuse checkpoints that do not belong to the model."""

from collections.abc import Mapping
from typing import Any

from mmengine.hooks import EMAHook, Hook
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.runner import BaseLoop, Runner
from torch import nn

from mmgeom.registry import HOOKS


@HOOKS.register_module()
class CheckpointCheckHook(Hook):
    """Compare a checkpoint with the model before its weights are loaded.

    The host only warns of missing weights and goes on with random ones. When
    a run is resumed or tested, every parameter and buffer must be there in
    the right shape; when training starts from a checkpoint (``load_from``),
    at least one must fit, so that heads may be exchanged. Buffers that a
    module lists in ``distribution_buffers``, because the label distribution
    fills them, may be missing.
    """

    # Before hooks that read the checkpoint, such as EMAHook.
    priority = 'VERY_HIGH'

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): As loaded from the file.

        Raises:
            ValueError: When the checkpoint does not fit the model.
        """
        state = checkpoint.get('state_dict', checkpoint)
        model = unwrap(runner.model)
        missing, reshaped, fitting = compare_state(model, state)
        trains = isinstance(runner._train_loop, BaseLoop)
        strict = runner._resume or not trains
        if strict and (missing or reshaped):
            problem = reshaped or [f'{name} is missing' for name in missing]
            raise ValueError(
                'the checkpoint does not belong to the model of this config '
                f'({len(missing)} entries are missing and {len(reshaped)} '
                f'have another shape, first: {problem[0]}): give the config '
                'it was trained with.'
            )
        if not fitting:
            raise ValueError(
                'load_from names a checkpoint that shares no weight with the '
                f'model of this config (its first entry is '
                f'{next(iter(state), None)!r}): give another checkpoint.'
            )


def goes_on(runner: Runner) -> bool:
    """Whether training goes on from a checkpoint that was found.

    A run that is told to resume starts anew when its work directory has no
    checkpoint yet.

    Args:
        runner (Runner): The runner, after checkpoints were loaded.

    Returns:
        bool: False for a new run and for one with ``load_from`` only.
    """
    return bool(runner._resume and runner._has_loaded)


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside wrappers for several processes or test-time views.

    Args:
        model (nn.Module): Wrapped or not.

    Returns:
        nn.Module: The innermost model.
    """
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def evaluated_models(runner: Runner) -> list[nn.Module]:
    """The model and its averages, whose buffers evaluation may use.

    Args:
        runner (Runner): The runner.

    Returns:
        list[nn.Module]: Unwrapped; the model comes first.
    """
    averages = [
        hook.ema_model.module
        for hook in runner.hooks
        if isinstance(hook, EMAHook) and hasattr(hook, 'ema_model')
    ]
    return [unwrap(runner.model), *averages]


def compare_state(
    model: nn.Module, state: Mapping
) -> tuple[list[str], list[str], list[str]]:
    """Compare a model with a state dict, by names and shapes.

    Args:
        model (nn.Module): The model.
        state (Mapping): The state dict; a leading ``module.`` is ignored.

    Returns:
        tuple[list[str], list[str], list[str]]: Names that are missing,
        descriptions of entries of another shape, and names that fit.
    """
    state = {name.removeprefix('module.'): v for name, v in state.items()}
    optional = {
        f'{prefix}.{name}' if prefix else name
        for prefix, module in model.named_modules()
        for name in getattr(module, 'distribution_buffers', ())
    }
    missing, reshaped, fitting = [], [], []
    for name, value in model.state_dict().items():
        if name not in state:
            if name not in optional and 'num_batches_tracked' not in name:
                missing.append(name)
        elif _shape(state[name]) != _shape(value):
            reshaped.append(
                f'{name} has shape {_shape(state[name])} instead of '
                f'{_shape(value)}'
            )
        else:
            fitting.append(name)
    return missing, reshaped, fitting


def _shape(value: Any) -> tuple[int, ...]:
    """Shape of an entry; a module's extra state may be no tensor."""
    return tuple(getattr(value, 'shape', ()))
