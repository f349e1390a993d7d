# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Losses of the difference between prediction and target."""

from mmpretrain.models.losses.utils import weight_reduce_loss
from torch import Tensor, nn
from torch.nn import functional as F

from mmgeom.geometry import at_least_float32
from mmgeom.registry import MODELS

_KINDS = ('mse', 'l1', 'huber', 'smooth_l1')


@MODELS.register_module()
class ErrorLoss(nn.Module):
    r"""Squared, absolute or Huber error of a regression.

    With :math:`e = \hat y - y` and the threshold :math:`\delta`

    .. math::
        \ell_{mse} = e^2, \quad \ell_{l1} = |e|, \quad
        \ell_{huber} = \begin{cases}
            e^2 / 2 & |e| \le \delta \\
            \delta (|e| - \delta / 2) & |e| > \delta
        \end{cases}, \quad
        \ell_{smooth\,l1} = \ell_{huber} / \delta .

    The loss of a sample is the mean over its D targets, the loss of a batch
    the mean over its samples. Computed in float32 or wider, whatever
    autocast says.

    Source: *Robust Estimation of a Location Parameter* (Huber, 1964);
    smooth L1 as in *Fast R-CNN* (ICCV 2015), Eq. 3.

    Args:
        kind (str): ``'mse'``, ``'l1'``, ``'huber'`` or ``'smooth_l1'``.
            Defaults to ``'mse'``.
        delta (float, optional): :math:`\delta` of ``'huber'`` and
            ``'smooth_l1'``, positive, in units of the targets it is given,
            which are standard deviations in a head that standardises. Defaults
            to None, which means 1.
        reduction (str): ``'none'``, ``'mean'`` or ``'sum'`` over the
            samples. Defaults to ``'mean'``.
        loss_weight (float): Factor of the loss. Defaults to 1.0.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        kind: str = 'mse',
        delta: float | None = None,
        reduction: str = 'mean',
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise ValueError(f'kind must be one of {_KINDS}, got {kind!r}.')
        if delta is not None and kind in ('mse', 'l1'):
            raise ValueError(
                f'delta={delta} means nothing to kind={kind!r}: leave it out, '
                "or take 'huber' or 'smooth_l1'."
            )
        delta = 1.0 if delta is None else delta
        if not 0 < delta < float('inf'):
            raise ValueError(
                f'delta must be positive and finite, got {delta}.'
            )
        _check_reduction(reduction)
        self.kind = kind
        self.delta = delta
        self.reduction = reduction
        self.loss_weight = loss_weight

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        avg_factor: float | None = None,
        reduction_override: str | None = None,
    ) -> Tensor:
        """Compute the loss.

        Args:
            pred (Tensor): Predictions, shape ``(B, D)``.
            target (Tensor): Targets, shape ``(B, D)``.
            weight (Tensor, optional): Factor of each sample, shape ``(B,)``.
                Defaults to None.
            avg_factor (float, optional): Divisor of the mean. Defaults to
                None, which means B, also with weights.
            reduction_override (str, optional): Replaces ``reduction`` for
                this call. Defaults to None.

        Returns:
            Tensor: A scalar, or shape ``(B,)`` without reduction.

        Raises:
            ValueError: When shapes do not fit, or the reduction is unknown.
        """
        if reduction_override is not None:
            _check_reduction(reduction_override)
        _check_shapes(pred, target, weight)
        reduction = reduction_override or self.reduction
        # No operation here is one that autocast narrows.
        pred, target = at_least_float32(pred), at_least_float32(target)
        if reduction == 'mean' and weight is None and avg_factor is None:
            loss = self._errors(pred, target, 'mean')
        else:
            errors = self._errors(pred, target, 'none').mean(dim=1)
            loss = weight_reduce_loss(errors, weight, reduction, avg_factor)
        # A product less in the graph of most trainings.
        return loss if self.loss_weight == 1 else self.loss_weight * loss

    def _errors(self, pred: Tensor, target: Tensor, reduction: str) -> Tensor:
        """Losses of all numbers, shape (B, D), or their mean."""
        if self.kind == 'mse':
            return F.mse_loss(pred, target, reduction=reduction)
        if self.kind == 'l1':
            return F.l1_loss(pred, target, reduction=reduction)
        if self.kind == 'huber':
            return F.huber_loss(
                pred, target, reduction=reduction, delta=self.delta
            )
        return F.smooth_l1_loss(
            pred, target, reduction=reduction, beta=self.delta
        )


def _check_reduction(reduction: str) -> None:
    if reduction not in ('none', 'mean', 'sum'):
        raise ValueError(
            f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}."
        )


def _check_shapes(pred: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Torch would broadcast (B, 1) and (B,) to (B, B)."""
    if pred.ndim != 2 or pred.shape != target.shape:
        raise ValueError(
            'predictions and targets must both have shape (B, D), got '
            f'{tuple(pred.shape)} and {tuple(target.shape)}.'
        )
    if weight is not None and weight.shape != pred.shape[:1]:
        raise ValueError(
            f'the weights of {len(pred)} samples must have shape '
            f'({len(pred)},), got {tuple(weight.shape)}.'
        )
