# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Look at the labels of a config before training on them."""

from collections.abc import Mapping
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
    has_several_targets,
)
from mmgeom.registry import DATASETS
from mmgeom.visualization.bin_table import bin_table
from mmgeom.visualization.class_table import class_table
from mmgeom.visualization.tables import distribution_table, render_table

from .bin_checks import (
    bin_counts,
    evaluation_group_warnings,
    training_bin_warnings,
    training_group_warnings,
    value_statistics,
)
from .config_parts import (
    bins_and_groups,
    configured_classes,
    evaluation_datasets,
    metrics_of_type,
)
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
        notes (list[str]): What could not be looked at, or is to be known.
        statistics (dict[str, dict[str, float]]): For regression, where the
            labels of the ``'training'`` data and of those above lie:
            smallest, median, mean, largest, standard deviation.
        grouped (bool): Whether a metric of the config reports the errors of
            shot groups of bins.
    """

    distribution: LabelDistribution
    groups: dict = field(default_factory=dict)
    test_counts: dict[str, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)
    grouped: bool = False


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
    bins, groups = bins_and_groups(cfg)
    scope = cfg.get('default_scope', 'mmengine')
    with DefaultScope.overwrite_default_scope(scope):
        dataset = DATASETS.build(loader['dataset'])
        if bins is None:
            _refuse_several_targets(dataset)
            inspection = _inspect_training_classes(cfg, dataset, groups)
        else:
            inspection = _inspect_training_bins(cfg, dataset, bins, groups)
        inspection.distribution.groups(**groups)  # refuses a wrong rule
        for split, dataset_cfg in evaluation_datasets(cfg):
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
    table = class_table if distribution.bins is None else bin_table
    parts.append(table(distribution, groups, inspection.test_counts))
    if inspection.statistics:
        parts.append('Label values\n' + _value_table(inspection.statistics))
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


def _refuse_several_targets(dataset: Any) -> None:
    try:
        dataset_labels(dataset)
    except TypeError as error:
        if not has_several_targets(dataset):
            raise
        raise ValueError(
            'the training data have several targets a sample, of which there '
            'is no label distribution to inspect: train as it is.'
        ) from error


def _inspect_training_bins(
    cfg: Config, dataset: Any, bins: Mapping, groups: dict
) -> DatasetInspection:
    distribution = LabelDistribution.from_dataset(dataset, bins=bins)
    metrics = metrics_of_type(cfg, 'ShotError')
    inspection = DatasetInspection(
        distribution,
        groups,
        warnings=training_bin_warnings(distribution),
        statistics={'training': value_statistics(dataset_values(dataset))},
        grouped=any(not metric.get('group_by') for metric in metrics),
    )
    if inspection.grouped:
        inspection.warnings += training_group_warnings(distribution, groups)
    inspection.notes += [
        f'a ShotError groups test samples by their {metric["group_by"]!r} '
        'and not by label bins.'
        for metric in metrics
        if metric.get('group_by')
    ]
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
    configured = dict(configured_classes(cfg))
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
        warnings += evaluation_warnings(counts, split)
    else:
        counts, warnings = bin_counts(values, distribution.bins, split)
        warnings += evaluation_warnings(counts, split, 'bins')
        inspection.statistics[split] = value_statistics(values)
        if inspection.grouped:
            warnings += evaluation_group_warnings(
                distribution, inspection.groups, counts, split
            )
    inspection.test_counts[split] = counts
    inspection.warnings += warnings


def _class_counts(
    labels: np.ndarray, num_classes: int, split: str
) -> tuple[list[int], list[str]]:
    inside = labels[(labels >= 0) & (labels < num_classes)]
    counts = np.bincount(inside, minlength=num_classes)
    return counts.tolist(), range_warnings(labels, num_classes, split)


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


def _value_table(statistics: Mapping[str, Mapping[str, float]]) -> str:
    rows = [
        [split, *(f'{value:.4g}' for value in numbers.values())]
        for split, numbers in statistics.items()
        if numbers
    ]
    return render_table(['', *statistics['training']], rows)
