# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor

from mmgeom.evaluation.functional import checked_target, to_tensor
from mmgeom.geometry.class_means import TARGETS
from mmgeom.geometry.collapse import second_pass
from mmgeom.geometry.collapse_statistics import CollapseStatistics
from mmgeom.geometry.frames import MultiCenterFrame
from mmgeom.registry import METRICS

from .shot_metric import single_labels, stacked_scores

#: Features that are widened to float64 at once.
BATCH_SIZE = 1024


@METRICS.register_module()
class NeuralCollapse(BaseMetric):
    r"""How far the features of a dataset have collapsed.

    Over the evaluated samples, in float64, classes without samples left out:

    - ``nc1``: variability within the classes relative to that between them,
      :math:`\operatorname{tr}(\Sigma_W \Sigma_B^\dagger) / K`;
    - ``nc2``: distance of the class means from a simplex, or from an
      orthogonal frame for heads with several centres a class;
    - ``nc3``: distance of class means and class vectors;
    - ``nc4``: share of samples on which the prediction differs from the
      class of the nearest class mean;
    - ``center_distance_mean``, ``center_distance_std``: squared distance of
      normalised features from the normalised mean centre of their class;
      ``center_element_mean``, ``center_element_std``: of the elements of
      the difference;
    - ``variability``: mean of :math:`1 - \cos(h_i, w_{y_i})`;
    - with ``cosines``, mean and standard deviation of the cosines of
      different class means (``cos_hh``), of different class vectors
      (``cos_ww``), of means and vectors of different classes (``cos_hw``)
      and of the same class (``cos_own``).

    Formulas and sources: :mod:`mmgeom.geometry.collapse` and
    :mod:`mmgeom.geometry.collapse_centers`. Values that need class vectors
    or mean centres appear when the head tells them, which it does through
    :class:`mmgeom.engine.hooks.CollapseMonitorHook`. What is not defined,
    such as ``nc1`` of a single class, is left out.

    The head must put its features into the predictions, with
    ``predict_feature=True``. They are collected in float32 in main memory,
    ``4 d`` bytes a sample: 0.4 GB for 50 000 samples of width 2048, and on
    rank 0 those of all ranks.

    ``nc1``, ``nc2``, ``nc4`` and the center distance tend to 0 with the
    collapse. With several centres a class the others have limits of their
    own: ``variability`` :math:`1 - \cos\rho` and ``nc3``
    :math:`\sqrt{2 (1 - \cos\rho)}`, of the angle between mean centre and
    class direction. mmengine cannot infer a rule for these names:
    ``save_best`` needs ``rule='less'``.

    Args:
        target (str, optional): Geometry of the class means, ``'simplex'`` or
            ``'orthogonal'``. Defaults to None: what the head says, else
            orthogonal when it has mean centres, else a simplex.
        cosines (bool): Report the statistics of cosines. Defaults to False.
        collect_device (str): Where results of several ranks are collected,
            ``'cpu'`` or ``'gpu'``. Defaults to ``'cpu'``.
        prefix (str, optional): Put before the names of the values. Defaults
            to None, which means ``'collapse'``.

    Raises:
        ValueError: When the target is unknown.

    Examples:
        >>> from mmgeom.evaluation import NeuralCollapse
        >>> features = [[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
        >>> NeuralCollapse.calculate(features, [0, 0, 1])
        ... # doctest: +ELLIPSIS
        {'nc1': 0.083333..., 'nc2': 0.0}
    """

    default_prefix = 'collapse'

    def __init__(
        self,
        target: str | None = None,
        cosines: bool = False,
        collect_device: str = 'cpu',
        prefix: str | None = None,
    ) -> None:
        if target not in (None, *TARGETS):
            raise ValueError(
                f'target must be one of {list(TARGETS)} or None, got '
                f'{target!r}.'
            )
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.target = target
        self.cosines = cosines
        self._collapse_targets: Callable[[], dict | None] = dict

    def set_collapse_targets(self, targets: Callable[[], dict | None]) -> None:
        """Take the method of a head that tells what its features aim at.

        It is called when the values are computed, so that it sees the
        weights that were evaluated.

        Args:
            targets (Callable[[], dict | None]): Returns a dict with
                ``directions`` and ``mean_centers``, ``(K, d)`` or None each,
                and perhaps ``target``.
        """
        self._collapse_targets = targets

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep feature, true and predicted label of each sample.

        Args:
            data_batch (Any): Not used.
            data_samples (Sequence[dict]): Model outputs with ``feature`` and
                ``gt_label``, and for NC4 ``pred_label`` or ``pred_score``.

        Raises:
            ValueError: When a sample lacks feature or label.
        """
        target = single_labels(data_samples, 'gt_label').cpu().numpy()
        feature = stacked_features(data_samples).float().cpu().numpy()
        pred = _predictions(data_samples)
        # One entry for each sample, since collecting cuts off the padding;
        # arrays, since a row of a tensor is pickled with all of its batch.
        self.results += list(zip(feature, target, pred, strict=True))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute the values; runs on rank 0 only.

        Args:
            results (list): Feature, true and predicted label of each sample.

        Returns:
            dict[str, float]: The values.

        Raises:
            ValueError: When there are no results, a feature is not finite,
                or the head's vectors do not fit.
        """
        labels = checked_target([row[1] for row in results], len(results))
        columns = 3 if all(row[2] >= 0 for row in results) else 2

        def batches() -> Iterator[list[Tensor]]:
            for start in range(0, len(results), BATCH_SIZE):
                rows = zip(*results[start : start + BATCH_SIZE])
                parts = [torch.from_numpy(np.stack(part)) for part in rows]
                yield parts[:columns]

        return _evaluate(
            batches,
            labels,
            self._collapse_targets() or {},
            self.target,
            self.cosines,
        )

    @staticmethod
    def calculate(
        features: Tensor | np.ndarray | Sequence,
        labels: Tensor | np.ndarray | Sequence,
        weight: Tensor | np.ndarray | Sequence | None = None,
        frame: MultiCenterFrame | None = None,
        scores: Tensor | np.ndarray | Sequence | None = None,
        target: str | None = None,
        cosines: bool = False,
    ) -> dict[str, float]:
        """Compute the values without a runner.

        Args:
            features (Tensor | np.ndarray | Sequence): What the classifier
                sees, shape ``(N, d)``.
            labels (Tensor | np.ndarray | Sequence): True classes, ``(N,)``.
            weight (Tensor | np.ndarray | Sequence, optional): Class vectors
                of a classifier, shape ``(K, d)``, for NC3 and variability.
                Defaults to None.
            frame (MultiCenterFrame, optional): Frame of a multi-centre
                classifier, which gives class vectors, mean centres and
                scores. Defaults to None.
            scores (Tensor | np.ndarray | Sequence, optional): Scores ``(N,
                K)`` or predicted classes ``(N,)``, for NC4. Defaults to
                None: those of the frame, if any.
            target (str, optional): ``'simplex'`` or ``'orthogonal'``.
                Defaults to None: orthogonal with a frame, else a simplex.
            cosines (bool): Add the statistics of cosines. Defaults to False.

        Returns:
            dict[str, float]: The values, without prefix.

        Raises:
            ValueError: When there is no sample, shapes do not fit, a feature
                is not finite, or both weight and frame are given.
        """
        if weight is not None and frame is not None:
            raise ValueError(
                'give the weight of a classifier or the frame of a '
                'multi-centre classifier, got both.'
            )
        features = to_tensor(features)
        labels = checked_target(labels, len(features))
        targets = {'directions': None if weight is None else to_tensor(weight)}
        if frame is not None:
            if features.shape[-1] != frame.dim:
                raise ValueError(
                    f'features of width {features.shape[-1]} do not fit a '
                    f'frame of dimension {frame.dim}.'
                )
            targets['directions'], _ = frame.dense_basis()
            targets['mean_centers'] = frame.mean_centers()
            if scores is None:
                scores = frame.class_scores(features.to(frame.centers.device))
        columns = [features, labels]
        if scores is not None:
            columns.append(to_tensor(scores))
            if len(columns[-1]) != len(features):
                raise ValueError(
                    f'{len(columns[-1])} scores do not fit {len(features)} '
                    'features: give one row for each.'
                )

        def batches() -> Iterator[tuple[Tensor, ...]]:
            return zip(*(column.split(BATCH_SIZE) for column in columns))

        return _evaluate(batches, labels, targets, target, cosines)


