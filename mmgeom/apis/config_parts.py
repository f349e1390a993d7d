# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What a config says about labels, without building any of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.config import Config


def bins_and_groups(cfg: Config) -> tuple[dict | None, dict]:
    """Bins of the LabelDistributionHook; groups of the hook or a metric.

    Args:
        cfg (Config): Of a training.

    Returns:
        tuple[dict | None, dict]: The bins, None for classes, and the rule
        of the shot groups, empty for the default rule.
    """
    hooks = list((cfg.get('default_hooks') or {}).values())
    hooks += list(cfg.get('custom_hooks') or [])
    found = [h for h in hooks if _is_a(h, 'LabelDistributionHook')]
    bins = found[0].get('bins') if found else None
    rules = [p.get('groups') for p in [*found, *_metrics(cfg)]]
    rules = [rule for rule in rules if rule and isinstance(rule, Mapping)]
    return bins, dict(rules[0]) if rules else {}


def metrics_of_type(cfg: Config, name: str) -> list[Mapping]:
    """The metrics of a type, those alike for validation and test once.

    Args:
        cfg (Config): Of a training.
        name (str): Of the type, without scope.

    Returns:
        list[Mapping]: Their configs.
    """
    found = []
    for metric in _metrics(cfg):
        if _is_a(metric, name) and metric not in found:
            found.append(metric)
    return found


def _metrics(cfg: Config) -> list[Mapping]:
    """The configs of the metrics for validation and test."""
    found = []
    for mode in ('val', 'test'):
        metrics = cfg.get(f'{mode}_evaluator') or []
        found += metrics if isinstance(metrics, (list, tuple)) else [metrics]
    return [metric for metric in found if isinstance(metric, Mapping)]


def _is_a(part: Any, name: str) -> bool:
    kind = part.get('type', '') if isinstance(part, Mapping) else ''
    text = kind if isinstance(kind, str) else getattr(kind, '__name__', '')
    return text.rpartition('.')[2] == name


def configured_classes(cfg: Config) -> Iterator[tuple[str, int]]:
    """Places of the config that state a number of classes, heads first.

    Args:
        cfg (Config): Of a training.

    Yields:
        tuple[str, int]: A place and its number.
    """
    model = cfg.get('model') or {}
    yield from _numbers(model.get('head'), 'model.head')
    for owner, place in ((model, 'model.'), (cfg, '')):
        name = 'data_preprocessor'
        yield from _numbers(owner.get(name), f'{place}{name}')


def _numbers(part: Any, place: str) -> Iterator[tuple[str, int]]:
    if isinstance(part, (list, tuple)):
        part = dict(enumerate(part))
    if not isinstance(part, Mapping):
        return
    number = part.get('num_classes')
    if isinstance(number, int) and number > 0:
        yield f'{place}.num_classes', number
    for key, value in part.items():
        yield from _numbers(value, f'{place}.{key}')


def evaluation_datasets(cfg: Config) -> Iterator[tuple[str, Any]]:
    """Name and config of each dataset to evaluate on, once each.

    Args:
        cfg (Config): Of a training.

    Yields:
        tuple[str, Any]: ``'val'`` or ``'test'``, and the dataset's config.
    """
    found = {
        split: (cfg.get(f'{split}_dataloader') or {}).get('dataset')
        for split in ('val', 'test')
    }
    if found['val'] == found['test']:
        del found['val']
    for split, dataset_cfg in found.items():
        if dataset_cfg:
            yield split, dataset_cfg
