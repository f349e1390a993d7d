# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation.functional import (
    REGRESSION_ERRORS,
    bin_masks,
    check_bins,
    checked_values,
    interval_masks,
    label_numbers,
    regression_errors,
)
from mmgeom.registry import METRICS
from mmgeom.visualization.tables import render_table

from .regression_samples import single_number, stacked_values
from .shot_metric import ShotMetric

DEFAULT_ITEMS = ('mae', 'mse', 'rmse', 'gm')


@METRICS.register_module()
class ShotError(ShotMetric):
    r"""Regression errors overall and of each shot group.

    With :math:`e_i = \hat y_i - y_i`, over all N test samples or over those
    of a group (the sum of their errors divided by their number):

    - ``mae``, ``mse``, ``rmse``: mean absolute error, mean squared error
      and the square root of the latter;
    - ``gm``: geometric mean :math:`(\prod_i |e_i|)^{1/N}`, an error of
      exactly 0 counting as :math:`10^{-10}`;
    - ``pearson``, ``spearman``: correlations in ``[-1, 1]``, NaN when the
      predictions or the labels are constant;
    - ``bmae``, ``bmse``: the mean over the labels that have test samples of
      the mean error of each. A label is a bin of the training distribution,
      so that continuous labels count by bins; without a distribution, or
      with several targets a sample, it is a distinct target.

    Names are those above for all samples and, e.g., ``mae_many``,
    ``mae_medium``, ``mae_few`` (or the names of the rule) for groups. A
    group without test samples is left out. With D targets a sample, ``gm`` and
    the correlations are means over the D, the others are over all
    :math:`N \cdot D` numbers, and groups need ``group_by``.

    A sample's group is that of the bin of its label. Labels beyond the
    training bins belong to the first or last of them; by ``'count'`` and
    ``'thirds'``, bins without a training sample are few-shot. With
    ``group_by`` the group comes from another number of the sample instead.

    Smaller is better for all but the correlations, which ``save_best`` must
    be told: ``dict(type='CheckpointHook', save_best='error/mae',
    rule='less')``.

    Args:
        items (str | Sequence[str]): Errors to report, of those above.
            Defaults to ``('mae', 'mse', 'rmse', 'gm')``. (Not `metrics`,
            since mmengine takes a dict with that key for an evaluator.)
        groups (dict, optional): Rule of the shot groups of bins, the
            arguments of
            :meth:`mmgeom.distribution.LabelDistribution.groups`. Defaults
            to None, which means
            ``dict(by='count', many=100, few=20)``: more than 100, 20 to
            100, and fewer than 20 training samples.
        group_by (str, optional): Entry of a test sample, one finite number,
            that ``intervals`` are about, e.g. ``'group_value'``. Defaults
            to None, which means groups of bins.
        intervals (dict, optional): For ``group_by``, a dict from a group's
            name to a list of ``[start, stop]``, e.g.
            ``dict(many=[[.2, .8]], few=[[0, .2], [.8, 1]])``. An interval
            holds its start and not its stop, but the highest end of all.
            Defaults to None.
        collect_device (str): Where results of several ranks are collected,
            ``'cpu'`` or ``'gpu'``. Defaults to ``'cpu'``.
        prefix (str, optional): Put before the names of the values. Defaults
            to None, which means ``'error'``.

    Raises:
        ValueError: When a name in ``items`` is unknown, ``group_by`` and
            ``intervals`` do not come together, or come with ``groups``, or
            intervals overlap.

    Examples:
        >>> from mmgeom.distribution import LabelDistribution
        >>> from mmgeom.evaluation import ShotError
        >>> ages = [30.0] * 200 + [80.0] * 5
        >>> training = LabelDistribution.from_values(ages, dict(width=1.0))
        >>> ShotError.calculate(
        ...     [31.0, 29.0, 70.0], [30.0, 30.0, 80.0], training,
        ...     items=['mae', 'bmae'])  # doctest: +NORMALIZE_WHITESPACE
        {'mae': 4.0, 'bmae': 5.5, 'mae_many': 1.0, 'bmae_many': 1.0,
         'mae_few': 10.0, 'bmae_few': 10.0}
    """

    default_prefix = 'error'

    def __init__(
        self,
        items: str | Sequence[str] = DEFAULT_ITEMS,
        groups: dict | None = None,
        group_by: str | None = None,
        intervals: dict | None = None,
        collect_device: str = 'cpu',
        prefix: str | None = None,
    ) -> None:
        _check_rule(groups, group_by is not None, intervals)
        super().__init__(groups, collect_device, prefix)
        self.items = _checked_items(items)
        self.group_by = group_by
        self.intervals = intervals
        if group_by is not None:
            self.groups = {}

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the label distribution of the training data.

        Args:
            distribution (LabelDistribution): Over K bins.

        Raises:
            ValueError: When it is over classes, or the group rule does not
                fit it.
        """
        check_bins(distribution)
        super().set_label_distribution(distribution)

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the predicted and the true value of each sample.

        Args:
            data_batch (Any): Not used.
            data_samples (Sequence[dict]): Model outputs with ``pred_score``
                and ``gt_score``, D numbers each, and what ``group_by``
                names.

        Raises:
            ValueError: When a sample lacks them, or the numbers of
                predictions and targets differ.
        """
        pred = stacked_values(data_samples, 'pred_score')
        target = stacked_values(data_samples, 'gt_score')
        if pred.shape != target.shape:
            raise ValueError(
                f'{pred.shape[1]} predictions a sample do not fit '
                f'{target.shape[1]} targets: use a regression head with one '
                'output for each target.'
            )
        if self.group_by is None:
            group_values = [None] * len(target)
        else:
            group_values = [
                single_number(sample, self.group_by) for sample in data_samples
            ]
        # One entry for each sample, since collecting cuts off the padding.
        self.results += list(
            zip(pred.tolist(), target.tolist(), group_values, strict=True)
        )

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute and log the values; runs on rank 0 only.

        Args:
            results (list): Predictions, targets and the number that
                ``group_by`` names, or None, for each sample.

        Returns:
            dict[str, float]: The values.

        Raises:
            ValueError: When there are no results, or a target is not
                finite.
        """
        columns = list(zip(*results, strict=True)) or [(), (), ()]
        pred, target = checked_values(columns[0], columns[1])
        labels = label_numbers(target, self.label_distribution)
        if self.group_by is None:
            masks = bin_masks(
                target, labels, self.label_distribution, self._shot_rule
            )
        else:
            masks = interval_masks(columns[2], self.intervals)
        table = _errors(pred, target, labels, masks, self.items)
        self._warn(pred, masks)
        binned = self.label_distribution is not None and pred.shape[1] == 1
        self._log_errors(table, masks, labels, 'bins' if binned else 'labels')
        return _named(table)

    @staticmethod
    def calculate(
        pred: Tensor | np.ndarray | Sequence,
        target: Tensor | np.ndarray | Sequence,
        distribution: LabelDistribution | None = None,
        groups: Mapping[str, Any] | None = None,
        items: str | Sequence[str] = DEFAULT_ITEMS,
        group_values: Tensor | np.ndarray | Sequence | None = None,
        intervals: dict | None = None,
    ) -> dict[str, float]:
        """Compute the values without a runner.

        Args:
            pred (Tensor | np.ndarray | Sequence): Predictions, shape
                ``(N,)`` or ``(N, D)``.
            target (Tensor | np.ndarray | Sequence): True values, of the
                same shape.
            distribution (LabelDistribution, optional): Of the training
                data, over bins. Defaults to None: no groups of bins.
            groups (Mapping[str, Any], optional): Arguments of
                :meth:`LabelDistribution.groups`. Defaults to None: more
                than 100, 20 to 100, fewer than 20 training samples.
            items (str | Sequence[str]): Errors to report. Defaults to
                ``('mae', 'mse', 'rmse', 'gm')``.
            group_values (Tensor | np.ndarray | Sequence, optional): A
                number for each sample, shape ``(N,)``, to group by instead
                of by bins. Defaults to None.
            intervals (dict, optional): Groups of ``group_values``. Defaults
                to None.

        Returns:
            dict[str, float]: The values, without prefix.

        Raises:
            ValueError: When there is no sample, shapes do not fit, a target
                is not finite, or an argument is not as described.
        """
        _check_rule(groups, group_values is not None, intervals)
        names = _checked_items(items)
        pred, target = checked_values(pred, target)
        labels = label_numbers(target, distribution)
        if intervals is None:
            masks = bin_masks(target, labels, distribution, groups)
        else:
            masks = interval_masks(group_values, intervals)
        for mask in masks.values():
            if len(mask) != len(target):
                raise ValueError(
                    f'{len(mask)} group values do not fit {len(target)} '
                    'test samples: give one for each.'
                )
        return _named(_errors(pred, target, labels, masks, names))

    def _warn(self, pred: Tensor, masks: Mapping[str, Tensor]) -> None:
        """Say what makes values missing, NaN or infinite."""
        wrong = int((~pred.isfinite().all(dim=1)).sum())
        if wrong:
            print_log(
                f'The predictions of {wrong} of {len(pred)} test samples are '
                'not finite, and so are the errors over them: look for the '
                'step of the training at which the loss diverged.',
                logger='current',
                level=logging.WARNING,
            )
        if self.group_by is None and pred.shape[1] > 1:
            self._warn_once(
                'ShotError reports no shot groups, since they need one '
                f'target a sample and these have {pred.shape[1]}: give '
                '`group_by` and `intervals` to group by another number.'
            )
        elif self.group_by is None:
            self._warn_without_distribution()
        empty = [name for name, mask in masks.items() if not mask.any()]
        if empty:
            self._warn_once(
                f'No test sample is in the shot groups {", ".join(empty)}, '
                'which are left out.'
            )

    def _log_errors(
        self,
        table: Mapping[str | None, Mapping[str, float]],
        masks: Mapping[str, Tensor],
        labels: Tensor,
        kind: str,
    ) -> None:
        """Log errors with the labels and test samples they are over."""
        rows = []
        for name, errors in table.items():
            inside = labels if name is None else labels[masks[name]]
            cells = [f'{value:.4g}' for value in errors.values()]
            head = 'overall' if name is None else name
            rows.append([head, len(inside.unique()), len(inside), *cells])
        text = render_table(['', kind, 'samples', *self.items], rows)
        print_log(f'{type(self).__name__}\n{text}', logger='current')


def _checked_items(items: str | Sequence[str]) -> tuple[str, ...]:
    names = (items,) if isinstance(items, str) else tuple(items)
    unknown = [name for name in names if name not in REGRESSION_ERRORS]
    if unknown or not names:
        raise ValueError(
            f'items must name some of {list(REGRESSION_ERRORS)}, got '
            f'{list(names)}.'
        )
    return names


def _check_rule(
    groups: Mapping | None, grouped: bool, intervals: Mapping | None
) -> None:
    """Refuse a way to group that is not one of the two."""
    if grouped != (intervals is not None):
        raise ValueError(
            'intervals and the number that they are about come together, '
            f'got intervals={intervals} and {"a" if grouped else "no"} '
            'number to group by.'
        )
    if intervals is None:
        return
    interval_masks(torch.zeros(0), intervals)  # checks them
    if groups:
        raise ValueError(
            f'groups of bins, {dict(groups)}, and intervals, {intervals}, '
            'cannot both divide the test samples: leave one out.'
        )


def _errors(
    pred: Tensor,
    target: Tensor,
    labels: Tensor,
    masks: Mapping[str, Tensor],
    items: Sequence[str],
) -> dict[str | None, dict[str, float]]:
    """The errors of each group, and under None those of all samples.

    Groups without samples are left out.
    """
    table = {None: regression_errors(pred, target, items, labels)}
    for name, mask in masks.items():
        if mask.any():
            table[name] = regression_errors(
                pred[mask], target[mask], items, labels[mask]
            )
    return table


def _named(
    table: Mapping[str | None, Mapping[str, float]],
) -> dict[str, float]:
    return {
        item if group is None else f'{item}_{group}': value
        for group, errors in table.items()
        for item, value in errors.items()
    }
