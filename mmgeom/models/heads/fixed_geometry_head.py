# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What heads with fixed class vectors have in common."""

from typing import Any

import torch
from mmpretrain.structures import DataSample
from torch import Tensor, nn
from torch.nn import functional as F

from mmgeom.geometry import at_least_float32, unit_vectors
from mmgeom.structures import batch_target

from .feature_expansion import FeatureExpansion
from .prior_head import PriorHead, top_accuracies


class FixedGeometryHead(PriorHead):
    r"""A head that compares a feature with class vectors it does not train.

    The backbone's feature goes through an optional normalisation, an
    optional linear expansion and batch normalisation; the result is what
    ``pre_logits`` returns. ``forward`` returns the scores of the classes,
    cosines for most heads. Everything after the expansion is computed in
    float32 whatever autocast says.

    Predictions carry :math:`\mathrm{softmax}(\gamma s)` as ``pred_score``,
    with :attr:`score_scale` :math:`\gamma` such that a feature whose own
    score is that of the optimum of the training loss, on average over the
    classes, gets the probability 0.99. It is a vector that sums to one and
    keeps the order of the scores, so that the host's metrics, test-time
    augmentation and inferencer work; it is no calibrated probability.

    For diagnostics, ``keep_features`` makes :meth:`loss` leave the features
    of the last batch, detached, in ``kept_feature`` and ``kept_label``.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the backbone's feature.
        dim (int): Width that the class vectors need.
        normalize_input (bool): Normalise the backbone's feature first.
            Defaults to False.
        head_bn (bool): Batch normalisation before the class vectors.
            Defaults to True.
        expand (bool): Put a linear map to ``dim`` in front. Defaults to
            False, which needs ``in_channels == dim``.
        expand_groups (int): Blocks of that map, see
            :class:`FeatureExpansion`. Defaults to 1.
        predict_feature (bool): Store the feature in predictions under
            ``feature``, as diagnostics need it. Defaults to False.
        **kwargs: Arguments of :class:`PriorHead` except ``loss``.

    Raises:
        ValueError: When a ``loss`` is given, which these heads bring
            themselves, or ``expand_groups`` without an expansion.
    """

    #: Probability of the right class at the optimum, see above.
    confidence = 0.99

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        dim: int,
        normalize_input: bool = False,
        head_bn: bool = True,
        expand: bool = False,
        expand_groups: int = 1,
        predict_feature: bool = False,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        if 'loss' in kwargs:
            raise ValueError(
                f'{name} brings its own loss and takes none, got '
                f'{kwargs["loss"]}: in a config that inherits another head '
                'write head=dict(_delete_=True, ...).'
            )
        if expand_groups != 1 and not expand:
            raise ValueError(
                f'expand_groups={expand_groups} divides the linear map that '
                f'widens a feature, but {name} needs none for in_channels='
                f'{in_channels}: leave it out.'
            )
        super().__init__(
            num_classes, in_channels, loss=nn.Identity(), **kwargs
        )
        self.dim = dim
        self.normalize_input = normalize_input
        self.predict_feature = predict_feature
        self.expansion = (
            FeatureExpansion(in_channels, dim, expand_groups)
            if expand
            else nn.Identity()
        )
        self.bn = nn.BatchNorm1d(dim) if head_bn else None
        self.keep_features = False
        self.kept_feature: Tensor | None = None
        self.kept_label: Tensor | None = None

    @property
    def score_scale(self) -> float | Tensor:
        r""":math:`\gamma` of the predicted probabilities."""
        raise NotImplementedError

    def class_scores(self, feature: Tensor) -> Tensor:
        """Scores of all classes.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``.
        """
        raise NotImplementedError

    def feature_loss(
        self, feature: Tensor, target: Tensor, raw: Tensor | None = None
    ) -> dict:
        """Losses of a batch.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, d)``.
            target (Tensor): Classes ``(B,)`` or mixed labels ``(B, K)``.
            raw (Tensor, optional): The feature before batch normalisation.
                Defaults to None, which means ``feature``.

        Returns:
            dict: Losses, and monitored values whose names do not contain
            ``loss``.
        """
        raise NotImplementedError

    def pre_logits(self, feats: tuple[Tensor, ...]) -> Tensor:
        """The feature that is compared with the class vectors.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.

        Returns:
            Tensor: Shape ``(B, d)``, not normalised.
        """
        return self._normalized(self._expanded(feats))

    def _expanded(self, feats: tuple[Tensor, ...]) -> Tensor:
        feature = feats[-1].flatten(1)
        if self.normalize_input:
            feature = unit_vectors(feature)
        return self.expansion(feature)

    def _normalized(self, feature: Tensor) -> Tensor:
        with torch.autocast(feature.device.type, enabled=False):
            feature = at_least_float32(feature)
            bn = self.bn
            # A single sample, such as the rest of an epoch, has no variance:
            # the running statistics stand in for it.
            if self.training and len(feature) == 1 and bn is not None:
                return F.batch_norm(
                    feature,
                    bn.running_mean,
                    bn.running_var,
                    bn.weight,
                    bn.bias,
                    eps=bn.eps,
                )
            return feature if bn is None else bn(feature)

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Scores of the classes.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.

        Returns:
            Tensor: Shape ``(B, K)``.
        """
        feature = self.pre_logits(feats)
        with torch.autocast(feature.device.type, enabled=False):
            return self.class_scores(feature)

    def loss(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample],
        **kwargs: Any,
    ) -> dict:
        """Losses from features and labels.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.
            data_samples (list[DataSample]): With ``gt_label``, or with
                ``gt_score`` if labels were mixed.
            **kwargs: Ignored.

        Returns:
            dict: As :meth:`feature_loss`.
        """
        target = batch_target(data_samples)
        raw = self._expanded(feats)
        feature = self._normalized(raw)
        if self.keep_features:
            self.kept_feature = feature.detach()
            self.kept_label = target if target.ndim == 1 else None
        with torch.autocast(feature.device.type, enabled=False):
            losses = self.feature_loss(feature, target, raw)
        if self.cal_acc:
            losses.update(self._accuracy(feature, target))
        return losses

    def predict(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample | None] | None = None,
    ) -> list[DataSample]:
        """Predict without augmentation.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.
            data_samples (list[DataSample | None], optional): Filled in.
                Defaults to None, which means new ones.

        Returns:
            list[DataSample]: With ``pred_score`` and ``pred_label``.
        """
        feature = self.pre_logits(feats)
        with torch.autocast(feature.device.type, enabled=False):
            scores = self.class_scores(feature)
        predictions = self._get_predictions(
            scores * self.score_scale, data_samples
        )
        if self.predict_feature:
            for sample, row in zip(predictions, feature):
                sample.set_field(row, 'feature')
        return predictions

    def _accuracy(self, feature: Tensor, target: Tensor) -> dict:
        with torch.no_grad():
            scores = self.class_scores(feature)
        return top_accuracies(scores, target, self.topk)
