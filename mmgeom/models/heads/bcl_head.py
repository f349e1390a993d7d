# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Balanced contrastive learning."""

from typing import Any

import torch
from torch import Tensor

from mmgeom.geometry import supervised_contrastive_loss
from mmgeom.registry import MODELS

from .contrastive_head import ContrastiveHead
from .projector import Projector
from .supcon_head import check_temperature


@MODELS.register_module()
class BCLHead(ContrastiveHead):
    r"""Balanced contrastive learning: class averages and class complements.

    .. math::
        \ell_i = -\frac{1}{|P_i|} \sum_{p \in P_i} \log
        \frac{\exp(z_i \cdot z_p / \tau)}{\sum_k \frac{1}{|B_k|}
        \sum_{q \in B_k} \exp(z_i \cdot z_q / \tau)}

    :math:`B_k` holds the features of class k in the batch, without the
    anchor, and the class's prototype :math:`c_k`, the projected class vector
    of the classifier. Each class thus counts once, and is there in every
    batch. The prototypes have a projector of their own, of the form of the
    features'.

    Source: *Balanced Contrastive Learning for Long-Tailed Visual
    Recognition* (CVPR 2022), Eq. 5 to 8. It is trained with
    :math:`\lambda_x = 2`, :math:`\lambda_c = 0.6` and :math:`\tau = 0.1` on
    CIFAR, with 1, 0.35 and 0.07 on ImageNet-LT and iNaturalist.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the feature.
        temperature (float): :math:`\tau`, positive. Defaults to 0.1.
        hidden_channels (int): Hidden width of both projectors. Defaults to
            512.
        out_channels (int): Dimension h of the sphere's space. Defaults to
            128.
        projector_norm (bool): Batch normalisation in both projectors.
            Defaults to True.
        **kwargs: Arguments of
            :class:`~mmgeom.models.heads.ContrastiveHead`. The classifier
            must have ``class_vectors``, as those of this package have.

    Raises:
        ValueError: When an argument is out of its range.
        TypeError: When the classifier has no class vectors.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        temperature: float = 0.1,
        hidden_channels: int = 512,
        out_channels: int = 128,
        projector_norm: bool = True,
        **kwargs: Any,
    ) -> None:
        check_temperature('temperature', temperature)
        widths = (hidden_channels, out_channels, projector_norm)
        super().__init__(
            num_classes,
            in_channels,
            hidden_channels=hidden_channels,
            out_channels=out_channels,
            projector_norm=projector_norm,
            **kwargs,
        )
        if not hasattr(self.classifier, 'class_vectors'):
            raise TypeError(
                f'{type(self.classifier).__name__} has no class vectors to '
                'make prototypes of: use mmgeom.CosineHead or '
                'mmgeom.LinearHead as classifier.'
            )
        self.temperature = temperature
        self.prototype_projector = Projector(in_channels, *widths)
        self.prototype_projector.requires_grad_(self.lambda_c > 0)

    def contrast(self, features: Tensor, labels: Tensor) -> dict:
        """Contrast features and prototypes; as the base class says."""
        prototypes = self.prototype_projector(self.classifier.class_vectors)
        loss = supervised_contrastive_loss(
            features,
            labels,
            self.temperature,
            extra_keys=prototypes,
            extra_labels=torch.arange(self.num_classes, device=labels.device),
            form='class_averaged',
            implementation=self.implementation,
            across_ranks=True,
        )
        return dict(loss_contrast=loss)
