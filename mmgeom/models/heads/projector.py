# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The map from features to the sphere on which they are contrasted."""

from torch import Tensor, nn

from mmgeom.geometry import unit_vectors


class Projector(nn.Sequential):
    r"""A multilayer perceptron of two layers onto the unit sphere.

    .. math:: z = \frac{p}{\|p\|}, \qquad
        p = W_2 \, \mathrm{ReLU}(\mathrm{BN}(W_1 x + b_1)) + b_2

    Args:
        in_channels (int): Width of the features, positive.
        hidden_channels (int): Width of the hidden layer, positive.
        out_channels (int): Dimension h of the sphere's space, positive.
        norm (bool): With batch normalisation. Defaults to True.

    Raises:
        ValueError: When a width is not positive.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        norm: bool = True,
    ) -> None:
        for name, value in (
            ('in_channels', in_channels),
            ('hidden_channels', hidden_channels),
            ('out_channels', out_channels),
        ):
            if value < 1:
                raise ValueError(
                    f'{name} of a projector must be positive, got {value}.'
                )
        layers = [nn.Linear(in_channels, hidden_channels)]
        if norm:
            layers.append(nn.BatchNorm1d(hidden_channels))
        layers += [nn.ReLU(), nn.Linear(hidden_channels, out_channels)]
        super().__init__(*layers)
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> Tensor:
        """Project.

        Args:
            x (Tensor): Shape ``(N, C)``.

        Returns:
            Tensor: Unit rows, shape ``(N, h)``, float32 or wider.
        """
        return unit_vectors(super().forward(x))
