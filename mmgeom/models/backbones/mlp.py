# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A fully connected network for tabular rows."""

from collections.abc import Sequence
from itertools import pairwise

from mmpretrain.models.backbones.base_backbone import BaseBackbone
from torch import Tensor, nn

from mmgeom.registry import MODELS


@MODELS.register_module()
class MLP(BaseBackbone):
    r"""Linear layers with an activation after each.

    .. math:: h_l = \phi(W_l h_{l-1} + b_l)

    The feature is the activation of the last hidden layer. The default
    widths are those of SRL (CVPR 2025) for tabular rows.

    Args:
        in_channels (int): Numbers in a row, d, positive.
        hidden_channels (Sequence[int]): Widths of the hidden layers,
            positive. None at all makes the row itself the feature, and so a
            linear regression of the head. Defaults to ``(20, 30, 10)``.
        act_cfg (dict): The activation. Defaults to ``dict(type='ReLU')``.
        weight_std (float, optional): Standard deviation of normally
            distributed initial weights, with biases of zero; operator
            learning uses 0.001. Defaults to None, which means torch's
            initialisation of linear layers.
        init_cfg (dict, optional): Any other initialisation. Defaults to
            None.

    Raises:
        ValueError: When a width or ``weight_std`` is not positive, or both
            ``weight_std`` and ``init_cfg`` are given.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int] = (20, 30, 10),
        act_cfg: dict = dict(type='ReLU'),
        weight_std: float | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        widths = (in_channels, *hidden_channels)
        if min(widths) < 1:
            raise ValueError(
                'in_channels and hidden_channels must be positive, got '
                f'{in_channels} and {tuple(hidden_channels)}.'
            )
        if weight_std is not None:
            if not weight_std > 0:
                raise ValueError(
                    f'weight_std must be positive, got {weight_std}.'
                )
            if init_cfg is not None:
                raise ValueError(
                    f'weight_std={weight_std} and init_cfg={init_cfg} both '
                    'say how weights start: give one of them.'
                )
            init_cfg = dict(type='Normal', layer='Linear', std=weight_std)
        super().__init__(init_cfg=init_cfg)
        self.in_channels = in_channels
        self.out_channels = widths[-1]
        layers: list[nn.Module] = []
        for inner, outer in pairwise(widths):
            layers += [nn.Linear(inner, outer), MODELS.build(dict(act_cfg))]
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> tuple[Tensor]:
        """Features of a batch.

        Args:
            inputs (Tensor): Shape ``(B, ...)``, d numbers a sample.

        Returns:
            tuple[Tensor]: One tensor of shape ``(B, C)``.

        Raises:
            ValueError: When a sample has another number of numbers.
        """
        rows = inputs.flatten(1)
        if rows.shape[1] != self.in_channels:
            raise ValueError(
                f'a sample of shape {tuple(inputs.shape[1:])} holds '
                f'{rows.shape[1]} numbers but the MLP has in_channels='
                f'{self.in_channels}: set in_channels={rows.shape[1]}.'
            )
        return (self.layers(rows),)
