# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A linear classifier with post-hoc logit adjustment."""

from typing import Any

from torch import Tensor, nn

from mmgeom.registry import MODELS

from .prior_head import PriorHead


@MODELS.register_module()
class LinearHead(PriorHead):
    r"""Linear classifier, :math:`s = W h + b`.

    The host's ``LinearClsHead`` plus what :class:`PriorHead` adds. The
    feature that ``pre_logits`` returns is the backbone's, unchanged.

    Args:
        num_classes (int): K, positive.
        in_channels (int): Width of the feature, positive.
        init_cfg (dict, optional): Initialisation. Defaults to a normal
            distribution with standard deviation 0.01.
        **kwargs: Arguments of :class:`PriorHead`.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        init_cfg: dict | None = dict(type='Normal', layer='Linear', std=0.01),
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, init_cfg=init_cfg, **kwargs)
        self.fc = nn.Linear(in_channels, num_classes)

    @property
    def class_vectors(self) -> Tensor:
        """The weights :math:`w_k`, shape ``(K, C)``."""
        return self.fc.weight

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Logits.

        Args:
            feats (tuple[Tensor, ...]): The last one has shape ``(N, C)``.

        Returns:
            Tensor: Shape ``(N, K)``.
        """
        return self.fc(self.pre_logits(feats))
