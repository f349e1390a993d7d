# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Regression with a geometric constraint on the representation (SRL)."""

import math
from typing import Any

import torch
from mmengine.model import Sequential
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import unit_vectors
from mmgeom.geometry.precision import full_precision
from mmgeom.geometry.trace_loss import TraceLoss
from mmgeom.registry import MODELS

from .regressor_head import RegressorHead

#: What the arguments of a head that are None mean.
PRESETS = dict(
    paper=dict(
        lambda_e=0.1,
        lambda_h=0.1,
        lambda_con=1.0,
        temperature=0.3,
        homo_mode='paper',
        homo_var=0.0,
        loss=dict(type='mmgeom.ErrorLoss', kind='mse'),
        scale_targets=True,
    ),
    agedb_code=dict(
        lambda_e=100.0,
        lambda_h=0.01,
        lambda_con=10.0,
        temperature=0.3,
        homo_mode='cos',
        homo_var=0.1,
        loss=dict(type='mmgeom.ErrorLoss', kind='l1'),
        scale_targets=False,
    ),
)


@MODELS.register_module()
class SRLHead(RegressorHead):
    r"""Surrogate-driven representation learning for imbalanced regression.

    A regression head whose training also shapes the trace that the label
    draws on the unit sphere of the features :math:`z = p / \|p\|`, with a
    projection p of the backbone's feature:

    .. math::
        L = L_{reg} + \lambda_e L_{env} + \lambda_h L_{homo}
        + \lambda_{con} L_{con}

    * :math:`L_{env}` spreads the trace over the sphere,
    * :math:`L_{homo}` lets it run at constant speed,
    * :math:`L_{con}` ties features to the centroids of their bins,

    all with the surrogate, which completes the centroids of a batch by those
    of the epochs before (:class:`mmgeom.geometry.trace_loss.TraceLoss`).
    Prediction is that of the regression head alone. The label bins come from
    ``LabelDistributionHook(bins=...)``, the epochs from ``EpochHook``; bins
    without training samples are left out. Any loss that is called with
    predictions and targets may be the regression loss.

    In the first ``warmup_epochs`` epochs the loss is that of the regression,
    and features are only collected; the surrogate is that of the last of
    these epochs. At the end of each epoch the surrogate is
    renewed from the features of that epoch, as they were when each batch was
    trained on; :class:`mmgeom.engine.SurrogateHook` takes another pass over
    the data instead, as the released code does.

    What the paper leaves open: :math:`L_{con}` is the mean over samples with
    a temperature, as in the released code (Eq. 10 prints a sum without);
    the momentum is that of the code; the centroids of an epoch are directions
    when they are mixed with the old ones, whose mixture is normalised; the
    points of :math:`L_{env}` stay the same. Gaps between labels
    in :math:`L_{homo}` are in label units, not standardised: in another unit
    of the label, and with finer bins, its value and the fitting
    ``lambda_h`` are others, unless ``homo_normalize=True``.

    The preset ``'agedb_code'`` has what the released code trained AgeDB-DIR
    with: L1 loss in years, weights 100, 0.01 and 10, and the homogeneity loss
    by cosines with 0.1 of their variance. The code also starts without
    warm-up and takes the extra pass; that is not part of the preset.

    Targets mixed by Mixup belong to no bin, so that ``ImageRegressor`` refuses
    batch augmentations with this head.

    Source: *Improve Representation for Imbalanced Regression through
    Geometric Constraints* (SRL, CVPR 2025), Eq. 1 to 11.

    Args:
        in_channels (int): Width of the feature, positive.
        num_bins (int): K, number of label bins, at least 2.
        preset (str): ``'paper'`` or ``'agedb_code'``: what the following
            arguments are where they are None. Those given win. Defaults to
            ``'paper'``.
        lambda_e (float, optional): Weight of the enveloping loss; 0 leaves it
            out. Defaults to None: 0.1 (``'agedb_code'``: 100).
        lambda_h (float, optional): Weight of the homogeneity loss. Defaults
            to None: 0.1 (0.01).
        lambda_con (float, optional): Weight of the contrast. Defaults to
            None: 1 (10).
        temperature (float, optional): T of the contrast. Defaults to None:
            0.3 (0.3).
        homo_mode (str, optional): ``'paper'`` for Eq. 6, ``'cos'`` for the
            form of the AgeDB code. Defaults to None: ``'paper'``
            (``'cos'``).
        homo_var (float, optional): Weight of the variance in the form
            ``'cos'``. Defaults to None: 0 (0.1, but 0 with
            ``homo_mode='paper'``).
        loss (dict | nn.Module, optional): The regression loss. Defaults to
            None: mean squared error (absolute error).
        scale_targets (bool, optional): Standardise the targets for the
            regression loss. Defaults to None: True (False).
        homo_normalize (bool): Make the homogeneity loss independent of the
            number of bins and the unit of the label; with
            ``homo_mode='paper'`` only. Defaults to False.
        num_points (int): N, points on the sphere. Defaults to 2000.
        points_seed (int): Their seed. Defaults to 0.
        resample (str): When to draw them anew, ``'never'``, ``'epoch'`` or
            ``'iter'``. Defaults to ``'never'``.
        points (str): ``'fixed'`` for whole points, ``'span'`` for their
            projections on the span of the centroids, which is exact and
            cheaper for few bins. Defaults to ``'fixed'``.
        momentum (float): Weight of the old surrogate, in ``[0, 1]``. Defaults
            to 0.9.
        warmup_epochs (int): Epochs with the regression loss only. Defaults
            to 1.
        proj_dim (int): n, width of the projection; 0 takes the feature as it
            is. Defaults to 128.
        projector_hidden (int, optional): Width of a hidden layer with ReLU in
            the projection. Defaults to None: a single linear layer.
        num_targets (int): Must be 1, since a trace is a curve. Defaults to 1.
        **kwargs: Further arguments of :class:`RegressorHead`.

    Raises:
        ValueError: When an argument is out of its range, or options exclude
            each other.
    """

    #: Batch augmentations that mix targets are refused.
    takes_mixed_targets = False

    def __init__(
        self,
        in_channels: int,
        num_bins: int,
        preset: str = 'paper',
        lambda_e: float | None = None,
        lambda_h: float | None = None,
        lambda_con: float | None = None,
        temperature: float | None = None,
        homo_mode: str | None = None,
        homo_var: float | None = None,
        loss: dict | nn.Module | None = None,
        scale_targets: bool | None = None,
        homo_normalize: bool = False,
        num_points: int = 2000,
        points_seed: int = 0,
        resample: str = 'never',
        points: str = 'fixed',
        momentum: float = 0.9,
        warmup_epochs: int = 1,
        proj_dim: int = 128,
        projector_hidden: int | None = None,
        num_targets: int = 1,
        **kwargs: Any,
    ) -> None:
        _check(num_targets, momentum, warmup_epochs)
        given = dict(
            lambda_e=lambda_e,
            lambda_h=lambda_h,
            lambda_con=lambda_con,
            temperature=temperature,
            homo_mode=homo_mode,
            homo_var=homo_var,
            loss=loss,
            scale_targets=scale_targets,
        )
        chosen = _with_preset(preset, given)
        super().__init__(
            in_channels,
            num_targets,
            loss=chosen.pop('loss'),
            scale_targets=chosen.pop('scale_targets'),
            **kwargs,
        )
        self.momentum = momentum
        self.warmup_epochs = warmup_epochs
        self.projector = _projector(in_channels, proj_dim, projector_hidden)
        self.trace = TraceLoss(
            num_bins,
            proj_dim or in_channels,
            num_points=num_points,
            points_seed=points_seed,
            resample=resample,
            points=points,
            homo_normalize=homo_normalize,
            **chosen,
        )
        # Not the epoch, for each of which a graph would be compiled.
        self._is_warm: bool | None = None

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the bins of the training labels.

        Args:
            distribution (LabelDistribution): Over K bins.

        Raises:
            ValueError: When it does not fit.
        """
        self.trace.set_label_distribution(distribution)

    def forget_epoch(self) -> None:
        """Forget the features of an epoch that was cut short."""
        self.forget_sums()

    def before_epoch(self, epoch: int, max_epochs: int) -> None:
        """Take the number of the epoch.

        Args:
            epoch (int): From 0.
            max_epochs (int): Not used.
        """
        self._is_warm = epoch >= self.warmup_epochs
        self.trace.start_epoch(epoch)

    def after_epoch(self, epoch: int) -> None:
        """Renew the surrogate.

        Args:
            epoch (int): Not used.
        """
        # Features of the first steps would stay in it for long.
        self.trace.end_epoch(self.momentum if self._is_warm else 0.0)

    def reset_epochs(self) -> None:
        """Forget the surrogate."""
        self.trace.reset()

    @full_precision
    def project(self, feature: Tensor) -> Tensor:
        """Features on the sphere, in float32 whatever autocast says.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, C)``.

        Returns:
            Tensor: Unit rows z, shape ``(B, n)``, float32 or wider.
        """
        return unit_vectors(self.projector(feature))

    def feature_loss(
        self, feature: Tensor, target: Tensor, **kwargs: Any
    ) -> dict:
        """Losses of a batch, and in training its part of the surrogate.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, C)``.
            target (Tensor): Of :meth:`targets`, shape ``(B, 1)``.
            **kwargs: Further arguments of the loss module.

        Returns:
            dict: Those of :class:`RegressorHead`, and after the warm-up the
            weighted ``loss_enveloping``, ``loss_homogeneity`` and
            ``loss_contrast``, each unless its weight is 0, and the monitor
            ``available_bins``, the number of bins of the trace.

        Raises:
            RuntimeError: When neither the epoch nor the bins are known.
        """
        if self._is_warm is None:
            raise RuntimeError(
                'SRLHead was not told which epoch it is, on which its losses '
                "depend: add dict(type='mmgeom.EpochHook') to custom_hooks."
            )
        losses = super().feature_loss(feature, target, **kwargs)
        z = self.project(feature)
        bins = self.trace.bin_index(target[:, 0])
        if self.training:
            self.trace.accumulate(z, bins)
        if self.trace.is_active and self._is_warm:
            losses.update(self.trace(z, bins))
        else:
            # DistributedDataParallel waits for all gradients.
            unused = sum(p.sum() for p in self.projector.parameters())
            losses['loss'] = losses['loss'] + 0 * unused
        return losses

    @torch.no_grad()
    def accumulate(
        self, feats: tuple[Tensor, ...], data_samples: list[DataSample]
    ) -> None:
        """Add a batch to the sums of the epoch and do nothing else.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.
            data_samples (list[DataSample]): With ``gt_score``.
        """
        z = self.project(self.pre_logits(feats))
        bins = self.trace.bin_index(self.targets(data_samples)[:, 0])
        self.trace.accumulate(z, bins)

    def forget_sums(self) -> None:
        """Forget the features of the epoch so far."""
        self.trace.forget_sums()


def _check(num_targets: int, momentum: float, warmup_epochs: int) -> None:
    if num_targets != 1:
        raise ValueError(
            'SRL needs one-dimensional labels, whose representations form a '
            f'curve, got num_targets={num_targets}: use RegressorHead.'
        )
    if not 0 <= momentum <= 1:
        raise ValueError(
            'momentum is the weight of the old surrogate and must lie in '
            f'[0, 1], got {momentum}.'
        )
    if warmup_epochs < 0:
        raise ValueError(
            f'warmup_epochs must not be negative, got {warmup_epochs}.'
        )


def _with_preset(preset: str, given: dict) -> dict:
    if preset not in PRESETS:
        raise ValueError(
            f'preset must be one of {list(PRESETS)}, got {preset!r}.'
        )
    chosen = {
        name: PRESETS[preset][name] if value is None else value
        for name, value in given.items()
    }
    if chosen['homo_mode'] == 'paper' and given['homo_var'] is None:
        # The variance of the preset belongs to its own form.
        chosen['homo_var'] = 0.0
    return chosen


def _projector(in_channels: int, dim: int, hidden: int | None) -> nn.Module:
    if dim < 0:
        raise ValueError(
            f'proj_dim must be 0 (no projection) or positive, got {dim}.'
        )
    if hidden is not None and (hidden < 1 or dim == 0):
        raise ValueError(
            'projector_hidden must be positive and needs proj_dim > 0, got '
            f'projector_hidden={hidden}, proj_dim={dim}.'
        )
    if dim == 0:
        return nn.Identity()
    if hidden is None:
        layers = [nn.Linear(in_channels, dim)]
    else:
        layers = [
            nn.Linear(in_channels, hidden),
            nn.ReLU(),
            nn.Linear(hidden, dim),
        ]
    # PyTorch's own; that of the head is meant for the regression.
    init_cfg = dict(
        type='Kaiming',
        layer='Linear',
        a=math.sqrt(5),
        distribution='uniform',
        mode='fan_in',
        nonlinearity='leaky_relu',
    )
    return Sequential(*layers, init_cfg=init_cfg)
