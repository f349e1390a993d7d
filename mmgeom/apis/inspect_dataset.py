# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Look at the labels of a config before training on them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmgeom.distribution import LabelDistribution
from mmgeom.labels import (
    dataset_class_names,
    dataset_labels,
    dataset_num_classes,
    dataset_values,
    flat_labels,
)
from mmgeom.registry import DATASETS
from mmgeom.visualization.class_table import class_table
from mmgeom.visualization.tables import distribution_table, render_table

from .dataset_checks import (
    class_number_warnings,
    evaluation_warnings,
    range_warnings,
    training_warnings,
)


@dataclass
class DatasetInspection:
    """What :func:`inspect_dataset` found.

    Attributes:
        distribution (LabelDistribution): Of the training data.
        groups (dict): Rule of the shot groups, the arguments of
            :meth:`LabelDistribution.groups`; empty for the default rule.
        test_counts (dict[str, list[int]]): ``'val'`` and ``'test'``, as far
            as they could be read, to the samples of each class or bin. Data
            used for both are named ``'test'`` only.
        warnings (list[str]): What may spoil results, each with a remedy.
        notes (list[str]): What could not be looked at.
    """

    distribution: LabelDistribution
    groups: dict = field(default_factory=dict)
    test_counts: dict[str, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def inspect_dataset(cfg: Config | str | Path) -> DatasetInspection:
    """Read the labels of a config's datasets; no model is built.

    Bins and shot groups are those of the config's ``LabelDistributionHook``;
    when it states no groups, those of the first metric that does.

    Args:
        cfg (Config | str | Path): A config or its path.

    Returns:
        DatasetInspection: Counts, warnings and notes.

    Raises:
        ValueError: When the config has no training data, or none of its
            labels is usable.
        Exception: Whatever building and reading the training dataset
            raises, e.g. FileNotFoundError.

    Examples:
        >>> found = inspect_dataset('configs/NAME.py')  # doctest: +SKIP
        >>> print(format_inspection(found))  # doctest: +SKIP
    """
    if not isinstance(cfg, Config):
        cfg = Config.fromfile(cfg)
    loader = cfg.get('train_dataloader')
    if not loader or not loader.get('dataset'):
        raise ValueError(
            'the config has no train_dataloader with a dataset, so there are '
            'no training labels to inspect: give the config of a training.'
        )
    bins, groups = _bins_and_groups(cfg)
    scope = cfg.get('default_scope', 'mmengine')
    with DefaultScope.overwrite_default_scope(scope):
        dataset = DATASETS.build(loader['dataset'])
        if bins is None:
            inspection = _inspect_training_classes(cfg, dataset, groups)
        else:
            inspection = _inspect_training_bins(dataset, bins, groups)
        inspection.distribution.groups(**groups)  # refuses a wrong rule
        for split, dataset_cfg in _test_datasets(cfg):
            _inspect_test(inspection, split, dataset_cfg)
    return inspection


def format_inspection(inspection: DatasetInspection) -> str:
    """Tables, warnings and notes as text.

    Args:
        inspection (DatasetInspection): What :func:`inspect_dataset` found.

    Returns:
        str: Several lines without colour codes.
    """
    distribution, groups = inspection.distribution, inspection.groups
    parts = ['Training labels\n' + distribution_table(distribution, groups)]
    if distribution.bins is None:
        parts.append(class_table(distribution, groups, inspection.test_counts))
    if inspection.test_counts:
        parts.append('Other data\n' + _test_table(inspection))
    lines = [f'warning: {text}' for text in inspection.warnings]
    lines += [f'note: {text}' for text in inspection.notes]
    return '\n\n'.join(parts + ['\n'.join(lines)] * bool(lines))


def one_sentence(error: Exception) -> str:
    """The message of an error on one line.

    Args:
        error (Exception): Any.

    Returns:
        str: The message, or the name of the error's type without one.
    """
    # The text of a KeyError is the quoted form of its message.
    text = error.args[0] if isinstance(error, KeyError) else error
    return ' '.join(str(text).split()) or type(error).__name__


def _bins_and_groups(cfg: Config) -> tuple[dict | None, dict]:
    """Bins of the LabelDistributionHook; groups of the hook or a metric."""
    hooks = list((cfg.get('default_hooks') or {}).values())
    hooks += list(cfg.get('custom_hooks') or [])
    found = [h for h in hooks if _is_distribution_hook(h)]
    bins = found[0].get('bins') if found else None
    for mode in ('val', 'test'):
        metrics = cfg.get(f'{mode}_evaluator') or []
        found += metrics if isinstance(metrics, (list, tuple)) else [metrics]
    rules = [p.get('groups') for p in found if isinstance(p, Mapping)]
    rules = [rule for rule in rules if rule and isinstance(rule, Mapping)]
    return bins, dict(rules[0]) if rules else {}


def _is_distribution_hook(hook: Any) -> bool:
    kind = hook.get('type', '') if isinstance(hook, Mapping) else ''
    name = kind if isinstance(kind, str) else getattr(kind, '__name__', '')
    return name.rpartition('.')[2] == 'LabelDistributionHook'


def _inspect_training_bins(
    dataset: Any, bins: Mapping, groups: dict
) -> DatasetInspection:
    distribution = LabelDistribution.from_dataset(dataset, bins=bins)
    inspection = DatasetInspection(distribution, groups)
    empty = len(distribution.empty)
    if empty:
        inspection.notes.append(
            f'{empty} of {len(distribution)} label bins have no training '
            'sample.'
        )
    return inspection


def _inspect_training_classes(
    cfg: Config, dataset: Any, groups: dict
) -> DatasetInspection:
    labels = flat_labels(dataset_labels(dataset))
    declared = dataset_num_classes(dataset)
    configured = dict(_configured_classes(cfg))
    largest = int(labels.max()) if len(labels) else -1
    num_classes = declared or next(iter(configured.values()), largest + 1)
    inside = labels[(labels >= 0) & (labels < num_classes)]
    if len(labels) and not len(inside):
        raise ValueError(
            f'none of the {len(labels)} training labels lies in [0, '
            f'{num_classes}), the first is {labels[0]}: correct the labels '
            'or the number of classes.'
        )
    names = dataset_class_names(dataset)
    if names is not None and len(names) != num_classes:
        names = None
    distribution = LabelDistribution.from_labels(inside, num_classes, names)
    warnings = [
        *range_warnings(labels, num_classes, 'training'),
        *class_number_warnings(configured, declared, largest, num_classes),
        *training_warnings(distribution),
    ]
    return DatasetInspection(distribution, groups, warnings=warnings)


def _configured_classes(cfg: Config) -> Iterator[tuple[str, int]]:
    """Places of the config that state a number of classes, heads first."""
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


def _test_datasets(cfg: Config) -> Iterator[tuple[str, Any]]:
    """Name and config of each dataset to evaluate on, once each."""
    found = {
        split: (cfg.get(f'{split}_dataloader') or {}).get('dataset')
        for split in ('val', 'test')
    }
    if found['val'] == found['test']:
        del found['val']
    for split, dataset_cfg in found.items():
        if dataset_cfg:
            yield split, dataset_cfg


def _inspect_test(
    inspection: DatasetInspection, split: str, dataset_cfg: Any
) -> None:
    """Add what there is to say about one dataset to evaluate on."""
    distribution = inspection.distribution
    try:
        dataset = DATASETS.build(dataset_cfg)
        if distribution.bins is None:
            values = flat_labels(dataset_labels(dataset))
        else:
            values = dataset_values(dataset)
    # Whatever is wrong with it, the training data can still be looked at.
    except Exception as error:
        inspection.notes.append(
            f'the {split} data could not be read: {one_sentence(error)}'
        )
        return
    if distribution.bins is None:
        counts, warnings = _class_counts(values, len(distribution), split)
        kind = 'classes'
    else:
        counts, warnings = _bin_counts(values, distribution.bins, split)
        kind = 'bins'
    inspection.test_counts[split] = counts
    inspection.warnings += warnings + evaluation_warnings(counts, split, kind)


def _class_counts(
    labels: np.ndarray, num_classes: int, split: str
) -> tuple[list[int], list[str]]:
    inside = labels[(labels >= 0) & (labels < num_classes)]
    counts = np.bincount(inside, minlength=num_classes)
    return counts.tolist(), range_warnings(labels, num_classes, split)


def _bin_counts(
    values: np.ndarray, bins: Any, split: str
) -> tuple[list[int], list[str]]:
    warnings = []
    finite = np.isfinite(values)
    if not finite.all():
        warnings.append(
            f'{int((~finite).sum())} {split} targets are not finite and were '
            'left out here: remove or fill such rows.'
        )
    values = values[finite]
    low, high = bins.edges[0].item(), bins.edges[-1].item()
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        warnings.append(
            f'{outside} {split} targets lie outside the bins of the training '
            f'data, [{low:g}, {high:g}], and count in the first or last bin: '
            'widen the bins if they matter.'
        )
    counts = np.bincount(bins.index(values).numpy(), minlength=len(bins))
    return counts.tolist(), warnings


def _test_table(inspection: DatasetInspection) -> str:
    rows = []
    for split, counts in inspection.test_counts.items():
        counts = np.asarray(counts)
        present = counts[counts > 0]
        factor = LabelDistribution(counts).imbalance_factor
        largest = present.max() if len(present) else '-'
        smallest = present.min() if len(present) else '-'
        rows.append(
            [split, len(present), counts.sum(), largest, smallest, factor]
        )
    kind = 'classes' if inspection.distribution.bins is None else 'bins'
    columns = ['', kind, 'samples', 'largest', 'smallest', 'imbalance factor']
    return render_table(columns, rows)
