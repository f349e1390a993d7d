# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Our models by name, in the host's model hub."""

import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from mmpretrain.apis import get_model as host_get_model
from mmpretrain.apis.model import ModelHub
from modelindex.load_model_index import load
from torch import nn

_MIM = Path(__file__).resolve().parents[1] / '.mim'


@cache
def register_models() -> tuple[str, ...]:
    """Make our configs known to mmpretrain by name, once per process.

    Afterwards mmpretrain's own ``list_models``, ``get_model`` and
    ``inference_model`` know them too.

    Returns:
        tuple[str, ...]: The names, in alphabetical order.
    """
    index = _MIM / 'model-index.yml'
    ModelHub.register_model_index(index, config_prefix=_MIM)
    models = load(str(index))
    models.build_models_with_collections()
    return tuple(sorted(model.name.lower() for model in models.models))


def list_models(pattern: str = '*') -> list[str]:
    """Names of our models.

    Args:
        pattern (str): With wildcards, e.g. ``'*cifar100*'``. Defaults to
            ``'*'``.

    Returns:
        list[str]: In alphabetical order.
    """
    return fnmatch.filter(register_models(), pattern)


def get_model(
    model: Any, pretrained: str | bool = False, **kwargs
) -> nn.Module:
    """Build a model by name, config file or config.

    Args:
        model (Any): Name of one of our or of mmpretrain's models, path of a
            config file, or a ``Config``.
        pretrained (str | bool): Path or address of a checkpoint. Defaults to
            False, which means random weights.
        **kwargs: Arguments of :func:`mmpretrain.get_model`.

    Returns:
        nn.Module: In evaluation mode.

    Raises:
        ValueError: When there is no model of that name.
    """
    register_models()
    return host_get_model(model, pretrained=pretrained, **kwargs)
