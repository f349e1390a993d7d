# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""One batch of images out of several views of each sample."""

from typing import Any

import torch
from mmpretrain.models import ClsDataPreprocessor
from torch import Tensor

from mmgeom.registry import MODELS

from .views import join_views, require_one_shape


@MODELS.register_module()
class MultiViewDataPreprocessor(ClsDataPreprocessor):
    r"""The host's preprocessor for samples with several views.

    The pipeline gives V views of a sample by the host's ``MultiView`` before
    ``PackInputs``. The V views of B samples leave as one tensor of shape
    ``(V B, C, H, W)``, view-major: row :math:`v B + i` is view :math:`v` of
    sample :math:`i`, so that ``inputs.chunk(V)`` are the views. They are
    normalised and padded as the host does with a batch; labels stay B.
    Samples with one view, those of the test pipeline for instance, go
    through the host's code unchanged.

    Args:
        batch_augments (dict, optional): Must be empty; it is here because
            the host's classifier passes ``model.train_cfg`` on as this
            argument. Defaults to None.
        **kwargs: Other arguments of mmpretrain's ``ClsDataPreprocessor``.

    Raises:
        ValueError: When ``batch_augments`` are given.
    """

    def __init__(
        self, *, batch_augments: dict | None = None, **kwargs: Any
    ) -> None:
        if batch_augments:
            raise ValueError(
                'MultiViewDataPreprocessor takes no batch augmentations, '
                'since contrastive losses need hard labels, but got '
                f'{batch_augments}: remove batch_augments from the data '
                'preprocessor and augments from model.train_cfg.'
            )
        super().__init__(**kwargs)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Join the views and process them as one batch.

        Args:
            data (dict): ``inputs`` of several views as they leave the
                host's collate functions: V tensors of shape
                ``(B, C, H, W)`` (``default_collate``), or V lists of B
                tensors of shape ``(C, H, W)`` (``pseudo_collate``). Inputs
                of one view are those of the host. ``data_samples`` are B,
                or missing.
            training (bool): Handed to the host. Defaults to False.

        Returns:
            dict: ``inputs`` of shape ``(V B, C, H, W)`` and the
            ``data_samples``.

        Raises:
            ValueError: When the views differ in shape, or in number from
                the samples.
        """
        if _has_views(data['inputs']):
            views = [_stack(view) for view in data['inputs']]
            _check_views(views, data.get('data_samples'))
            # Joined on the device, where it takes no time.
            data = {**data, 'inputs': join_views(self.cast_data(views))}
        return super().forward(data, training)


def _has_views(inputs: Tensor | list) -> bool:
    """Whether the inputs are views, and not the images of one view."""
    if isinstance(inputs, Tensor) or not len(inputs):
        return False
    first = inputs[0]
    # The host's lists hold images, of three dimensions.
    return not isinstance(first, Tensor) or first.dim() == 4


def _stack(view: Tensor | list[Tensor]) -> Tensor:
    """One view of all samples, of shape ``(B, C, H, W)``."""
    if isinstance(view, Tensor):
        return view
    require_one_shape(view)
    return torch.stack(list(view))


def _check_views(views: list[Tensor], data_samples: list | None) -> None:
    sizes = {len(view) for view in views}
    if data_samples is not None and sizes != {len(data_samples)}:
        raise ValueError(
            f'each of the {len(views)} views must hold one image of each of '
            f'the {len(data_samples)} samples, but the views hold '
            f'{sorted(sizes)} images: collate with default_collate or '
            'pseudo_collate.'
        )
