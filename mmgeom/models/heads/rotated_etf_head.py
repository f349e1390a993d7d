# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Simplex classifier with a learned rotation."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal
from torch.nn.utils.parametrize import remove_parametrizations

from mmgeom.geometry import simplex_vertices, soft_cross_entropy
from mmgeom.registry import MODELS

from .fixed_geometry_head import FixedGeometryHead


@MODELS.register_module()
class RotatedETFHead(FixedGeometryHead):
    r"""A simplex classifier whose orientation is learned (RBL).

    .. math:: s = h\, U E

    with a fixed matrix E of class vectors and a trained U with orthonormal
    columns or rows, kept exactly orthogonal by torch's own parametrisation
    (Cayley's, which solves a system of ``max(d, m)`` unknowns each step).
    Weight decay on its parameter pulls U towards its initial value; exempt
    it with ``custom_keys={'head.rotation': dict(decay_mult=0)}``.
    Cross-entropy on ``s`` in training; predictions use
    :math:`s - \tau \log \pi`, the post-hoc correction that is part of the
    method.

    ``etf='simplex'`` takes the vertices of a regular simplex, with
    :math:`U \in \mathbb{R}^{d \times (K-1)}`. ``etf='published'`` is what the
    authors' code does: the first K columns of
    :math:`I_m - 11^\top/m`, :math:`m = \max(d, K)`, which are no K-simplex
    when :math:`d > K` (their normalised inner products are
    :math:`-1/(m-1)`).

    Source: *Feature Directions Matter: Long-Tailed Learning via Rotated
    Balanced Representation* (ICML 2023) and its released code.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width d of the backbone's feature. A simplex needs
            :math:`d \ge K - 1`.
        etf (str): ``'simplex'`` or ``'published'``. Defaults to
            ``'simplex'``.
        post_hoc_tau (float): :math:`\tau`. Defaults to 1.0.
        head_bn (bool): Batch normalisation of the feature. Defaults to
            False.
        **kwargs: Arguments of :class:`FixedGeometryHead`.

    Raises:
        ValueError: When ``etf`` is unknown or the simplex does not fit.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        etf: str = 'simplex',
        post_hoc_tau: float = 1.0,
        head_bn: bool = False,
        **kwargs: Any,
    ) -> None:
        if etf not in ('simplex', 'published'):
            raise ValueError(
                f"etf must be 'simplex' or 'published', got {etf!r}."
            )
        if etf == 'simplex' and in_channels < num_classes - 1:
            raise ValueError(
                f'a simplex of {num_classes} classes needs features of width '
                f'{num_classes - 1}, got in_channels={in_channels}: use a '
                "wider backbone or etf='published'."
            )
        super().__init__(
            num_classes,
            in_channels,
            dim=in_channels,
            head_bn=head_bn,
            post_hoc_tau=post_hoc_tau,
            **kwargs,
        )
        vectors = _class_vectors(etf, num_classes, in_channels)
        self.register_buffer('class_vectors', vectors)
        rotation = nn.Linear(in_channels, vectors.shape[1], bias=False)
        # Torch's default, products of reflections, becomes zero when weight
        # decay moves the signs it keeps on a diagonal.
        self.rotation = orthogonal(rotation, orthogonal_map='cayley')

    score_scale = 1.0

    def class_scores(self, feature: Tensor) -> Tensor:
        """Logits.

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``.
        """
        vectors = self.class_vectors.to(feature.dtype)
        return self.rotation(feature) @ vectors.T

    def feature_loss(
        self, feature: Tensor, target: Tensor, raw: Tensor | None = None
    ) -> dict:
        """Cross-entropy.

        Args:
            feature (Tensor): Shape ``(B, d)``.
            target (Tensor): Classes ``(B,)`` or mixed labels ``(B, K)``.
            raw (Tensor, optional): Not used. Defaults to None.

        Returns:
            dict: ``loss``.
        """
        scores = self.class_scores(feature)
        return dict(loss=soft_cross_entropy(scores, target).mean())

    def fix_rotation(self) -> None:
        """Replace the trained rotation by its value, for export.

        The parametrisation that keeps it orthogonal has no ONNX form.
        Afterwards the head predicts as before and cannot be trained on.
        """
        remove_parametrizations(self.rotation, 'weight')
        self.rotation.weight.requires_grad_(False)

    def collapse_targets(self) -> dict:
        """What diagnostics compare features with.

        Returns:
            dict: ``directions`` of shape ``(K, d)``, rotated; there are no
            centres.
        """
        with torch.no_grad():
            directions = self.class_vectors @ self.rotation.weight
        return dict(directions=directions, mean_centers=None)


def _class_vectors(etf: str, num_classes: int, width: int) -> Tensor:
    """Rows of class vectors, shape (K, m)."""
    if etf == 'simplex':
        return simplex_vertices(num_classes).float()
    m = max(width, num_classes)
    return (torch.eye(m) - 1 / m)[:num_classes]