def stacked_features(data_samples: Sequence[dict]) -> Tensor:
    """Features of a batch.

    Args:
        data_samples (Sequence[dict]): Model outputs with ``feature``.

    Returns:
        Tensor: Shape ``(B, d)``, on the device of the samples.

    Raises:
        ValueError: When a sample has no feature, or it is no vector.
    """
    for sample in data_samples:
        feature = sample.get('feature')
        if feature is None:
            raise ValueError(
                "a data sample has no 'feature', only "
                f'{sorted(sample)}: set predict_feature=True of a head with '
                'fixed geometry, or call NeuralCollapse.calculate() with '
                'features of your own.'
            )
        if feature.ndim != 1:
            raise ValueError(
                'the feature of a sample must be a vector (d,), got shape '
                f'{tuple(feature.shape)}.'
            )
    return torch.stack([sample['feature'] for sample in data_samples])


def _predictions(data_samples: Sequence[dict]) -> np.ndarray:
    """Predicted labels, -1 where there are none."""
    if all('pred_label' in sample for sample in data_samples):
        return single_labels(data_samples, 'pred_label').cpu().numpy()
    if all('pred_score' in sample for sample in data_samples):
        return stacked_scores(data_samples).argmax(1).cpu().numpy()
    return np.full(len(data_samples), -1)


def _evaluate(
    batches: Callable[[], Iterator[Sequence[Tensor]]],
    labels: Tensor,
    targets: Mapping[str, Any],
    target: str | None,
    cosines: bool,
) -> dict[str, float]:
    """Two passes over batches: sums first, then what needs the means."""
    directions, centers = (
        targets.get('directions'),
        targets.get('mean_centers'),
    )
    known = [
        vectors for vectors in (directions, centers) if vectors is not None
    ]
    num_classes = len(known[0]) if known else int(labels.max()) + 1
    width = next(batches())[0].shape[-1]
    statistics = CollapseStatistics(
        num_classes, width, centers, max_scatter_dim=0
    )
    for feature, label, *_ in batches():
        statistics.update(feature, label)
    result = second_pass(statistics.class_means(), batches())
    target = target or targets.get('target')
    result |= statistics.metrics(directions, target, cosines)
    return dict(sorted(result.items()))
