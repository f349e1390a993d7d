# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation.functional import (
    calibration_error,
    checked_target,
    shot_masks,
    to_tensor,
    top_label,
)
from mmgeom.registry import METRICS

from .shot_metric import ShotMetric, single_labels, stacked_scores

#: What the field calls the error of each norm.
NAMES = {'l1': 'ece', 'l2': 'rmsce', 'max': 'mce'}


@METRICS.register_module()
class CalibrationError(ShotMetric):
    r"""Calibration error overall and of each shot group, in percent.

    .. math::
        \mathrm{ECE} = \sum_{b=1}^{B} \frac{|B_b|}{N}
        \left| \mathrm{acc}(B_b) - \mathrm{conf}(B_b) \right|

    over equally wide bins of the probability of the predicted class; see
    *On Calibration of Modern Neural Networks* (ICML 2017). The value of a
    group is over the test samples whose true class is in the group. Names:
    ``ece``, ``ece_many``, ``ece_medium``, ``ece_few`` (or the names of the
    group rule); a group without test samples is left out. With
    ``norm='l2'`` they start with ``rmsce``, with ``'max'`` with ``mce``.

    Smaller is better, which ``save_best`` must be told by ``rule='less'``.

    Args:
        num_bins (int): Number of bins. Defaults to 15.
        norm (str): ``'l1'`` (expected), ``'l2'`` (root mean square) or
            ``'max'`` (maximum calibration error). Defaults to ``'l1'``.
        groups (dict, optional): Rule of the shot groups, the arguments of
            :meth:`mmgeom.distribution.LabelDistribution.groups`. Defaults
            to None, which means
            ``dict(by='count', many=100, few=20)``: more than 100, 20 to
            100, and fewer than 20 training samples.
        collect_device (str): Where results of several ranks are collected,
            ``'cpu'`` or ``'gpu'``. Defaults to ``'cpu'``.
        prefix (str, optional): Put before the names of the values. Defaults
            to None, which means ``'calibration'``.

    Raises:
        ValueError: When ``num_bins`` or ``norm`` is not as described.

    Examples:
        >>> from mmgeom.evaluation import CalibrationError
        >>> scores = [[0.75, 0.25], [0.25, 0.75]]
        >>> CalibrationError.calculate(scores, [0, 1])
        {'ece': 25.0}
    """

    default_prefix = 'calibration'

    def __init__(
        self,
        num_bins: int = 15,
        norm: str = 'l1',
        groups: dict | None = None,
        collect_device: str = 'cpu',
        prefix: str | None = None,
    ) -> None:
        _check_arguments(num_bins, norm)
        super().__init__(groups, collect_device, prefix)
        self.num_bins = num_bins
        self.norm = norm

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep confidence, predicted and true label of each sample.

        Args:
            data_batch (Any): Not used.
            data_samples (Sequence[dict]): Model outputs with ``gt_label``
                and ``pred_score``.

        Raises:
            ValueError: When a sample lacks them, has several labels, or its
                scores are no probabilities.
        """
        target = single_labels(data_samples, 'gt_label')
        confidence, pred = top_label(stacked_scores(data_samples))
        # One entry for each sample, since collecting cuts off the padding.
        self.results += list(
            zip(
                confidence.tolist(),
                pred.tolist(),
                target.tolist(),
                strict=True,
            )
        )

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute and log the values; runs on rank 0 only.

        Args:
            results (list): A confidence, a predicted and a true label for
                each sample.

        Returns:
            dict[str, float]: The values in percent.

        Raises:
            ValueError: When there are no results, or a test label lies
                outside the classes of the training data.
        """
        columns = list(zip(*results, strict=True)) or [(), (), ()]
        confidence = torch.tensor(columns[0], dtype=torch.float32)
        pred = torch.tensor(columns[1], dtype=torch.int64)
        distribution = self.label_distribution
        target = checked_target(
            columns[2],
            len(pred),
            None if distribution is None else len(distribution),
        )
        masks = shot_masks(target, distribution, self._shot_rule)
        metrics = _errors(
            confidence, pred == target, masks, self.num_bins, self.norm
        )
        self._warn_without_distribution()
        name = NAMES[self.norm]
        groups = {
            key.removeprefix(f'{name}_'): value
            for key, value in metrics.items()
        }
        self._log_table(name, {'overall': metrics[name]}, groups, target)
        return metrics

    @staticmethod
    def calculate(
        pred: Tensor | np.ndarray | Sequence,
        target: Tensor | np.ndarray | Sequence,
        distribution: LabelDistribution | None = None,
        groups: Mapping[str, Any] | None = None,
        num_bins: int = 15,
        norm: str = 'l1',
    ) -> dict[str, float]:
        """Compute the values without a runner.

        Args:
            pred (Tensor | np.ndarray | Sequence): Probabilities, shape
                ``(N, K)``.
            target (Tensor | np.ndarray | Sequence): True labels, ``(N,)``.
            distribution (LabelDistribution, optional): Of the training
                data. Defaults to None: no groups.
            groups (Mapping[str, Any], optional): Arguments of
                :meth:`LabelDistribution.groups`. Defaults to None: more
                than 100, 20 to 100, fewer than 20 training samples.
            num_bins (int): Number of bins. Defaults to 15.
            norm (str): ``'l1'``, ``'l2'`` or ``'max'``. Defaults to
                ``'l1'``.

        Returns:
            dict[str, float]: The values in percent, without prefix.

        Raises:
            ValueError: When there is no sample, shapes do not fit, a row is
                no probability distribution, or a label lies outside the
                classes.
        """
        _check_arguments(num_bins, norm)
        pred = to_tensor(pred)
        confidence, label = top_label(pred)
        num_classes = pred.shape[1]
        if distribution is not None and len(distribution) != num_classes:
            raise ValueError(
                f'scores of {num_classes} classes do not fit training data '
                f'of {len(distribution)} classes: use the model and the '
                'training data of one config.'
            )
        target = checked_target(target, len(pred), num_classes)
        masks = shot_masks(target, distribution, groups)
        return _errors(confidence, label == target, masks, num_bins, norm)


def _check_arguments(num_bins: int, norm: str) -> None:
    if not isinstance(num_bins, int) or num_bins < 1:
        raise ValueError(
            f'num_bins must be a positive whole number, got {num_bins}.'
        )
    if norm not in NAMES:
        raise ValueError(f"norm {norm!r} is unknown: use 'l1', 'l2' or 'max'.")


def _errors(
    confidence: Tensor,
    correct: Tensor,
    masks: Mapping[str, Tensor],
    num_bins: int,
    norm: str,
) -> dict[str, float]:
    name = NAMES[norm]
    errors = {name: calibration_error(confidence, correct, num_bins, norm)}
    for group, mask in masks.items():
        if mask.any():
            errors[f'{name}_{group}'] = calibration_error(
                confidence[mask], correct[mask], num_bins, norm
            )
    return errors
