# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What the classification heads of this package have in common."""

import inspect
from collections.abc import Sequence
from typing import Any

from mmpretrain.models.heads import ClsHead
from mmpretrain.structures import DataSample
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import LogPrior, adjust_logits
from mmgeom.registry import MODELS
from mmgeom.structures import BatchSamples, batch_target


class PriorHead(ClsHead):
    r"""A classification head that knows the class priors.

    Adds two things to the host's head: the number of classes is filled into
    the config of a loss that asks for it, and predictions can be adjusted
    after training,

    .. math:: \hat y = \arg\max_k\, s_k - \tau \log \pi_k ,

    which changes :meth:`predict` and leaves the training loss and
    ``forward`` alone. Source: *Long-Tail Learning via Logit Adjustment*
    (ICLR 2021), Eq. 9.

    Args:
        num_classes (int): K, positive.
        in_channels (int): Width of the feature, positive.
        post_hoc_tau (float): Temperature of the post-hoc adjustment, not
            negative, 0 for none. Not meant to be combined with a loss that
            is adjusted itself. Defaults to 0.0.
        loss (dict): Config of the loss. Defaults to cross-entropy.
        **kwargs: Arguments of mmpretrain's ``ClsHead``.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        post_hoc_tau: float = 0.0,
        loss: dict = dict(type='CrossEntropyLoss', loss_weight=1.0),
        **kwargs: Any,
    ) -> None:
        for name, value in (
            ('num_classes', num_classes),
            ('in_channels', in_channels),
        ):
            if value < 1:
                raise ValueError(f'{name} must be positive, got {value}.')
        if not post_hoc_tau >= 0:
            raise ValueError(
                f'post_hoc_tau must not be negative, got {post_hoc_tau}.'
            )
        super().__init__(loss=with_num_classes(loss, num_classes), **kwargs)
        self.num_classes = num_classes
        self.in_channels = in_channels
        self.post_hoc_tau = post_hoc_tau
        self.log_prior = LogPrior(num_classes)

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the priors of the training labels.

        Args:
            distribution (LabelDistribution): Over K classes.

        Raises:
            ValueError: When it has another number of classes.
        """
        self.log_prior.set_label_distribution(distribution)

    def _get_loss(
        self, cls_score: Tensor, data_samples: Sequence, **kwargs: Any
    ) -> dict:
        """The host's; labels that are one tensor are not taken apart."""
        if not isinstance(data_samples, BatchSamples):
            return super()._get_loss(cls_score, data_samples, **kwargs)
        target = batch_target(data_samples)
        loss = self.loss_module(
            cls_score, target, avg_factor=len(cls_score), **kwargs
        )
        losses = dict(loss=loss)
        if self.cal_acc:
            losses.update(top_accuracies(cls_score, target, self.topk))
        return losses

    def _get_predictions(
        self, cls_score: Tensor, data_samples: list | None
    ) -> list[DataSample]:
        """Adjust the logits if asked to, then predict as the host does."""
        if self.post_hoc_tau:
            cls_score = adjust_logits(
                cls_score, self.log_prior(), -self.post_hoc_tau
            )
        return super()._get_predictions(cls_score, data_samples)


def top_accuracies(
    scores: Tensor, target: Tensor, topk: Sequence[int]
) -> dict[str, Tensor]:
    """Accuracies of a training batch, under the names of the host.

    Args:
        scores (Tensor): Shape ``(B, K)``.
        target (Tensor): Classes, shape ``(B,)``.
        topk (Sequence[int]): How many guesses each has.

    Returns:
        dict[str, Tensor]: ``accuracy_top-k`` in percent.

    Raises:
        ValueError: When labels are mixed.
    """
    from mmpretrain.evaluation.metrics import Accuracy

    if target.ndim != 1:
        raise ValueError(
            'cal_acc needs hard labels, but the labels of this batch are '
            'mixed: switch it off with Mixup and CutMix.'
        )
    values = Accuracy.calculate(scores, target, topk=topk)
    return {f'accuracy_top-{k}': value for k, value in zip(topk, values)}


def with_num_classes(loss: Any, num_classes: int) -> Any:
    """Fill the number of classes into the config of a loss that takes it.

    Args:
        loss (Any): Config of a loss; anything else is returned as it is.
        num_classes (int): K.

    Returns:
        Any: The config, completed.

    Raises:
        ValueError: When the config names another number of classes.
    """
    if not isinstance(loss, dict):
        return loss
    cls = loss.get('type')
    if isinstance(cls, str):
        cls = MODELS.get(cls)
    if cls is None or 'num_classes' not in inspect.signature(cls).parameters:
        return loss
    given = loss.get('num_classes', num_classes)
    if given is not None and given != num_classes:
        raise ValueError(
            f'the head has num_classes={num_classes} but its loss has '
            f'num_classes={given}: leave it out of the loss.'
        )
    return {**loss, 'num_classes': num_classes}
