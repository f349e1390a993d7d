# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""One registry node for each of the host's nodes.

Every node is a child of mmpretrain's node of the same name, with the scope
``mmgeom``: a config writes ``mmgeom.X`` for our types, and types of
mmpretrain and mmengine need no prefix. All nodes exist, also those we add
nothing to, because a config inherited with ``mmgeom::`` stamps the scope
``mmgeom`` on every dict of its base. The host's locations are listed beside
ours since a look-up in a parent node does not import the parent's modules.
"""

from mmengine.registry import Registry
from mmpretrain import registry as host

__all__ = [
    'RUNNERS',
    'RUNNER_CONSTRUCTORS',
    'LOOPS',
    'HOOKS',
    'LOG_PROCESSORS',
    'OPTIMIZERS',
    'OPTIM_WRAPPERS',
    'OPTIM_WRAPPER_CONSTRUCTORS',
    'PARAM_SCHEDULERS',
    'DATASETS',
    'DATA_SAMPLERS',
    'TRANSFORMS',
    'MODELS',
    'MODEL_WRAPPERS',
    'WEIGHT_INITIALIZERS',
    'BATCH_AUGMENTS',
    'TASK_UTILS',
    'METRICS',
    'EVALUATORS',
    'VISUALIZERS',
    'VISBACKENDS',
]


def _child(parent: Registry, package: str) -> Registry:
    """Create our node below a node of mmpretrain."""
    return Registry(
        parent.name,
        parent=parent,
        scope='mmgeom',
        locations=[f'mmpretrain.{package}', f'mmgeom.{package}'],
    )


RUNNERS = _child(host.RUNNERS, 'engine')
RUNNER_CONSTRUCTORS = _child(host.RUNNER_CONSTRUCTORS, 'engine')
LOOPS = _child(host.LOOPS, 'engine')
HOOKS = _child(host.HOOKS, 'engine')
LOG_PROCESSORS = _child(host.LOG_PROCESSORS, 'engine')
OPTIMIZERS = _child(host.OPTIMIZERS, 'engine')
OPTIM_WRAPPERS = _child(host.OPTIM_WRAPPERS, 'engine')
OPTIM_WRAPPER_CONSTRUCTORS = _child(host.OPTIM_WRAPPER_CONSTRUCTORS, 'engine')
PARAM_SCHEDULERS = _child(host.PARAM_SCHEDULERS, 'engine')

DATASETS = _child(host.DATASETS, 'datasets')
DATA_SAMPLERS = _child(host.DATA_SAMPLERS, 'datasets')
TRANSFORMS = _child(host.TRANSFORMS, 'datasets')

MODELS = _child(host.MODELS, 'models')
MODEL_WRAPPERS = _child(host.MODEL_WRAPPERS, 'models')
WEIGHT_INITIALIZERS = _child(host.WEIGHT_INITIALIZERS, 'models')
BATCH_AUGMENTS = _child(host.BATCH_AUGMENTS, 'models')
TASK_UTILS = _child(host.TASK_UTILS, 'models')

METRICS = _child(host.METRICS, 'evaluation')
EVALUATORS = _child(host.EVALUATORS, 'evaluation')

VISUALIZERS = _child(host.VISUALIZERS, 'visualization')
VISBACKENDS = _child(host.VISBACKENDS, 'visualization')
