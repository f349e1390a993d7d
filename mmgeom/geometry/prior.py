# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Logit adjustment by class priors."""

import torch
from torch import Tensor, nn

from ..distribution import LabelDistribution
from .precision import at_least_float32


def adjust_logits(logits: Tensor, log_prior: Tensor, tau: float) -> Tensor:
    r"""Shift logits by scaled log priors, in fp32.

    .. math:: s'_k = s_k + \tau \log \pi_k

    With :math:`\tau > 0` inside the loss this is training-time logit
    adjustment, which equals balanced softmax at :math:`\tau = 1`; with
    :math:`-\tau` at test time it is the post-hoc form.

    Source: *Long-Tail Learning via Logit Adjustment* (ICLR 2021), Eq. 9 and
    10; *Balanced Meta-Softmax* (NeurIPS 2020), Eq. 3.

    Args:
        logits (Tensor): Shape ``(..., K)``.
        log_prior (Tensor): Finite, shape ``(K,)``.
        tau (float): Temperature of the prior; 0 leaves the logits as they
            are.

    Returns:
        Tensor: Shape of ``logits``, float32 or wider.

    Raises:
        ValueError: When logits and priors differ in their classes.
    """
    if logits.shape[-1] != len(log_prior):
        raise ValueError(
            f'logits of {logits.shape[-1]} classes do not fit the priors of '
            f'{len(log_prior)} classes: set num_classes of the head and its '
            'loss to the number of classes in the data.'
        )
    logits = at_least_float32(logits)
    if tau == 0:
        return logits
    return logits + tau * log_prior.to(logits.dtype)


class LogPrior(nn.Module):
    r"""The log priors of the training labels, as part of a model's state.

    The buffer ``value`` of shape ``(K,)`` is saved in checkpoints, so that a
    checkpoint alone is enough for evaluation. It holds NaN until a label
    distribution or a checkpoint fills it; using it before is an error.

    Args:
        num_classes (int): K, positive.

    Raises:
        ValueError: When ``num_classes`` is not positive.
    """

    #: Buffers that a label distribution fills, so that a checkpoint need not
    #: have them.
    distribution_buffers = ('value',)

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if num_classes < 1:
            raise ValueError(
                f'num_classes must be positive, got {num_classes}.'
            )
        value = torch.full((num_classes,), float('nan'))
        self.register_buffer('value', value)
        self._is_checked = False

    @property
    def needs_label_distribution(self) -> bool:
        """Whether nothing has filled the priors yet."""
        return not bool(torch.isfinite(self.value).all())

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the priors of the training labels.

        Args:
            distribution (LabelDistribution): Over K classes.

        Raises:
            ValueError: When it has another number of classes.
        """
        if distribution.num_classes != len(self.value):
            raise ValueError(
                f'the model has num_classes={len(self.value)} but the '
                f'training data has {distribution.num_classes} classes: set '
                'num_classes of the head and its loss to the number of '
                'classes in the data.'
            )
        self.value.copy_(distribution.log_prior)
        self._is_checked = True

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        """Look at what a checkpoint brings."""
        super()._load_from_state_dict(*args, **kwargs)
        self._is_checked = not self.needs_label_distribution

    def forward(self) -> Tensor:
        """The log priors.

        Returns:
            Tensor: Shape ``(K,)``, finite.

        Raises:
            RuntimeError: When nothing has filled them yet.
        """
        # Not looked at in each step, since reading a value waits for the
        # device, and breaks a compiled graph.
        if not self._is_checked:
            if self.needs_label_distribution:
                raise RuntimeError(
                    'the class priors are not set: keep '
                    'mmgeom.LabelDistributionHook in the config, load a '
                    'checkpoint trained with it, or call '
                    'set_label_distribution().'
                )
            self._is_checked = True
        return self.value
