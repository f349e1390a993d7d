# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What metrics have in common that report many-, medium- and few-shot."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation.functional import shot_masks
from mmgeom.visualization.tables import render_table


class ShotMetric(BaseMetric):
    """Base of metrics with a value for each shot group.

    The groups come from the training labels, which
    :class:`mmgeom.engine.hooks.LabelDistributionHook` hands over; without
    it there are no values for groups and one warning says so.

    Args:
        groups (dict, optional): Rule of the shot groups, the arguments of
            :meth:`mmgeom.distribution.LabelDistribution.groups`. Defaults
            to None, which means
            ``dict(by='count', many=100, few=20)``: more than 100, 20 to
            100, and fewer than 20 training samples.
        collect_device (str): Where results of several ranks are collected,
            ``'cpu'`` or ``'gpu'``. Defaults to ``'cpu'``.
        prefix (str, optional): Put before the names of the values. Defaults
            to None, which means ``default_prefix``.
    """

    def __init__(
        self,
        groups: dict | None = None,
        collect_device: str = 'cpu',
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.groups = dict(groups or {'by': 'count', 'many': 100, 'few': 20})
        self.label_distribution: LabelDistribution | None = None
        self._warned: set[str] = set()

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the label distribution of the training data.

        Args:
            distribution (LabelDistribution): Over the K classes or bins.

        Raises:
            ValueError: When the group rule does not fit it.
        """
        nothing = torch.zeros(0, dtype=torch.int64)
        shot_masks(nothing, distribution, self.groups)  # checks the rule
        self.label_distribution = distribution

    @property
    def _shot_rule(self) -> dict | None:
        """The group rule, or None while the training labels are unknown."""
        return None if self.label_distribution is None else self.groups

    def _warn_without_distribution(self) -> None:
        """Say once why there are no groups."""
        if self.label_distribution is not None:
            return
        self._warn_once(
            f'{type(self).__name__} does not know the training labels, so '
            'it reports no shot groups: add '
            "dict(type='mmgeom.LabelDistributionHook') to custom_hooks, or "
            'call its set_label_distribution().'
        )

    def _warn_once(self, message: str) -> None:
        """Log a warning that this metric has not logged before."""
        if message not in self._warned:
            self._warned.add(message)
            print_log(message, logger='current', level=logging.WARNING)

    def _log_table(
        self,
        heading: str,
        overall: Mapping[str, float],
        group_values: Mapping[str, float],
        target: Tensor,
    ) -> None:
        """Log percentages with the classes and samples they are over."""
        everything = torch.ones_like(target, dtype=torch.bool)
        rows = [
            _row(name, everything, target, value)
            for name, value in overall.items()
        ]
        masks = shot_masks(target, self.label_distribution, self._shot_rule)
        rows += [
            _row(name, mask, target, group_values.get(name, '-'))
            for name, mask in masks.items()
        ]
        table = render_table(['', 'classes', 'test samples', heading], rows)
        print_log(f'{type(self).__name__} in percent\n{table}', 'current')


def single_labels(data_samples: Sequence[dict], key: str) -> Tensor:
    """One integer label of each sample.

    Args:
        data_samples (Sequence[dict]): Model outputs.
        key (str): ``'gt_label'`` or ``'pred_label'``.

    Returns:
        Tensor: int64, shape ``(N,)``, on the device of the samples.

    Raises:
        ValueError: When a sample has no label, or more than one.
    """
    labels = []
    for sample in data_samples:
        if sample.get(key) is None:
            raise ValueError(
                f'a data sample has no {key!r}, only {sorted(sample)}: test '
                'data need labels and the pipeline must pack them.'
            )
        label = torch.as_tensor(sample[key]).reshape(-1)
        if len(label) != 1:
            raise ValueError(
                f'a data sample has {len(label)} labels in {key!r}: shot '
                'metrics are for one label a sample, multi-label data need '
                'a multi-label metric.'
            )
        labels.append(label)
    return torch.cat(labels).long()


def stacked_scores(data_samples: Sequence[dict]) -> Tensor:
    """Scores of a batch.

    Args:
        data_samples (Sequence[dict]): Model outputs with ``pred_score``.

    Returns:
        Tensor: Shape ``(N, K)``, on the device of the samples.

    Raises:
        ValueError: When a sample has no scores.
    """
    for sample in data_samples:
        if sample.get('pred_score') is None:
            raise ValueError(
                "a data sample has no 'pred_score', only "
                f'{sorted(sample)}: use a head whose predict() sets it.'
            )
    return torch.stack(
        [torch.as_tensor(sample['pred_score']) for sample in data_samples]
    )


def _row(name: str, mask: Tensor, target: Tensor, value: Any) -> list:
    return [name, len(target[mask].unique()), int(mask.sum()), value]
