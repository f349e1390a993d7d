# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A cosine classifier."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from mmgeom.geometry.precision import unit_vectors
from mmgeom.registry import MODELS

from .prior_head import PriorHead


@MODELS.register_module()
class CosineHead(PriorHead):
    r"""Cosine classifier: scaled cosines of feature and class vectors.

    .. math:: s_k = \gamma \, \frac{w_k^\top h}{\|w_k\| \, \|h\|}

    Neither norm can favour the head classes. The feature that
    ``pre_logits`` returns is the backbone's, before normalisation; the
    cosines are computed in fp32.

    Args:
        num_classes (int): K, positive.
        in_channels (int): Width of the feature, positive.
        scale (float): :math:`\gamma`, positive. Defaults to 30.0, as in the
            long-tail literature (LDAM, BCL).
        learn_scale (bool): Train the scale, as its logarithm. Defaults to
            False.
        init_cfg (dict, optional): Initialisation of modules. Defaults to
            None: the class vectors are drawn uniformly from the sphere.
        **kwargs: Arguments of :class:`PriorHead`.

    Raises:
        ValueError: When the scale is not positive.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        scale: float = 30.0,
        learn_scale: bool = False,
        init_cfg: dict | None = None,
        **kwargs: Any,
    ) -> None:
        if not scale > 0:
            raise ValueError(f'scale must be positive, got {scale}.')
        super().__init__(num_classes, in_channels, init_cfg=init_cfg, **kwargs)
        self.weight = nn.Parameter(torch.empty(num_classes, in_channels))
        log_scale = torch.tensor(math.log(scale))
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer('log_scale', log_scale)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the class vectors uniformly from the unit sphere."""
        nn.init.normal_(self.weight)
        with torch.no_grad():
            self.weight.copy_(unit_vectors(self.weight))

    @property
    def class_vectors(self) -> Tensor:
        """The weights :math:`w_k`, shape ``(K, C)``."""
        return self.weight

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Scaled cosines.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(N, C)``.

        Returns:
            Tensor: Shape ``(N, K)``, float32.
        """
        feature = self.pre_logits(feats)
        with torch.autocast(feature.device.type, enabled=False):
            cosines = unit_vectors(feature) @ unit_vectors(self.weight).T
            return self.log_scale.exp() * cosines
