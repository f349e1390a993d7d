# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A model that predicts numbers."""

from typing import Any

from mmpretrain.models import ImageClassifier
from mmpretrain.models.heads import ClsHead
from torch import nn

from mmgeom.registry import MODELS


@MODELS.register_module()
class ImageRegressor(ImageClassifier):
    """Backbone, neck and regression head.

    It has the arguments and the methods of the host's ``ImageClassifier``:
    ``extract_feat`` with its stages, ``loss``, ``predict``, and ``forward``
    with ``mode='tensor'``, which returns predictions in original units, of
    shape ``(B, D)``. With a data preprocessor of the type
    ``mmgeom.TabularDataPreprocessor`` and the backbone ``mmgeom.MLP`` it is
    a model of tabular rows.

    Batch augmentations mix targets as they mix inputs: with Mixup the target
    of a mixture is the mixture of the two targets. A head whose attribute
    ``takes_mixed_targets`` is False, such as ``mmgeom.SRLHead``, refuses them.

    Args:
        backbone (dict | nn.Module): The backbone.
        neck (dict | nn.Module, optional): The neck, such as
            ``dict(type='GlobalAveragePooling')`` for feature maps. Defaults
            to None.
        head (dict | nn.Module, optional): A regression head. Defaults to
            None, with which only features can be extracted.
        pretrained (str, optional): Path or address of a checkpoint. Defaults
            to None.
        train_cfg (dict, optional): Batch augmentations, ``augments`` and
            ``probs``. Defaults to None.
        data_preprocessor (dict | nn.Module, optional): Defaults to None,
            which means the host's ``ClsDataPreprocessor``.
        init_cfg (dict, optional): Initialisation. Defaults to None.

    Raises:
        TypeError: When the head is one for classes.
        ValueError: When there are batch augmentations but the head takes no
            mixed targets.
    """

    def __init__(
        self,
        backbone: dict | nn.Module,
        neck: dict | nn.Module | None = None,
        head: dict | nn.Module | None = None,
        pretrained: str | None = None,
        train_cfg: dict | None = None,
        data_preprocessor: dict | nn.Module | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        if isinstance(data_preprocessor, dict):
            # The host fills defaults into the dict it is given.
            data_preprocessor = type(data_preprocessor)(data_preprocessor)
        arguments: dict[str, Any] = dict(
            backbone=backbone,
            neck=neck,
            head=head,
            pretrained=pretrained,
            train_cfg=train_cfg,
            data_preprocessor=data_preprocessor,
            init_cfg=init_cfg,
        )
        super().__init__(**arguments)
        if isinstance(self.head, ClsHead):
            raise TypeError(
                'ImageRegressor needs a regression head such as '
                f'mmgeom.RegressorHead, got {type(self.head).__name__}, '
                "which predicts classes: use it in mmpretrain's "
                'ImageClassifier.'
            )
        mixes = getattr(self.data_preprocessor, 'batch_augments', None)
        if mixes is not None and not getattr(
            self.head, 'takes_mixed_targets', True
        ):
            raise ValueError(
                f'{type(self.head).__name__} cannot place mixed targets in '
                'label bins, but batch augmentations are given: remove '
                'augments from model.train_cfg and batch_augments from the '
                'data preprocessor.'
            )
