# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Fixed multi-centre classifier."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.dist import get_world_size
from mmengine.logging import print_log
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import (
    MultiCenterFrame,
    allocate_centers,
    at_least_float32,
    center_regression_loss,
    cosine_center_loss,
    norm_penalty,
)
from mmgeom.registry import MODELS

from .fixed_geometry_head import FixedGeometryHead

#: Widest frame that diagnostics get as matrices.
_MAX_DENSE_WIDTH = 4096

_CHOICES = dict(
    weighting=('cos_alpha', 'none'),
    norm_reg_on=('post_bn', 'pre_bn'),
    norm_reg_reduction=('mean', 'sum'),
    loss=('cosine', 'regression'),
    infer=('rcr', 'gcr'),
)


@MODELS.register_module()
class MultiCenterHead(FixedGeometryHead):
    r"""A fixed classifier with several centres for each class (NCMC).

    Rare classes get more centres, so that their pull on the features does
    not vanish. With the frame of
    :class:`~mmgeom.geometry.MultiCenterFrame` and the feature h after batch
    normalisation the loss of a sample of class k is

    .. math::
        \cos\alpha_k \sum_{j=1}^{f_k}
        (\langle w_j^{(k)}, \hat h\rangle - 1)^2 + \lambda (\|h\| - 1)^2 .

    It has the floor :math:`\cos\alpha_k f_k (1-\cos\alpha_k)^2`; what lies
    above it is logged as ``excess``. Prediction by the class directions,
    :math:`\arg\max_k \langle w_k, \hat h\rangle`. For labels mixed by Mixup
    or CutMix the loss is the mixture of the two labels' losses, each with
    its own weight :math:`\cos\alpha`, and the norm term once.

    ``center_mode='average'`` is the Average Loss (AL) of the paper,
    ``'class_aware'`` the Class-Aware Loss (CAL). The class counts come from
    the training data; the numbers of centres are part of the checkpoint.

    Source: *Neural Collapse To Multiple Centers For Imbalanced Data*
    (NeurIPS 2024), Definition 3.2, Eq. 34 and Appendix F.1.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the backbone's feature.
        f (int): Mean number of centres of a class. Not used with an explicit
            ``center_mode``. Defaults to 20.
        theta (float): Angle in radians, in ``[0, pi/2]``. Defaults to 0.2.
        center_mode (str | Sequence[int]): ``'class_aware'``, ``'average'``,
            ``'inverse'``, or the number of centres of each class; see
            :func:`~mmgeom.geometry.allocate_centers`. Defaults to
            ``'class_aware'``.
        surplus (str): ``'tail'`` or ``'head'``, of ``'class_aware'``.
            Defaults to ``'tail'``.
        weighting (str): ``'cos_alpha'`` or ``'none'``, the factor of a
            class. Defaults to ``'cos_alpha'``.
        norm_reg (float): :math:`\lambda`, not negative. Defaults to 6e-4.
            With ``loss='regression'`` it multiplies the mean of
            :math:`\tfrac12\|h\|^2` instead, so that it is
            :math:`N \lambda_H` of objective P.
        norm_reg_on (str): ``'post_bn'`` or ``'pre_bn'``. Defaults to
            ``'post_bn'``.
        norm_reg_reduction (str): ``'mean'`` or ``'sum'`` over the batch.
            Defaults to ``'mean'``.
        frame (str): ``'random'``, ``'axis'`` or ``'hadamard'``. Defaults to
            ``'random'``.
        frame_seed (int): Of the frame. Defaults to 0.
        feat_expand (int, optional): Width of the feature that a linear layer
            in front makes. Defaults to None: none if ``in_channels`` is at
            least (f + 1) K, else just wide enough (the next power of two for
            ``'hadamard'``), with a message.
        loss (str): ``'cosine'``, or ``'regression'`` for objective P
            (Eq. 20), which is not meant for Mixup. Defaults to ``'cosine'``.
        infer (str): ``'rcr'`` by the class directions, or ``'gcr'`` by the
            nearest centre (Eq. 11). Defaults to ``'rcr'``.
        **kwargs: Arguments of :class:`FixedGeometryHead`.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        f: int = 20,
        theta: float = 0.2,
        center_mode: str | Sequence[int] = 'class_aware',
        surplus: str = 'tail',
        weighting: str = 'cos_alpha',
        norm_reg: float = 6e-4,
        norm_reg_on: str = 'post_bn',
        norm_reg_reduction: str = 'mean',
        frame: str = 'random',
        frame_seed: int = 0,
        feat_expand: int | None = None,
        loss: str = 'cosine',
        infer: str = 'rcr',
        **kwargs: Any,
    ) -> None:
        explicit = not isinstance(center_mode, str)
        number = sum(center_mode) if explicit else f * num_classes
        rank = number + num_classes
        dim = _width(in_channels, rank, frame, feat_expand)
        super().__init__(
            num_classes,
            in_channels,
            dim,
            expand=feat_expand is not None or dim != in_channels,
            **kwargs,
        )
        if frame == 'axis' and kwargs.get('expand_groups', 1) != 1:
            raise ValueError(
                "with frame='axis' a map in blocks would show each class "
                'direction one part of the feature, got expand_groups='
                f"{kwargs['expand_groups']}: use frame='hadamard'."
            )
        self._check(
            weighting=weighting,
            norm_reg_on=norm_reg_on,
            norm_reg_reduction=norm_reg_reduction,
            loss=loss,
            infer=infer,
        )
        if norm_reg < 0:
            raise ValueError(f'norm_reg must not be negative, got {norm_reg}.')
        self.f = f
        self.theta = theta
        self.center_mode = center_mode
        self.surplus = surplus
        self.weighting = weighting
        self.norm_reg = norm_reg
        self.norm_reg_on = norm_reg_on
        self.norm_reg_reduction = norm_reg_reduction
        self.loss_type = loss
        self.infer = infer
        self.frame = MultiCenterFrame(
            num_classes, number, dim, theta, frame, frame_seed
        )
        self._mixture_is_checked = False
        # Mean of f_k over the training samples, S/N in objective P.
        self.register_buffer('mean_number', torch.tensor(number / num_classes))
        self.register_buffer('class_weight', torch.zeros(num_classes))
        self.register_buffer('class_floor', torch.zeros(num_classes))
        self.register_buffer('scale', torch.ones(()))
        if explicit:
            self._allocate(torch.as_tensor(center_mode))
        else:  # checks the arguments before any data are read
            ones = torch.ones(num_classes, dtype=torch.int64)
            numbers = allocate_centers(ones, f, center_mode, surplus)
            if center_mode == 'average':
                self._allocate(numbers)

    @staticmethod
    def _check(**arguments: str) -> None:
        for name, value in arguments.items():
            if value not in _CHOICES[name]:
                raise ValueError(
                    f'{name} must be one of {list(_CHOICES[name])}, got '
                    f'{value!r}.'
                )

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the priors and allocate the centres by the class counts.

        Args:
            distribution (LabelDistribution): Over K classes.

        Raises:
            ValueError: When it has another number of classes, or a class
                without samples where the mode needs one.
        """
        super().set_label_distribution(distribution)
        if isinstance(self.center_mode, str):
            self._allocate(
                allocate_centers(
                    distribution.counts, self.f, self.center_mode, self.surplus
                )
            )
        share = distribution.prior.to(self.frame.centers.device)
        self.mean_number.copy_((share * self.frame.centers).sum())

    def _allocate(self, centers: Tensor) -> None:
        self.frame.set_centers(centers)
        weight = self.frame.cos_alpha()
        if self.weighting == 'none':
            weight = torch.ones_like(weight)
        self.class_weight.copy_(weight)
        self.class_floor.copy_(weight * self.frame.loss_floor())
        frame = self.frame
        own = frame.cos_rho() if self.infer == 'rcr' else frame.cos_alpha()
        odds = self.confidence / (1 - self.confidence)
        self.scale.copy_(
            math.log(odds * (self.num_classes - 1))
            / own.mean().clamp(min=1e-3)
        )

    @property
    def needs_label_distribution(self) -> bool:
        """Whether the centres are not allocated to classes yet."""
        return not self.frame.is_set

    @property
    def score_scale(self) -> Tensor:
        r""":math:`\gamma`; the mean own score at the optimum is that of the
        mean centres, :math:`\overline{\cos\rho}` with ``infer='rcr'`` and
        :math:`\overline{\cos\alpha}` with ``'gcr'``, all others are 0.
        """
        self.frame.require_centers()
        return self.scale

    def class_scores(self, feature: Tensor) -> Tensor:
        """Cosines with the class directions or the nearest centres.

        Args:
            feature (Tensor): Shape ``(B, d)``.

        Returns:
            Tensor: Shape ``(B, K)``, in ``[-1, 1]``.
        """
        if self.infer == 'gcr':
            return self.frame.nearest_center_scores(feature)
        return self.frame.class_scores(feature)

    def feature_loss(
        self, feature: Tensor, target: Tensor, raw: Tensor | None = None
    ) -> dict:
        """Center loss and norm term.

        Args:
            feature (Tensor): Shape ``(B, d)``.
            target (Tensor): Classes ``(B,)`` or mixed labels ``(B, K)`` of
                at most two classes each.
            raw (Tensor, optional): The feature before batch normalisation,
                for ``norm_reg_on='pre_bn'``. Defaults to None, which means
                ``feature``.

        Returns:
            dict: ``loss_center``, ``loss_norm`` if there is a norm term, and
            the monitored ``floor`` of the center loss and its ``excess``
            over it.
        """
        label, share = self._labels(target)
        if self.loss_type == 'cosine':
            losses, norm = self._cosine_losses(feature, label, share)
        else:
            losses, norm = self._regression_losses(feature, label, share)
        if self.norm_reg_on == 'pre_bn' and raw is not None:
            norm = torch.linalg.vector_norm(at_least_float32(raw), dim=1)
        if self.norm_reg:
            losses['loss_norm'] = self.norm_reg * self._norm_term(norm)
        return losses

    def _cosine_losses(
        self, feature: Tensor, label: Tensor, share: Tensor
    ) -> tuple[dict, Tensor]:
        terms = self.frame.own_terms(feature, label)
        value = cosine_center_loss(
            terms, self.frame.centers[label], self.theta
        )
        weight = share * self.class_weight[label].to(value.dtype)
        center = (weight * value).sum(1).mean()
        floor = (share * self.class_floor[label]).sum(1).mean()
        return (
            dict(
                loss_center=center,
                floor=floor,
                excess=center.detach() - floor,
            ),
            terms.norm,
        )

    def _regression_losses(
        self, feature: Tensor, label: Tensor, share: Tensor
    ) -> tuple[dict, Tensor]:
        """The data term of objective P: its sum over 2 S is a mean over
        samples divided by the mean number of centres.
        """
        value = sum(
            share[:, i]
            * center_regression_loss(self.frame, feature, label[:, i])
            for i in range(label.shape[1])
        )
        norm = torch.linalg.vector_norm(feature, dim=1)
        return dict(loss_center=value.mean() / self.mean_number), norm

    def _norm_term(self, norm: Tensor) -> Tensor:
        if self.loss_type == 'cosine':
            penalty = norm_penalty(norm)
        else:
            penalty = norm.square() / 2
        if self.norm_reg_reduction == 'sum':
            # Gradients are averaged over ranks, so the sum over all of them
            # needs this factor.
            return penalty.sum() * get_world_size()
        return penalty.mean()

    def _labels(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Labels of each sample and their shares, shape (B, 1) or (B, 2)."""
        if target.ndim == 1:
            return target[:, None], torch.ones_like(target[:, None]).float()
        share, label = target.float().topk(2, dim=1)
        # Looked at once, since reading a value waits for the device.
        if not self._mixture_is_checked:
            if not torch.allclose(share.sum(1), target.float().sum(1)):
                raise ValueError(
                    'MultiCenterHead takes labels mixed of at most two '
                    'classes, as Mixup and CutMix make them, got one with '
                    f'{int((target > 0).sum(1).max())}: leave out label '
                    'smoothing.'
                )
            self._mixture_is_checked = True
        return label, share

    def collapse_targets(self) -> dict:
        """What diagnostics compare features with.

        Returns:
            dict: ``directions`` and ``mean_centers``, both of shape
            ``(K, d)``; None for frames wider than 4096, whose matrices
            would be larger than the model.
        """
        if self.dim > _MAX_DENSE_WIDTH:
            return dict(directions=None, mean_centers=None)
        directions, _ = self.frame.dense_basis()
        return dict(
            directions=directions, mean_centers=self.frame.mean_centers()
        )


def _width(
    in_channels: int, rank: int, frame: str, feat_expand: int | None
) -> int:
    """Width of the feature that the frame lives in."""
    if feat_expand is not None:
        return feat_expand
    fits = in_channels >= rank
    if frame == 'hadamard':
        fits = fits and in_channels & (in_channels - 1) == 0
    if fits:
        return in_channels
    dim = 1 << (rank - 1).bit_length() if frame == 'hadamard' else rank
    print_log(
        f'MultiCenterHead maps the feature from width {in_channels} to {dim}, '
        f'since its centres and class directions need dimension {rank}'
        f'{" and a power of two" if frame == "hadamard" else ""}.',
        logger='current',
    )
    return dim
