# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A linear regression head."""

from typing import Any, NoReturn

import torch
from mmengine.model import BaseModule
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmgeom.geometry import at_least_float32
from mmgeom.geometry.finite import all_finite
from mmgeom.geometry.precision import full_precision
from mmgeom.geometry.standardization import Standardizer
from mmgeom.geometry.value_checks import values_are_at_hand
from mmgeom.registry import MODELS
from mmgeom.structures import stacked_scores


@MODELS.register_module()
class RegressorHead(BaseModule):
    r"""Linear regression of D targets on the backbone's feature.

    .. math:: \hat y = \mu + \sigma (W h + b)

    The mean :math:`\mu` and the standard deviation :math:`\sigma` of the
    training targets come from :class:`mmgeom.engine.StandardizationHook` and
    are part of the checkpoint; without them they are 0 and 1. The loss
    compares :math:`W h + b` with the standardised target, so that **the
    value of the loss is in units of the standard deviation**, and learning
    rates do not depend on the unit of the target. The monitor ``mae`` and
    all predictions are in original units. The layer and the loss are
    computed in float32 whatever autocast says.

    Targets are read from ``gt_score`` of the data samples, a float tensor of
    length D; Mixup of the host mixes them linearly. Predictions are written
    as ``pred_score``. A subclass adds terms to the loss in
    :meth:`feature_loss`.

    A target that is no finite number is an error in every batch on a CPU.
    On another device only in the first batch, since looking waits for the
    device, and never in a compiled model, whose graph it would break; there
    :class:`mmgeom.engine.StandardizationHook` has looked at all training
    targets before, if it needs their mean and standard deviation.

    Args:
        in_channels (int): Width of the feature, positive.
        num_targets (int): D, positive. Defaults to 1.
        loss (dict | nn.Module): The loss, called with predictions and
            targets of shape ``(B, D)``. Defaults to the mean squared error,
            ``dict(type='mmgeom.ErrorLoss', kind='mse')``.
        scale_targets (bool): Standardise the targets. False keeps original
            units everywhere. Defaults to True.
        init_cfg (dict, optional): Initialisation. Defaults to a normal
            distribution with standard deviation 0.01.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        in_channels: int,
        num_targets: int = 1,
        loss: dict | nn.Module = dict(type='mmgeom.ErrorLoss', kind='mse'),
        scale_targets: bool = True,
        init_cfg: dict | None = dict(type='Normal', layer='Linear', std=0.01),
    ) -> None:
        super().__init__(init_cfg=init_cfg)
        for name, value in (
            ('in_channels', in_channels),
            ('num_targets', num_targets),
        ):
            if value < 1:
                raise ValueError(f'{name} must be positive, got {value}.')
        self.in_channels = in_channels
        self.num_targets = num_targets
        self.scale_targets = scale_targets
        self.fc = nn.Linear(in_channels, num_targets)
        self.target_scale = Standardizer(num_targets)
        if not isinstance(loss, nn.Module):
            loss = MODELS.build(loss)
        self.loss_module = loss
        self._has_checked_targets = False

    @property
    def uses_target_statistics(self) -> bool:
        """Whether :meth:`set_target_statistics` changes anything."""
        return self.scale_targets

    def set_target_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Take mean and standard deviation of the training targets.

        With ``scale_targets=False`` they are ignored.

        Args:
            mean (Tensor): Shape ``(D,)``.
            std (Tensor): Positive, shape ``(D,)``.

        Raises:
            ValueError: When the data have another number of targets, or a
                value is not finite or not positive.
        """
        if len(mean) != self.num_targets:
            raise ValueError(
                f'the head has num_targets={self.num_targets} but the '
                f'training data has {len(mean)} targets a sample: set '
                f'num_targets={len(mean)}.'
            )
        if self.scale_targets:
            self.target_scale.set_statistics(mean, std)

    def pre_logits(self, feats: tuple[Tensor, ...]) -> Tensor:
        """The feature that the linear layer sees.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.

        Returns:
            Tensor: Shape ``(B, C)``.

        Raises:
            ValueError: When its width is not ``in_channels``.
        """
        feature = feats[-1].flatten(1)
        if feature.shape[1] != self.in_channels:
            raise ValueError(
                f'the feature has width {feature.shape[1]} but the head has '
                f'in_channels={self.in_channels}: set it to the width of the '
                'backbone, and average feature maps with '
                "neck=dict(type='GlobalAveragePooling')."
            )
        return feature

    @full_precision
    def scaled_output(self, feature: Tensor) -> Tensor:
        """The output of the linear layer.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, C)``.

        Returns:
            Tensor: Shape ``(B, D)``, in units of the standard deviation.
        """
        return self.fc(feature)

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Predictions.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.

        Returns:
            Tensor: Shape ``(B, D)``, in original units.
        """
        output = self.scaled_output(self.pre_logits(feats))
        return self.target_scale.inverse(output)

    def loss(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample],
        **kwargs: Any,
    ) -> dict:
        """Losses from features and targets.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.
            data_samples (list[DataSample]): With ``gt_score`` of length D.
            **kwargs: Further arguments of the loss module.

        Returns:
            dict: As :meth:`feature_loss`.

        Raises:
            ValueError: As :meth:`targets`.
        """
        target = self.targets(data_samples)
        return self.feature_loss(self.pre_logits(feats), target, **kwargs)

    def targets(self, data_samples: list[DataSample]) -> Tensor:
        """Targets of a batch.

        Args:
            data_samples (list[DataSample]): With ``gt_score`` of length D.

        Returns:
            Tensor: Shape ``(B, D)``, in original units, float32 or wider.

        Raises:
            ValueError: When a sample has no target, or one of another
                length, or one that is no finite number (see the class for
                where the last is looked at).
        """
        try:
            target = stacked_scores(data_samples)
        except (AttributeError, RuntimeError):
            self._refuse(data_samples)
            raise
        if target.shape[1:] != (self.num_targets,):
            self._refuse(data_samples)
        if not target.is_floating_point():
            target = target.float()
        known = torch.compiler.is_compiling() or self._has_checked_targets
        if values_are_at_hand(target) or not known:
            if not all_finite(target):
                _refuse_non_finite(target, data_samples)
            if not self._has_checked_targets:
                self._has_checked_targets = True
        return at_least_float32(target)

    def feature_loss(
        self, feature: Tensor, target: Tensor, **kwargs: Any
    ) -> dict:
        """Losses of a batch.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, C)``.
            target (Tensor): Of :meth:`targets`, shape ``(B, D)``.
            **kwargs: Further arguments of the loss module.

        Returns:
            dict: ``loss``, in units of the standard deviation, and the
            monitor ``mae``, the mean absolute error over samples and targets
            in original units. The host's log shows that of the last batch,
            since it averages only losses over batches.
        """
        output = self.scaled_output(feature)
        loss = self.loss_module(output, self.target_scale(target), **kwargs)
        error = self.target_scale.inverse(output.detach()) - target
        return dict(loss=loss, mae=error.abs().mean())

    def regression_loss(
        self, feature: Tensor, target: Tensor, **kwargs: Any
    ) -> Tensor:
        """The loss alone, without monitors.

        Args:
            feature (Tensor): Of :meth:`pre_logits`, shape ``(B, C)``.
            target (Tensor): Of :meth:`targets`, shape ``(B, D)``.
            **kwargs: Further arguments of the loss module.

        Returns:
            Tensor: What the loss module returns.
        """
        output = self.scaled_output(feature)
        return self.loss_module(output, self.target_scale(target), **kwargs)

    def predict(
        self,
        feats: tuple[Tensor, ...],
        data_samples: list[DataSample | None] | None = None,
    ) -> list[DataSample]:
        """Predict.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(B, C)``.
            data_samples (list[DataSample | None], optional): Filled in.
                Defaults to None, which means new ones.

        Returns:
            list[DataSample]: With ``pred_score`` of length D, in original
            units, float32.
        """
        values = self(feats)
        if data_samples is None:
            data_samples = [None] * len(values)
        return [
            (DataSample() if sample is None else sample).set_pred_score(row)
            for sample, row in zip(data_samples, values)
        ]

    def _refuse(self, data_samples: list[DataSample]) -> None:
        """Name the first sample whose target has the wrong form."""
        for index, sample in enumerate(data_samples):
            if 'gt_score' not in sample:
                raise ValueError(
                    f'{_name(sample, index)} has no gt_score: let the '
                    "dataset give results['gt_score'], a 1-D float array, "
                    'and pack it with PackInputs.'
                )
            if sample.gt_score.shape != (self.num_targets,):
                raise ValueError(
                    f'the gt_score of {_name(sample, index)} has shape '
                    f'{tuple(sample.gt_score.shape)} instead of '
                    f'({self.num_targets},): set num_targets of the head to '
                    'the number of targets in the data.'
                )


def _refuse_non_finite(
    target: Tensor, data_samples: list[DataSample]
) -> NoReturn:
    finite = torch.isfinite(target).all(dim=1).tolist()
    index = finite.index(False)
    raise ValueError(
        f'the target of {_name(data_samples[index], index)} is '
        f'{target[index].tolist()}: remove the sample or give it a finite '
        'target.'
    )


def _name(sample: DataSample, index: int) -> str:
    """What a user finds the sample by."""
    if 'img_path' in sample:
        return f"'{sample.img_path}'"
    if 'sample_idx' in sample:
        return f'sample {sample.sample_idx}'
    return f'the sample at position {index} of the batch'
