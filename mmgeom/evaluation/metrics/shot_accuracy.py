# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.evaluation.functional import (
    checked_target,
    class_accuracy,
    class_mean_accuracy,
    predicted_labels,
    shot_masks,
    to_tensor,
)
from mmgeom.registry import METRICS

from .shot_metric import ShotMetric, single_labels, stacked_scores


@METRICS.register_module()
class ShotAccuracy(ShotMetric):
    r"""Top-1 accuracy overall, by class, and of each shot group.

    With :math:`a_k` the accuracy on the test samples of class :math:`k` and
    :math:`\mathcal{T}` the classes that have test samples,

    .. math::
        \mathrm{accuracy}_g = \frac{1}{|\mathcal{G}_g \cap \mathcal{T}|}
        \sum_{k \in \mathcal{G}_g \cap \mathcal{T}} a_k

    for each shot group :math:`\mathcal{G}_g` of the *training* counts.
    Values, in percent:

    - ``accuracy``: share of correct test samples;
    - ``accuracy_class_mean``: unweighted mean of the :math:`a_k`;
    - ``accuracy_many``, ``accuracy_medium``, ``accuracy_few``, or the names
      of the group rule. A group without test samples is left out;
    - ``accuracy_class_007`` with ``per_class``: :math:`a_7`, padded with
      zeros so that names sort in the order of the classes.

    The names hold ``acc``, from which ``save_best`` and early stopping know
    that greater is better.

    Args:
        groups (dict, optional): Rule of the shot groups, the arguments of
            :meth:`mmgeom.distribution.LabelDistribution.groups`. Defaults
            to None, which means
            ``dict(by='count', many=100, few=20)``: more than 100, 20 to
            100, and fewer than 20 training samples.
        per_class (bool): Report the accuracy of each class that has test
            samples too. Defaults to False.
        collect_device (str): Where results of several ranks are collected,
            ``'cpu'`` or ``'gpu'``. Defaults to ``'cpu'``.
        prefix (str, optional): Put before the names of the values. Defaults
            to None, which means ``'shot'``.

    Examples:
        >>> from mmgeom.distribution import LabelDistribution
        >>> from mmgeom.evaluation import ShotAccuracy
        >>> training = LabelDistribution([500, 50, 5])
        >>> ShotAccuracy.calculate([0, 0, 1, 0], [0, 0, 1, 2], training)
        ... # doctest: +NORMALIZE_WHITESPACE
        {'accuracy': 75.0, 'accuracy_class_mean': 66.66666666666667,
         'accuracy_many': 100.0, 'accuracy_medium': 100.0,
         'accuracy_few': 0.0}
    """

    default_prefix = 'shot'

    def __init__(
        self,
        groups: dict | None = None,
        per_class: bool = False,
        collect_device: str = 'cpu',
        prefix: str | None = None,
    ) -> None:
        super().__init__(groups, collect_device, prefix)
        self.per_class = per_class

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the predicted and the true label of each sample.

        Args:
            data_batch (Any): Not used.
            data_samples (Sequence[dict]): Model outputs with ``gt_label``
                and ``pred_label``, or else ``pred_score``.

        Raises:
            ValueError: When a sample lacks them or has several labels.
        """
        target = single_labels(data_samples, 'gt_label')
        if all('pred_label' in sample for sample in data_samples):
            pred = single_labels(data_samples, 'pred_label')
        else:
            pred = stacked_scores(data_samples).argmax(dim=1)
        # One entry for each sample, since collecting cuts off the padding.
        self.results += list(zip(pred.tolist(), target.tolist(), strict=True))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute and log the values; runs on rank 0 only.

        Args:
            results (list): A predicted and a true label for each sample.

        Returns:
            dict[str, float]: The values in percent.

        Raises:
            ValueError: When there are no results, or a test label lies
                outside the classes of the training data.
        """
        pred, target = torch.tensor(results).long().reshape(-1, 2).T
        metrics = self.calculate(
            pred,
            target,
            self.label_distribution,
            self._shot_rule,
            self.per_class,
        )
        self._warn_without_distribution()
        overall = {
            'overall': metrics['accuracy'],
            'class mean': metrics['accuracy_class_mean'],
        }
        names = {key.removeprefix('accuracy_'): key for key in metrics}
        group_values = {name: metrics[key] for name, key in names.items()}
        self._log_table('accuracy', overall, group_values, target)
        return metrics

    @staticmethod
    def calculate(
        pred: Tensor | np.ndarray | Sequence,
        target: Tensor | np.ndarray | Sequence,
        distribution: LabelDistribution | None = None,
        groups: Mapping[str, Any] | None = None,
        per_class: bool = False,
    ) -> dict[str, float]:
        """Compute the values without a runner.

        Args:
            pred (Tensor | np.ndarray | Sequence): Predicted labels, shape
                ``(N,)``, or scores, shape ``(N, K)``.
            target (Tensor | np.ndarray | Sequence): True labels, ``(N,)``.
            distribution (LabelDistribution, optional): Of the training
                data. Defaults to None: no groups.
            groups (Mapping[str, Any], optional): Arguments of
                :meth:`LabelDistribution.groups`. Defaults to None: more
                than 100, 20 to 100, fewer than 20 training samples.
            per_class (bool): Add the accuracy of each class. Defaults to
                False.

        Returns:
            dict[str, float]: The values in percent, without prefix.

        Raises:
            ValueError: When there is no sample, shapes do not fit, or a
                label lies outside the classes.
        """
        num_classes = None if distribution is None else len(distribution)
        pred = to_tensor(pred)
        if pred.ndim == 2 and num_classes not in (None, pred.shape[1]):
            raise ValueError(
                f'scores of {pred.shape[1]} classes do not fit training '
                f'data of {num_classes} classes: use the model and the '
                'training data of one config.'
            )
        label = predicted_labels(pred)
        target = checked_target(target, len(label), num_classes)
        correct = label == target
        metrics = {
            'accuracy': 100 * correct.double().mean().item(),
            'accuracy_class_mean': class_mean_accuracy(correct, target),
        }
        for name, mask in shot_masks(target, distribution, groups).items():
            if mask.any():
                metrics[f'accuracy_{name}'] = class_mean_accuracy(
                    correct[mask], target[mask]
                )
        if per_class:
            metrics.update(_by_class(correct, target, num_classes))
        return metrics


def _by_class(
    correct: Tensor, target: Tensor, num_classes: int | None
) -> dict[str, float]:
    """Accuracies under names that sort in the order of the classes."""
    width = len(str((num_classes or int(target.max()) + 1) - 1))
    classes, accuracy = class_accuracy(correct, target)
    return {
        f'accuracy_class_{label:0{width}d}': value
        for label, value in zip(
            classes.tolist(), accuracy.tolist(), strict=True
        )
    }
