# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Widen a feature so that a frame fits into it."""

import math

import torch
from torch import Tensor, nn


class FeatureExpansion(nn.Module):
    r"""Linear map to a wider feature, dense or in blocks.

    With ``groups = g`` the input is cut into g parts and each is mapped to
    its own part of the output, so that the weights are g times fewer:
    ``in_channels * out_channels / g``. The frame stays exactly orthonormal;
    what is given up is that every output sees every input. A frame with
    dense directions mixes the outputs again, so that each class still sees
    all of the input.

    Args:
        in_channels (int): Width of the input, a multiple of ``groups``.
        out_channels (int): Width of the output. If it is no multiple of
            ``groups``, the last part is cut.
        groups (int): Number of blocks. Defaults to 1, a dense map.

    Raises:
        ValueError: When ``groups`` does not divide ``in_channels``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, groups: int = 1
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups:
            raise ValueError(
                f'expand_groups must divide in_channels={in_channels}, got '
                f'{groups}.'
            )
        self.groups = groups
        self.out_channels = out_channels
        part_in = in_channels // groups
        part_out = math.ceil(out_channels / groups)
        self.weight = nn.Parameter(torch.empty(groups, part_in, part_out))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as :class:`torch.nn.Linear` does."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Map features.

        Args:
            x (Tensor): Shape ``(B, in_channels)``.

        Returns:
            Tensor: Shape ``(B, out_channels)``.
        """
        if self.groups == 1:
            return torch.addmm(self.bias, x, self.weight[0])
        parts = x.reshape(len(x), self.groups, -1).transpose(0, 1)
        wide = torch.bmm(parts, self.weight).transpose(0, 1).flatten(1)
        return wide[:, : self.out_channels] + self.bias
