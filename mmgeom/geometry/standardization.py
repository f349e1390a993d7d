# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Mean and standard deviation of the training data, as a model's state."""

import torch
from torch import Tensor, nn

from .precision import at_least_float32


class Standardizer(nn.Module):
    r"""Bring columns to mean 0 and standard deviation 1, and back.

    .. math:: \tilde x = (x - \mu) / \sigma

    The buffers ``mean`` and ``std`` of shape ``(D,)``, float32, are saved in
    checkpoints. Until :meth:`set_statistics` or a checkpoint fills them they
    are 0 and 1, the identity, and ``fitted`` is 0.

    Args:
        dim (int): Number of columns D, positive.

    Raises:
        ValueError: When ``dim`` is not positive.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < 1:
            raise ValueError(
                f'the number of columns must be positive, got {dim}.'
            )
        self.register_buffer('mean', torch.zeros(dim))
        self.register_buffer('std', torch.ones(dim))
        # A number, since averages of models cannot hold truth values.
        self.register_buffer('fitted', torch.zeros(()))

    @property
    def is_fitted(self) -> bool:
        """Whether statistics were set. Waits for the device."""
        return bool(self.fitted > 0)

    @torch.no_grad()
    def set_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Take the statistics of the training data.

        Args:
            mean (Tensor): Finite, shape ``(D,)``.
            std (Tensor): Finite and positive, shape ``(D,)``.

        Raises:
            ValueError: When shapes or values are wrong.
        """
        for name, value in (('mean', mean), ('std', std)):
            if value.shape != self.mean.shape:
                raise ValueError(
                    f'the {name} of {len(self.mean)} columns must have shape '
                    f'({len(self.mean)},), got {tuple(value.shape)}.'
                )
            if not bool(torch.isfinite(value).all()):
                raise ValueError(
                    f'the {name} must be finite, got {value.tolist()}.'
                )
        # In the precision of the buffer, where a tiny number may become 0.
        if not bool((std.to(self.std.dtype) > 0).all()):
            raise ValueError(
                f'the std must be positive, got {std.tolist()}: give 1 for a '
                'constant column.'
            )
        self.mean.copy_(mean)
        self.std.copy_(std)
        self.fitted.fill_(1)

    def forward(self, values: Tensor) -> Tensor:
        """Standardise.

        Args:
            values (Tensor): Shape ``(..., D)``, in original units.

        Returns:
            Tensor: Same shape, float32 or wider.
        """
        return (at_least_float32(values) - self.mean) / self.std

    def inverse(self, values: Tensor) -> Tensor:
        """Undo the standardisation.

        Args:
            values (Tensor): Shape ``(..., D)``, standardised.

        Returns:
            Tensor: Same shape in original units, float32 or wider.
        """
        return at_least_float32(values) * self.std + self.mean
