# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Supervised contrastive learning beside a classifier."""

from typing import Any

from torch import Tensor

from mmgeom.geometry import supervised_contrastive_loss
from mmgeom.registry import MODELS

from .contrastive_head import ContrastiveHead


@MODELS.register_module()
class SupConHead(ContrastiveHead):
    r"""Classifier with a supervised contrastive loss on two further views.

    The baseline of the contrastive methods: every sample attracts the others
    of its class and repels all, so that head classes dominate. With several
    processes the features of all ranks are contrasted with each other.

    Source: *Supervised Contrastive Learning* (NeurIPS 2020), Eq. 2, trained
    together with the classifier instead of before it.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the feature.
        temperature (float): :math:`\tau`, positive. Defaults to 0.1.
        **kwargs: Arguments of
            :class:`~mmgeom.models.heads.ContrastiveHead`.

    Raises:
        ValueError: When an argument is out of its range.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        temperature: float = 0.1,
        **kwargs: Any,
    ) -> None:
        check_temperature('temperature', temperature)
        super().__init__(num_classes, in_channels, **kwargs)
        self.temperature = temperature

    def contrast(self, features: Tensor, labels: Tensor) -> dict:
        """Contrast all features of the batch; as the base class says."""
        loss = supervised_contrastive_loss(
            features,
            labels,
            self.temperature,
            implementation=self.implementation,
            across_ranks=True,
        )
        return dict(loss_contrast=loss)


def check_temperature(name: str, value: float) -> None:
    """Refuse a temperature that is not positive and finite.

    Args:
        name (str): Of the argument.
        value (float): The temperature.

    Raises:
        ValueError: When it is not positive and finite.
    """
    if not 0 < value < float('inf'):
        raise ValueError(f'{name} must be positive and finite, got {value}.')
