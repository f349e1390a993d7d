# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Preprocessing of tabular rows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmgeom.geometry.finite import all_finite
from mmgeom.geometry.standardization import Standardizer
from mmgeom.registry import MODELS

from .stacked_label_data_preprocessor import StackedLabelDataPreprocessor


@MODELS.register_module()
class TabularDataPreprocessor(StackedLabelDataPreprocessor):
    r"""Stack rows, check them, move them, and standardise their columns.

    .. math:: \tilde x_j = (x_j - \mu_j) / \sigma_j

    Mean and standard deviation of each column come from the training data
    through :class:`mmgeom.engine.StandardizationHook` and are part of the
    checkpoint. A constant column becomes zero. Targets and labels are moved
    as by the host's preprocessor.

    Rows are checked for numbers that are not finite where this costs
    nothing, before they leave the CPU.

    Args:
        in_channels (int): Numbers in a row, d, positive.
        standardize (bool): False leaves the columns as they are. Defaults to
            True.
        batch_augments (dict, optional): Batch augmentations of the host that
            work on rows, such as ``dict(augments=dict(type='Mixup',
            alpha=0.2))``; ``train_cfg`` of the model arrives here too.
            Defaults to None.

    Raises:
        ValueError: When ``in_channels`` is not positive.
    """

    def __init__(
        self,
        in_channels: int,
        standardize: bool = True,
        batch_augments: dict | None = None,
    ) -> None:
        super().__init__(batch_augments=batch_augments)
        if in_channels < 1:
            raise ValueError(
                f'in_channels must be positive, got {in_channels}.'
            )
        self.in_channels = in_channels
        self.standardize = standardize
        if standardize:
            self.input_scale = Standardizer(in_channels)
        self._knows_statistics = False

    @property
    def uses_input_statistics(self) -> bool:
        """Whether :meth:`set_input_statistics` changes anything."""
        return self.standardize

    def set_input_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Take mean and standard deviation of the training rows.

        With ``standardize=False`` they are ignored.

        Args:
            mean (Tensor): Shape ``(d,)``.
            std (Tensor): Positive, shape ``(d,)``.

        Raises:
            ValueError: When the data have another number of columns, or a
                value is not finite or not positive.
        """
        if len(mean) != self.in_channels:
            raise ValueError(
                f'the data preprocessor has in_channels={self.in_channels} '
                f'but the training data has {len(mean)} columns: set '
                f'in_channels={len(mean)} there and in the backbone.'
            )
        if self.standardize:
            self.input_scale.set_statistics(mean, std)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Preprocess a batch.

        Args:
            data (dict): ``inputs``, a tensor of shape ``(B, d)`` or a list
                of B tensors of shape ``(d,)``, and perhaps ``data_samples``.
            training (bool): Whether to apply batch augmentations. Defaults
                to False.

        Returns:
            dict: ``inputs``, float32 of shape ``(B, d)`` on the device of
            this module, and ``data_samples``.

        Raises:
            ValueError: When rows have the wrong width, or a number on the
                CPU is not finite.
            RuntimeError: When the statistics were never set and the model is
                trained.
        """
        rows = self._stack(data['inputs'])
        if rows.device.type == 'cpu':
            _require_finite(rows, data.get('data_samples'))
        rows = rows.to(self.device, non_blocking=True)
        if self.standardize:
            if training:
                self._require_statistics()
            rows = self.input_scale(rows)
        return super().forward({**data, 'inputs': rows.float()}, training)

    def _stack(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        if not isinstance(inputs, Tensor):
            for row in inputs:
                self._require_width(row.shape)
            inputs = torch.stack(list(inputs))
        self._require_width(inputs.shape[1:])
        return inputs if inputs.is_floating_point() else inputs.float()

    def _require_width(self, shape: torch.Size) -> None:
        if shape != (self.in_channels,):
            raise ValueError(
                f'a row of the data has shape {tuple(shape)} but the data '
                f'preprocessor has in_channels={self.in_channels}: give rows '
                'of that many numbers.'
            )

    def _require_statistics(self) -> None:
        # Looked at once, since reading a value waits for the device.
        if self._knows_statistics:
            return
        if not self.input_scale.is_fitted:
            raise RuntimeError(
                'the statistics of the input columns are not set: add '
                "dict(type='mmgeom.StandardizationHook') to custom_hooks, or "
                'set standardize=False of the data preprocessor.'
            )
        self._knows_statistics = True


def _require_finite(rows: Tensor, data_samples: Any) -> None:
    if all_finite(rows):
        return
    index, column = (~torch.isfinite(rows)).nonzero()[0].tolist()
    name = f'the row at position {index} of the batch'
    if data_samples is not None and 'sample_idx' in data_samples[index]:
        name = f'the row of sample {data_samples[index].sample_idx}'
    raise ValueError(
        f'{name} holds {rows[index, column].item()} in column {column}: '
        'remove the row or fill in the number.'
    )
