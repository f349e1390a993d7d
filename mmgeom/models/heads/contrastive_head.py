# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What heads with a classifier and a contrastive branch have in common."""

from typing import Any

import torch
from mmengine.model import BaseModule
from mmpretrain.structures import DataSample
from torch import Tensor

from mmgeom.registry import MODELS
from mmgeom.structures import field_names, stacked_labels

from .projector import Projector


class ContrastiveHead(BaseModule):
    r"""A classifier and a projector that are trained side by side.

    .. math:: L = \lambda_x L_x + \lambda_c L_{SC}

    The first view of each image trains the classifier, the other two, on the
    unit sphere behind the projector, are contrasted. Only the classifier is
    used for prediction. Needs ``mmgeom.MultiViewClassifier``, which hands
    over the features of all views as one tensor.

    :math:`L_x` is cross-entropy on logits compensated by the class priors,
    :math:`s_k + \tau \log \pi_k`
    (:class:`~mmgeom.models.losses.LogitAdjustedLoss`).

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the feature, positive.
        classifier (dict): Config of the classification head, to which
            ``num_classes`` and ``in_channels`` are added. Defaults to
            ``dict(type='mmgeom.CosineHead')``, as in BCL;
            ``dict(type='mmgeom.LinearHead')`` is the other usual choice.
        hidden_channels (int): Hidden width of the projector. Defaults to
            512.
        out_channels (int): Dimension h of the sphere's space. Defaults to
            128.
        projector_norm (bool): Batch normalisation in the projector. Defaults
            to True.
        lambda_x (float): :math:`\lambda_x`, not negative. Defaults to 2.0.
        lambda_c (float): :math:`\lambda_c`, not negative; 0 leaves the
            contrast out. Defaults to 0.6.
        logit_comp_tau (float | None): :math:`\tau` of the compensation, not
            negative; 0 is plain cross-entropy. None keeps the loss that
            ``classifier`` states. Defaults to 1.0.
        implementation (str): Of the contrastive loss, ``'auto'``,
            ``'dense'`` or ``'tiled'``. Defaults to ``'auto'``.
        init_cfg (dict, optional): Initialisation. Defaults to None.

    Raises:
        ValueError: When an argument is out of its range.
    """

    #: Views of an image that a training step needs.
    num_views = 3

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        classifier: dict = dict(type='mmgeom.CosineHead'),
        hidden_channels: int = 512,
        out_channels: int = 128,
        projector_norm: bool = True,
        lambda_x: float = 2.0,
        lambda_c: float = 0.6,
        logit_comp_tau: float | None = 1.0,
        implementation: str = 'auto',
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg=init_cfg)
        if num_classes < 2:
            raise ValueError(
                'contrasting classes needs at least 2 of them, got '
                f'num_classes={num_classes}.'
            )
        for name, value in (('lambda_x', lambda_x), ('lambda_c', lambda_c)):
            if not value >= 0:
                raise ValueError(f'{name} must not be negative, got {value}.')
        if implementation not in ('auto', 'dense', 'tiled'):
            raise ValueError(
                "implementation must be 'auto', 'dense' or 'tiled', got "
                f'{implementation!r}.'
            )
        self.num_classes = num_classes
        self.in_channels = in_channels
        self.lambda_x = lambda_x
        self.lambda_c = lambda_c
        self.implementation = implementation
        self.classifier = MODELS.build(
            _classifier(classifier, num_classes, in_channels, logit_comp_tau)
        )
        self.projector = Projector(
            in_channels, hidden_channels, out_channels, projector_norm
        )
        # Several processes wait for the gradients of all that may have one.
        self.projector.requires_grad_(lambda_c > 0)

    def contrast(self, features: Tensor, labels: Tensor) -> dict:
        """Contrastive loss, and monitored values.

        Args:
            features (Tensor): Unit rows, all first views of a batch and then
                all second ones, shape ``(2 B, h)``.
            labels (Tensor): Their classes, int64, shape ``(2 B,)``.

        Returns:
            dict: ``loss_contrast``, not weighted, and monitored values whose
            names do not contain ``loss``.
        """
        raise NotImplementedError

    def pre_logits(self, feats: tuple[Tensor, ...]) -> Tensor:
        """The feature that is classified and projected.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(N, C)``.

        Returns:
            Tensor: Shape ``(N, C)``.
        """
        return self.classifier.pre_logits(feats)

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Logits of the classifier.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(N, C)``.

        Returns:
            Tensor: Shape ``(N, K)``.
        """
        return self.classifier(feats)

    def loss(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample],
        **kwargs: Any,
    ) -> dict:
        """Losses of a batch of three views.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(3 B, C)``:
                the first view of all samples, then the second, then the
                third.
            data_samples (list[DataSample]): B samples with ``gt_label``.
            **kwargs: Ignored.

        Returns:
            dict: ``loss_classification`` and ``loss_contrast``, weighted,
            and monitored values.

        Raises:
            ValueError: When the number of views or the width of the features
                is another, or labels are mixed.
        """
        number = len(data_samples)
        feature = feats[-1].flatten(1)
        if len(feature) != self.num_views * number:
            raise ValueError(
                f'{type(self).__name__} needs {self.num_views} views of each '
                f'image, got {len(feature)} features of {number} images: use '
                'mmgeom.MultiViewClassifier with a multi-view pipeline.'
            )
        if feature.shape[1] != self.in_channels:
            raise ValueError(
                f'the features have width {feature.shape[1]}, but '
                f'{type(self).__name__} has in_channels={self.in_channels}: '
                f'set in_channels={feature.shape[1]}.'
            )
        labels = hard_labels(data_samples)
        losses = self._classification(feature[:number], data_samples)
        if self.lambda_c:
            projected = self.projector(feature[number:])
            with torch.autocast(feature.device.type, enabled=False):
                values = self.contrast(projected, labels.repeat(2))
            values['loss_contrast'] = values['loss_contrast'] * self.lambda_c
            losses.update(values)
        return losses

    def predict(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample | None] | None = None,
    ) -> list[DataSample]:
        """Predictions of the classifier.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(N, C)``.
            data_samples (list[DataSample | None], optional): Filled in.
                Defaults to None, which means new ones.

        Returns:
            list[DataSample]: With ``pred_score`` and ``pred_label``.
        """
        return self.classifier.predict(feats, data_samples)

    def _classification(
        self, feature: Tensor, data_samples: list[DataSample]
    ) -> dict:
        losses = self.classifier.loss((feature,), data_samples)
        losses['loss_classification'] = losses.pop('loss') * self.lambda_x
        return losses


def hard_labels(data_samples: list[DataSample]) -> Tensor:
    """Classes of a batch.

    Args:
        data_samples (list[DataSample]): With ``gt_label``.

    Returns:
        Tensor: int64, shape ``(B,)``.

    Raises:
        ValueError: When labels are missing, several, or mixed.
    """
    names = field_names(data_samples)
    if 'gt_score' in names:
        raise ValueError(
            'contrastive losses need one class for each image, but the data '
            'samples have soft labels (gt_score): leave out Mixup, CutMix '
            'and to_onehot.'
        )
    if 'gt_label' not in names:
        raise ValueError(
            "the data samples have no 'gt_label', only "
            f'{sorted(names)}: keep PackInputs last in the pipeline '
            'of a labelled data set.'
        )
    labels = stacked_labels(data_samples)
    if len(labels) != len(data_samples):
        raise ValueError(
            f'{len(data_samples)} images have {len(labels)} labels: '
            'contrastive losses need one class for each image.'
        )
    return labels


def _classifier(
    config: dict, num_classes: int, in_channels: int, tau: float | None
) -> dict:
    """The config of the classification head, completed."""
    sizes = dict(num_classes=num_classes, in_channels=in_channels)
    for name, value in sizes.items():
        if config.get(name, value) != value:
            raise ValueError(
                f'the head has {name}={value} but its classifier has '
                f'{name}={config[name]}: leave it out of the classifier.'
            )
    if tau is None:
        return {**config, **sizes}
    if 'loss' in config:
        raise ValueError(
            'the classifier states a loss although logit_comp_tau='
            f'{tau} sets one: leave out the loss, or set '
            'logit_comp_tau=None to keep it.'
        )
    loss = dict(type='mmgeom.LogitAdjustedLoss', tau=tau)
    return {**config, **sizes, 'loss': loss}
