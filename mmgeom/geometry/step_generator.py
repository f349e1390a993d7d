# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Random numbers that a resumed run continues."""

from typing import Any

import torch
from torch import nn

#: Two odd constants that spread seeds and steps over all seeds.
_SEED_FACTOR, _STEP_FACTOR = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


class StepGenerator(nn.Module):
    """One random generator for each step, by seed and number of the step.

    The number of steps taken is the only state: a persistent buffer, so that
    a run that is saved and resumed draws the same numbers as one that is
    not. The generator does not depend on the rank, and touches no global
    one.

    Args:
        seed (int): Seed, not negative. Defaults to 0.

    Raises:
        ValueError: When the seed is negative.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        if seed < 0:
            raise ValueError(f'a seed must not be negative, got {seed}.')
        self.seed = seed
        # Averaging of models leaves whole numbers alone, or floors them.
        self.register_buffer('step', torch.zeros((), dtype=torch.float64))
        # The buffer's value on the host, since reading it from another
        # device waits.
        self._step: int | None = 0

    @property
    def steps_taken(self) -> int:
        """Number of steps taken; waits for the device after loading."""
        if self._step is None:
            self._step = int(self.step)
        return self._step

    def reset(self) -> None:
        """Start with the first step again."""
        self.go_to(0)

    def go_to(self, step: int) -> None:
        """Go on with another step.

        Args:
            step (int): Number of steps taken before it.
        """
        self.step.fill_(step)
        self._step = step

    def forward(self, device: torch.device | str) -> torch.Generator:
        """The generator of the next step.

        Args:
            device (torch.device | str): Where numbers are drawn.

        Returns:
            torch.Generator: A new one.
        """
        step = self.steps_taken
        value = self.seed * _SEED_FACTOR + step * _STEP_FACTOR
        self.step += 1
        self._step = step + 1
        # Seeds are 64 bits; the sign bit is left out.
        value = (value ^ (value >> 31)) & (2**63 - 1)
        return torch.Generator(device).manual_seed(value)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Look again at what a checkpoint brings."""
        super()._load_from_state_dict(*args, **kwargs)
        self._step = None
