# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Switch a config to batches that are made and augmented as a whole."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from mmgeom.augmentation_names import AUGMENTATIONS, IN_VIEWS

_PREPROCESSORS = dict(
    ClsDataPreprocessor='mmgeom.BatchedDataPreprocessor',
    MultiViewDataPreprocessor='mmgeom.BatchedDataPreprocessor',
    TabularDataPreprocessor='mmgeom.TabularDataPreprocessor',
)


def batched(cfg: Mapping, device: str | None = None) -> tuple[dict, dict]:
    """What to change in a config whose training data fit in memory.

    The training dataset is wrapped by :class:`mmgeom.datasets.BatchedDataset`
    and the random transforms of its pipeline become augmentations of
    :class:`mmgeom.models.BatchedDataPreprocessor`, with the same arguments
    and the same distribution. Steps in front of them, such as resizing, stay
    in the pipeline. ``MultiView`` becomes ``views``. Validation and test
    data stay as they are. A config that inherits another one is switched by
    its last lines:

    .. code-block:: python

        _base_ = 'mmgeom::bcl/NAME.py'

        from mmgeom.apis.batched_data import batched

        train_dataloader, data_preprocessor = batched(_base_)

    Args:
        cfg (Mapping): The inherited config, with ``train_dataloader`` and,
            at the top level, ``data_preprocessor``.
        device (str, optional): Where the training data are held, such as
            ``'cuda'``. Defaults to None, the CPU.

    Returns:
        tuple[dict, dict]: Changes of ``train_dataloader`` and of
        ``data_preprocessor``.

    Raises:
        ValueError: When the config has no such parts, or a transform that
            cannot be done to batches.
    """
    dataset = copy.deepcopy(_plain(_part(cfg, 'train_dataloader', 'dataset')))
    preprocessor = _preprocessor_type(cfg)
    sources = _sources(dataset)
    kept, augmentations, views = _split(_pipeline(sources))
    for source in sources:
        if 'pipeline' in source:
            source['pipeline'] = copy.deepcopy(kept)
    changes: dict[str, Any] = dict(type=preprocessor)
    found = dict(augmentations=augmentations, views=views)
    changes |= {name: value for name, value in found.items() if value}
    if len(changes) > 1 and preprocessor.endswith('TabularDataPreprocessor'):
        raise ValueError(
            'tabular data have no augmentations of batches, but the training '
            f'pipeline holds {augmentations or views}: leave them out.'
        )
    wrapper: dict[str, Any] = dict(
        _delete_=True, type='mmgeom.BatchedDataset', dataset=dataset
    )
    if device is not None:
        wrapper['device'] = device
    # Nothing is left for workers to do.
    loader = dict(num_workers=0, persistent_workers=False, dataset=wrapper)
    return loader, changes


def _part(cfg: Mapping, *path: str) -> Any:
    part: Any = cfg
    for name in path:
        part = part.get(name)
        if not part:
            raise ValueError(
                f'the inherited config has no {".".join(path)} that could be '
                'batched: give `_base_` of a config for training.'
            )
    return part


def _preprocessor_type(cfg: Mapping) -> str:
    if (cfg.get('model') or {}).get('data_preprocessor'):
        raise ValueError(
            'the inherited config has its data_preprocessor inside of model: '
            'move it to the top level to have it batched.'
        )
    given = (cfg.get('data_preprocessor') or {}).get('type')
    name = _name(given or 'ClsDataPreprocessor')
    if name == 'BatchedDataPreprocessor':
        raise ValueError('the inherited config is batched already.')
    if name not in _PREPROCESSORS:
        raise ValueError(
            f'{name} is no data preprocessor that can be batched, as '
            f'{list(_PREPROCESSORS)} are: write the config by hand, with '
            'mmgeom.BatchedDataset.'
        )
    return _PREPROCESSORS[name]


def _sources(dataset: dict) -> list[dict]:
    """Configs of the datasets that have the pipelines."""
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    if 'datasets' not in dataset:
        return [dataset]
    parts = map(_sources, dataset['datasets'])
    return [source for part in parts for source in part]


def _pipeline(sources: Sequence[dict]) -> list[dict]:
    """The pipeline that all of them have."""
    if not sources:
        raise ValueError(
            'the inherited config joins no dataset at all: give some in '
            'train_dataloader.dataset.datasets.'
        )
    pipelines = [source.get('pipeline') or [] for source in sources]
    other = next((p for p in pipelines if p != pipelines[0]), None)
    if other is not None:
        raise ValueError(
            'joined datasets must have one pipeline to be batched, but have '
            f'{pipelines[0]} and {other}: make them equal, or write the '
            'config by hand, with mmgeom.BatchedDataset.'
        )
    return pipelines[0]


def _split(pipeline: Sequence[dict]) -> tuple[list, list, list]:
    """What stays in the pipeline, augmentations, and views."""
    names = [_name(transform['type']) for transform in pipeline]
    start = next(
        (
            index
            for index, name in enumerate(names)
            if name in AUGMENTATIONS or name == 'MultiView'
        ),
        None,
    )
    if start is None:
        return list(pipeline), [], []
    pack = [t for t, name in zip(pipeline, names) if name == 'PackInputs']
    kept = [*pipeline[:start], *pack]
    rest = [t for t in pipeline[start:] if t not in pack]
    if names[start] == 'MultiView':
        if len(rest) > 1:
            _refuse(rest[1])
        return kept, [], _views(rest[0])
    return kept, [_translated(t, AUGMENTATIONS) for t in rest], []


def _views(config: dict) -> list[list[dict]]:
    numbers, pipelines = config['num_views'], config['transforms']
    numbers = [numbers] if isinstance(numbers, int) else numbers
    if pipelines and isinstance(pipelines[0], Mapping):
        pipelines = [pipelines]
    return [
        [_translated(transform, IN_VIEWS) for transform in pipeline]
        for number, pipeline in zip(numbers, pipelines)
        for _ in range(number)
    ]


def _translated(transform: dict, names: Mapping[str, str]) -> dict:
    name = _name(transform['type'])
    if name not in names:
        _refuse(transform)
    arguments = {
        key: copy.deepcopy(value)
        for key, value in transform.items()
        if key not in ('type', '_scope_')
    }
    return dict(type=f'mmgeom.{names[name]}', **arguments)


def _refuse(transform: dict) -> None:
    raise ValueError(
        f'{_name(transform["type"])} comes after a random transform, where '
        f'only {list(AUGMENTATIONS)} can be done to batches: put it in front '
        'of them, or leave it out.'
    )


def _name(kind: Any) -> str:
    text = kind if isinstance(kind, str) else kind.__name__
    return text.rpartition('.')[2]


def _plain(value: Any) -> Any:
    """Plain dicts and lists instead of those of a config."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
