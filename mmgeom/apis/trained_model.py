# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Checks that a model to predict with is a trained regressor."""

from mmengine.runner import CheckpointLoader, load_state_dict
from torch import nn

from mmgeom.engine.hooks.checkpoint_check_hook import compare_state
from mmgeom.geometry.standardization import Standardizer
from mmgeom.models.regressors.image_regressor import ImageRegressor


def require_regressor(model: nn.Module) -> None:
    """Check that a model predicts numbers.

    Args:
        model (nn.Module): The model.

    Raises:
        TypeError: When it is no ``mmgeom.ImageRegressor``.
    """
    if not isinstance(model, ImageRegressor):
        raise TypeError(
            f'the model is {type(model).__name__}, not a regressor: give '
            'one of the type mmgeom.ImageRegressor, or use the inferencer of '
            'mmpretrain that is made for it.'
        )


def named_weights(model: nn.Module) -> str:
    """The weights that a model's name or its config stands for.

    Args:
        model (nn.Module): Of :func:`mmgeom.apis.models.get_model`.

    Returns:
        str: Path or address.

    Raises:
        ValueError: When there are none.
    """
    metainfo = getattr(model, '_metainfo', None)
    weights = getattr(metainfo, 'weights', None)
    weights = weights or model._config.get('load_from')
    if not weights:
        raise ValueError(
            'the model is not trained, since neither its name nor load_from '
            'of its config stands for weights: give pretrained='
            "'path of a checkpoint'."
        )
    return weights


def load_weights(model: nn.Module, path: str) -> None:
    """Load a checkpoint that has all of the model.

    The meta information of its training data becomes ``_dataset_meta`` of
    the model, as in the host.

    Args:
        model (nn.Module): The model.
        path (str): Path or address of the checkpoint.

    Raises:
        FileNotFoundError: When there is no such file.
        ValueError: When a weight is missing or has another shape.
    """
    checkpoint = CheckpointLoader.load_checkpoint(path, map_location='cpu')
    state = checkpoint.get('state_dict', checkpoint)
    missing, reshaped, _ = compare_state(model, state)
    if missing or reshaped:
        problem = reshaped or [f'{name} is missing' for name in missing]
        raise ValueError(
            f"the checkpoint '{path}' does not belong to the model "
            f'({len(missing)} entries are missing and {len(reshaped)} have '
            f'another shape, first: {problem[0]}): give the config that it '
            'was trained with.'
        )
    state = {name.removeprefix('module.'): v for name, v in state.items()}
    load_state_dict(model, state)
    meta = checkpoint.get('meta') or {}
    model._dataset_meta = meta.get('dataset_meta') or {}


def require_statistics(model: nn.Module) -> None:
    """Check that statistics of the training data are there where used.

    Args:
        model (nn.Module): The model.

    Raises:
        ValueError: When a ``Standardizer`` that is used was never filled.
    """
    for name, module in model.named_modules():
        if not isinstance(module, Standardizer) or module.is_fitted:
            continue
        owner = model.get_submodule(name.rpartition('.')[0])
        uses = [
            getattr(owner, f'uses_{kind}_statistics', None)
            for kind in ('input', 'target')
        ]
        if False not in uses:
            raise ValueError(
                f'the model is not trained, since {name} has no statistics '
                "of training data: give pretrained='path of a checkpoint'."
            )
