# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Augment whole batches on the device."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmgeom.augmentation_names import IN_VIEWS
from mmgeom.geometry.collectives import rank
from mmgeom.geometry.step_generator import StepGenerator
from mmgeom.registry import MODELS

from .stacked_label_data_preprocessor import StackedLabelDataPreprocessor
from .views import join_views, require_one_shape

#: An odd constant that spreads ranks over all seeds.
_RANK_FACTOR = 0xA24BAED4963EE407


@MODELS.register_module()
class BatchedDataPreprocessor(StackedLabelDataPreprocessor):
    r"""The host's preprocessor with random transforms of whole batches.

    In training each image of a batch is transformed with random numbers of
    its own, all of them at once and on the device, before the host converts
    colours, normalises, pads and mixes. Made for
    :class:`~mmgeom.datasets.BatchedDataset`; images of other datasets, which
    must have one shape, are transformed too. In evaluation this is the
    host's preprocessor.

    With ``views`` the V views of B samples leave as one tensor of shape
    ``(V B, C, H, W)``, view-major, as ``mmgeom.MultiViewClassifier`` wants
    them: row :math:`v B + i` is view :math:`v` of sample :math:`i`.

    Random numbers depend on the seed, the rank and the number of training
    steps, which is part of the checkpoint: a resumed run draws what an
    uninterrupted one does. Global generators are not used, except by the
    host's batch augmentations.

    Args:
        augmentations (Sequence[dict], optional): Configs of
            ``mmgeom.BatchRandomCrop`` and its like, applied in this order.
            Defaults to None.
        views (Sequence[Sequence[dict]], optional): Augmentations of each
            view, instead of ``augmentations``. Defaults to None.
        seed (int, optional): Of the augmentations, not negative. Defaults to
            None: torch's, which the runner sets from ``randomness``.
        batch_augments (dict, optional): The host's Mixup and its like.
            Defaults to None.
        **kwargs: Other arguments of mmpretrain's ``ClsDataPreprocessor``.

    Raises:
        ValueError: When ``views`` are empty, or given together with
            ``augmentations`` or ``batch_augments``, or an augmentation is
            none of a batch.
    """

    def __init__(
        self,
        augmentations: Sequence[dict] | None = None,
        views: Sequence[Sequence[dict]] | None = None,
        seed: int | None = None,
        batch_augments: dict | None = None,
        **kwargs: Any,
    ) -> None:
        if views is not None:
            _check_views(views, augmentations, batch_augments)
        super().__init__(batch_augments=batch_augments, **kwargs)
        pipelines = [augmentations or []] if views is None else views
        self.pipelines = nn.ModuleList(
            nn.ModuleList(map(_built, pipeline)) for pipeline in pipelines
        )
        self.seed = torch.initial_seed() if seed is None else seed
        self.steps = StepGenerator(self.seed)

    @property
    def num_views(self) -> int:
        """Views of an image that leave in training."""
        return len(self.pipelines)

    def reset_epochs(self) -> None:
        """Draw the numbers of the first step next."""
        self.steps.reset()

    def forward(self, data: dict, training: bool = False) -> dict:
        """Preprocess a batch.

        Args:
            data (dict): ``inputs``, a tensor of shape ``(B, C, H, W)`` or B
                tensors of shape ``(C, H, W)``; and ``data_samples``, or none.
            training (bool): Whether to augment. Defaults to False.

        Returns:
            dict: ``inputs``, float32 of shape ``(B, C, H, W)``, in training
            with V views ``(V B, C, H, W)``, and the B ``data_samples``.

        Raises:
            ValueError: When images to augment differ in shape, or come in
                several views.
        """
        if training and (self.num_views > 1 or len(self.pipelines[0])):
            images = self._augmented(_one_batch(data['inputs']))
            data = {**data, 'inputs': images}
        return super().forward(data, training)

    # A new generator for each step, for each of which torch.compile would
    # make a graph.
    @torch.compiler.disable
    @torch.no_grad()
    def _augmented(self, images: Tensor) -> Tensor:
        images = images.to(self.device, non_blocking=True)
        # The rank is known when training starts, not when models are built.
        self.steps.seed = self.seed + rank() * _RANK_FACTOR
        generator = self.steps(images.device)
        views = []
        for pipeline in self.pipelines:
            view = images
            for augmentation in pipeline:
                view = augmentation(view, generator)
            views.append(view)
        return join_views(views)


def _built(config: dict) -> nn.Module:
    # What is no config, or has no type, is refused by the registry.
    name = config.get('type') if isinstance(config, Mapping) else None
    if isinstance(name, str) and MODELS.get(name) is None:
        plain = name.rpartition('.')[2]
        hint = 'write one of your own and register it in mmgeom.MODELS'
        if plain in IN_VIEWS:
            hint = f'that of a batch is mmgeom.{IN_VIEWS[plain]}'
        raise ValueError(
            f'{name!r} is no augmentation of a batch, as '
            f'{sorted(IN_VIEWS.values())} are: {hint}.'
        )
    return MODELS.build(config)


def _one_batch(inputs: Tensor | Sequence) -> Tensor:
    """Images as one tensor, if they are one view of each sample."""
    if isinstance(inputs, Tensor):
        return inputs
    if inputs and isinstance(inputs[0], Tensor) and inputs[0].dim() == 3:
        require_one_shape(inputs)
        return torch.stack(list(inputs))
    raise ValueError(
        'BatchedDataPreprocessor makes the views of an image itself, but the '
        f'inputs are a list of {len(inputs)} views: leave MultiView out of '
        'the training pipeline.'
    )


def _check_views(
    views: Sequence, augmentations: Any, batch_augments: Any
) -> None:
    if augmentations:
        raise ValueError(
            'give augmentations for one view or views for several to '
            'BatchedDataPreprocessor, not both.'
        )
    if batch_augments:
        raise ValueError(
            'views take no batch augmentations, since contrastive losses '
            f'need hard labels, but got {batch_augments}: remove '
            'batch_augments from the data preprocessor and augments from '
            'model.train_cfg.'
        )
    if not len(views):
        raise ValueError(
            'views=[] has no view: give a list of augmentations for each.'
        )
