# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Cross-entropy with logit adjustment, alias balanced softmax."""

from mmpretrain.models.losses.utils import weight_reduce_loss
from torch import Tensor, nn

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import LogPrior, adjust_logits, soft_cross_entropy
from mmgeom.registry import MODELS


@MODELS.register_module(name=['LogitAdjustedLoss', 'BalancedSoftmaxLoss'])
class LogitAdjustedLoss(nn.Module):
    r"""Cross-entropy on logits shifted by the class priors.

    .. math::
        L = -\sum_k t_k \log \mathrm{softmax}(s + \tau \log \pi)_k

    At test time the plain logits ``s`` decide. :math:`\tau = 1` is balanced
    softmax (this class is registered under that name too), :math:`\tau = 0`
    plain cross-entropy. Hard labels and the soft labels of Mixup and CutMix
    both work; the mixture of the two labels' losses is the loss of the mixed
    label, because the shift does not depend on the label.

    The priors come from the training data through
    :class:`mmgeom.engine.LabelDistributionHook` and are saved with the
    model. A class without training samples counts as one sample.

    Source: *Long-Tail Learning via Logit Adjustment* (ICLR 2021), Eq. 10;
    *Balanced Meta-Softmax* (NeurIPS 2020), Eq. 3.

    Args:
        num_classes (int): K. Heads of this package fill it in.
        tau (float): Temperature of the prior, not negative. Defaults to 1.0.
        reduction (str): ``'none'``, ``'mean'`` or ``'sum'``. Defaults to
            ``'mean'``.
        loss_weight (float): Factor of the loss. Defaults to 1.0.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_classes: int,
        tau: float = 1.0,
        reduction: str = 'mean',
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__()
        if not tau >= 0:
            raise ValueError(f'tau must not be negative, got {tau}.')
        if reduction not in ('none', 'mean', 'sum'):
            raise ValueError(
                "reduction must be 'none', 'mean' or 'sum', got "
                f'{reduction!r}.'
            )
        self.tau = tau
        self.reduction = reduction
        self.loss_weight = loss_weight
        self.log_prior = LogPrior(num_classes)

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the priors of the training labels.

        Args:
            distribution (LabelDistribution): Over K classes.
        """
        self.log_prior.set_label_distribution(distribution)

    def forward(
        self,
        cls_score: Tensor,
        label: Tensor,
        weight: Tensor | None = None,
        avg_factor: int | None = None,
        reduction_override: str | None = None,
        **kwargs,
    ) -> Tensor:
        """Compute the loss.

        Args:
            cls_score (Tensor): Logits, shape ``(N, K)``.
            label (Tensor): Class indices ``(N,)`` or soft labels ``(N, K)``.
            weight (Tensor, optional): Factor of each sample, shape ``(N,)``.
                Defaults to None.
            avg_factor (int, optional): Divisor of the mean. Defaults to
                None, which means N.
            reduction_override (str, optional): Replaces ``reduction`` for
                this call. Defaults to None.
            **kwargs: Ignored, as in the host's losses.

        Returns:
            Tensor: A scalar, or shape ``(N,)`` without reduction.
        """
        prior = self.log_prior() if self.tau else self.log_prior.value
        logits = adjust_logits(cls_score, prior, self.tau)
        loss = soft_cross_entropy(logits, label)
        loss = weight_reduce_loss(
            loss, weight, reduction_override or self.reduction, avg_factor
        )
        return self.loss_weight * loss
