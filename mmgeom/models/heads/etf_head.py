# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Fixed simplex classifier."""

import logging
import math
from typing import Any

import torch.nn.functional as F
from mmengine.logging import print_log
from torch import Tensor

from mmgeom.geometry import (
    dot_regression_loss,
    simplex_etf,
    unit_vectors,
)
from mmgeom.registry import MODELS

from .fixed_geometry_head import FixedGeometryHead


@MODELS.register_module()
class ETFHead(FixedGeometryHead):
    r"""A fixed simplex classifier with the dot-regression loss (SETF).

    The class vectors :math:`m_k` are the vertices of a regular simplex in a
    random orientation and are never trained. With the normalised feature
    :math:`\hat h` after batch normalisation,

    .. math::
        L = \frac{1}{2B} \sum_i (\langle m_{y_i}, \hat h_i\rangle - 1)^2 ,
        \qquad \hat y = \arg\max_k \langle m_k, \hat h\rangle .

    For mixed labels the loss is the mixture of the labels' losses. Two
    options of the released code are left out: its regulariser of the norm,
    which is a constant for normalised features, and its scale by batch
    counts (``GivenEw``), which is not part of the paper.

    Source: *Inducing Neural Collapse in Imbalanced Learning: Do We Really
    Need a Learnable Classifier at the End of Deep Neural Network?*
    (NeurIPS 2022), Eq. 1 and 8.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the backbone's feature. When it is below
            K - 1, a linear layer widens it to K, with a message.
        seed (int): Of the orientation. Defaults to 0.
        **kwargs: Arguments of :class:`FixedGeometryHead`.
    """

    def __init__(
        self, num_classes: int, in_channels: int, seed: int = 0, **kwargs: Any
    ) -> None:
        dim = in_channels
        if in_channels < num_classes - 1:
            dim = num_classes
            print_log(
                f'ETFHead widens the feature from {in_channels} to {dim}, '
                f'since a simplex of {num_classes} classes needs dimension '
                f'{num_classes - 1}.',
                logger='current',
                level=logging.INFO,
            )
        super().__init__(
            num_classes, in_channels, dim, expand=dim != in_channels, **kwargs
        )
        self.register_buffer(
            'class_vectors', simplex_etf(num_classes, dim, seed)
        )

    @property
    def score_scale(self) -> float:
        r""":math:`\gamma`; the optimum has scores 1 and :math:`-1/(K-1)`."""
        k = self.num_classes
        odds = self.confidence / (1 - self.confidence)
        return math.log(odds * (k - 1)) * (k - 1) / k

    def class_scores(self, feature: Tensor) -> Tensor:
        r"""Cosines :math:`\langle m_k, \hat h\rangle`.

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``, in ``[-1, 1]``.
        """
        unit = unit_vectors(feature)
        return F.linear(unit, self.class_vectors.to(unit.dtype))

    def feature_loss(
        self, feature: Tensor, target: Tensor, raw: Tensor | None = None
    ) -> dict:
        """Dot-regression loss.

        Args:
            feature (Tensor): Shape ``(B, d)``.
            target (Tensor): Classes ``(B,)`` or mixed labels ``(B, K)``.
            raw (Tensor, optional): Not used. Defaults to None.

        Returns:
            dict: ``loss``.
        """
        gap = dot_regression_loss(self.class_scores(feature))
        if target.ndim == 1:
            loss = gap.gather(1, target[:, None])[:, 0]
        else:
            loss = (gap * target.to(gap.dtype)).sum(1)
        return dict(loss=loss.mean())

    def collapse_targets(self) -> dict:
        """What diagnostics compare features with.

        Returns:
            dict: ``directions`` of shape ``(K, d)``; there are no centres.
        """
        return dict(directions=self.class_vectors, mean_centers=None)
