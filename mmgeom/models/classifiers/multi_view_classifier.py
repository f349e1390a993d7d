# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A classifier that trains on several views of each image."""

from mmpretrain.models import ClsDataPreprocessor, ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmgeom.registry import MODELS

from ..data_preprocessors.batched_data_preprocessor import (
    BatchedDataPreprocessor,
)
from ..data_preprocessors.multi_view_data_preprocessor import (
    MultiViewDataPreprocessor,
)


@MODELS.register_module()
class MultiViewClassifier(ImageClassifier):
    """The host's classifier for heads that compare views of an image.

    In training the V views of B samples go through backbone and neck in one
    forward pass, so batch normalisation sees the statistics of all views
    together, as in the released code of BCL. The head gets their features
    view-major, shape ``(V B, ...)``: row ``v B + i`` is view v of sample i.
    Its ``num_views`` says what V must be. Feature extraction, prediction and
    test-time augmentation are those of the host, with one view.

    Args:
        backbone (dict | nn.Module): The backbone.
        neck (dict | nn.Module, optional): The neck. Defaults to None.
        head (dict | nn.Module): A head with the attribute ``num_views`` V, a
            positive int, whose ``loss(feats, data_samples)`` takes features
            of V B images and B samples.
        pretrained (str, optional): Path of a checkpoint to start from.
            Defaults to None.
        train_cfg (dict, optional): Must be empty: the host keeps batch
            augmentations there, which mix labels. Defaults to None.
        data_preprocessor (dict | nn.Module, optional): Its type is
            'mmgeom.MultiViewDataPreprocessor' when it names none. Defaults
            to None.
        init_cfg (dict, optional): Initialisation. Defaults to None.

    Raises:
        ValueError: When the head has no ``num_views``, when ``train_cfg``
            asks for batch augmentations, or when the data preprocessor is
            one of the host's, for one view.
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
        if train_cfg:
            raise ValueError(
                'MultiViewClassifier takes no batch augmentations, since '
                'contrastive losses need hard labels, but got '
                f'train_cfg={train_cfg}: set train_cfg=None in the model.'
            )
        if data_preprocessor is None or isinstance(data_preprocessor, dict):
            data_preprocessor = {
                'type': 'mmgeom.MultiViewDataPreprocessor',
                **(data_preprocessor or {}),
            }
        super().__init__(
            backbone,
            neck=neck,
            head=head,
            pretrained=pretrained,
            data_preprocessor=data_preprocessor,
            init_cfg=init_cfg,
        )
        _check_head(self.head)
        _check_data_preprocessor(self.data_preprocessor)

    def loss(self, inputs: Tensor, data_samples: list[DataSample]) -> dict:
        """Losses of a training batch.

        Args:
            inputs (Tensor): All views, view-major, shape
                ``(V B, C, H, W)``.
            data_samples (list[DataSample]): The B samples.

        Returns:
            dict[str, Tensor]: What the head returns.

        Raises:
            ValueError: When there are not V images of each sample.
        """
        num_views, batch_size = self.head.num_views, len(data_samples)
        if len(inputs) != num_views * batch_size:
            raise ValueError(
                f'{type(self.head).__name__} takes {num_views} views of each '
                f'of the {batch_size} samples, but got {len(inputs)} images: '
                "put the training transforms into dict(type='MultiView', "
                f'num_views=[...], ...) with {num_views} views in all before '
                'PackInputs, as the datasets *_views.py in '
                'configs/_base_/datasets do.'
            )
        return super().loss(inputs, data_samples)

    def predict(
        self,
        inputs: Tensor,
        data_samples: list[DataSample] | None = None,
        **kwargs,
    ) -> list[DataSample]:
        """Predictions of images, one view of each sample.

        Args:
            inputs (Tensor): Shape ``(B, C, H, W)``.
            data_samples (list[DataSample], optional): The B samples.
                Defaults to None.
            **kwargs: Other arguments of the head's ``predict``.

        Returns:
            list[DataSample]: The samples with their predictions.

        Raises:
            ValueError: When there are several views of a sample.
        """
        if data_samples is not None and len(inputs) != len(data_samples):
            raise ValueError(
                'prediction takes one view of each of the '
                f'{len(data_samples)} samples, but got {len(inputs)} images: '
                'take MultiView out of the test pipeline.'
            )
        return super().predict(inputs, data_samples, **kwargs)


def _check_head(head: nn.Module | None) -> None:
    num_views = getattr(head, 'num_views', None)
    is_whole = isinstance(num_views, int) and not isinstance(num_views, bool)
    if not is_whole or num_views < 1:
        raise ValueError(
            'MultiViewClassifier needs a head whose num_views is a positive '
            f'whole number, but {type(head).__name__} has '
            f'num_views={num_views!r}: use ImageClassifier for a head that '
            'takes one view.'
        )


def _check_data_preprocessor(data_preprocessor: nn.Module) -> None:
    if isinstance(data_preprocessor, ClsDataPreprocessor) and not isinstance(
        data_preprocessor, (MultiViewDataPreprocessor, BatchedDataPreprocessor)
    ):
        raise ValueError(
            'MultiViewClassifier cannot read several views by '
            f'{type(data_preprocessor).__name__}: leave out the type of '
            "data_preprocessor, or write 'mmgeom.MultiViewDataPreprocessor'."
        )
