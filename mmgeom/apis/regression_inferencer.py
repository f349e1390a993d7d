# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Predict numbers from images or rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from mmcv.image import imread
from mmengine.config import Config
from mmengine.dataset import Compose, default_collate
from mmengine.model import BaseModel
from mmpretrain.apis.base import BaseInferencer, InputType, ModelType
from mmpretrain.apis.model import list_models as host_list_models
from mmpretrain.datasets import remove_transform
from mmpretrain.registry import TRANSFORMS
from mmpretrain.structures import DataSample

from mmgeom.datasets.tabular_rows import RowEncoder, as_rows, as_table
from mmgeom.models.data_preprocessors.tabular_data_preprocessor import (
    TabularDataPreprocessor,
)

from .models import get_model, register_models
from .trained_model import (
    load_weights,
    named_weights,
    require_regressor,
    require_statistics,
)


class RegressionInferencer(BaseInferencer):
    """Predict with a regression model, in original units.

    As the host's ``ImageClassificationInferencer``. A model whose data
    preprocessor is a ``mmgeom.TabularDataPreprocessor`` takes rows of
    numbers, any other takes images, which go through the test pipeline of
    the config. Arrays of images are taken to be in BGR order, as
    ``cv2.imread`` gives them.

    Where the checkpoint is that of a ``mmgeom.TabularDataset`` of named
    columns, rows may also be given as in its file: see :meth:`__call__`.

    Args:
        model (BaseModel | str | Config): Name of one of our or of
            mmpretrain's models, path of a config file, config, or model. A
            model for images must come from :func:`mmgeom.apis.models
            .get_model`, which keeps the config with it.
        pretrained (str | bool): Path or address of a checkpoint, which must
            have all weights of the model. Defaults to True, which means the
            weights that the model's name or the ``load_from`` of the config
            stands for, and for a model that is built those it has.
        device (str | torch.device, optional): Defaults to None, which leaves
            the model where it is.
        **kwargs: ``device_map`` and ``offload_folder`` of the host's
            inferencers, and settings of a model that is not built.

    Raises:
        TypeError: When the model is not a regressor.
        ValueError: When there is no model of that name, no trained weights
            are given, the checkpoint is that of another model, or the config
            of a model for images has no test pipeline.

    Examples:
        >>> predict = RegressionInferencer('model.py', 'epoch_60.pth')
        >>> predict([[0.1, 2.5, 3.0], [0.3, 1.5, 2.0]], batch_size=2)
        [{'pred_score': [41.2], 'pred_value': 41.2},
         {'pred_score': [37.9], 'pred_value': 37.9}]
    """

    def __init__(
        self,
        model: ModelType,
        pretrained: bool | str = True,
        device: str | torch.device | None = None,
        **kwargs: Any,
    ) -> None:
        register_models()
        placement = {
            name: kwargs.pop(name)
            for name in ('device_map', 'offload_folder')
            if name in kwargs
        }
        given = isinstance(model, BaseModel)
        if not given:
            model = get_model(model, **kwargs)
        require_regressor(model)
        if pretrained is True and not given:
            pretrained = named_weights(model)
        if isinstance(pretrained, str):
            load_weights(model, pretrained)
        require_statistics(model)
        if not hasattr(model, '_config'):
            # A model that a runner built; the base class reads its config.
            model._config = Config()
        super().__init__(model, False, device, **placement)
        self.encoder = self._row_encoder()

    def __call__(
        self,
        inputs: InputType,
        return_datasamples: bool = False,
        batch_size: int = 1,
        **kwargs: Any,
    ) -> list[dict] | list[DataSample]:
        """Predict.

        Args:
            inputs (str | np.ndarray | list): For images a path, an array of
                shape ``(H, W, C)``, a folder, or a list of paths and arrays.
                For rows of d numbers an array or list of shape ``(d,)`` or
                ``(N, d)``, or a list of arrays. With named columns a row may
                also be a dict of values by column, or a list of a value for
                each input column of the file, in its order; categories are
                then given by their names.
            return_datasamples (bool): Return data samples instead of dicts.
                Defaults to False.
            batch_size (int): Defaults to 1.
            **kwargs: None are known.

        Returns:
            list[dict] | list[DataSample]: For each input a dict of
            ``pred_score``, a list of D floats in original units, and, if
            there is one target, ``pred_value``, that float.

        Raises:
            ValueError: When rows have no or different widths, a column is
                missing, a category is not known, or an image cannot be read.
        """
        return super().__call__(
            inputs, return_datasamples, batch_size, **kwargs
        )

    @property
    def is_tabular(self) -> bool:
        """Whether the inputs are rows of numbers."""
        return isinstance(
            self.model.data_preprocessor, TabularDataPreprocessor
        )

    def preprocess(self, inputs: list, batch_size: int = 1) -> Iterator[dict]:
        """Make batches.

        Args:
            inputs (list): Of :meth:`_inputs_to_list`.
            batch_size (int): Defaults to 1.

        Yields:
            dict: A batch for ``model.test_step``.
        """
        items = map(self.pipeline, inputs)
        for chunk in self._get_chunk_data(items, batch_size):
            yield default_collate(chunk)

    def postprocess(
        self,
        preds: list[DataSample],
        visualization: None,
        return_datasamples: bool = False,
    ) -> list[dict] | list[DataSample]:
        """Make plain Python of predictions.

        Args:
            preds (list[DataSample]): With ``pred_score``.
            visualization (None): There is none.
            return_datasamples (bool): Return ``preds``. Defaults to False.

        Returns:
            list[dict] | list[DataSample]: See :meth:`__call__`.
        """
        if return_datasamples:
            return preds
        results = []
        for sample in preds:
            values = sample.pred_score.tolist()
            results.append(dict(pred_score=values))
            if len(values) == 1:
                results[-1]['pred_value'] = values[0]
        return results

    @staticmethod
    def list_models(pattern: str | None = None) -> list[str]:
        """Names of regression models.

        Args:
            pattern (str, optional): With wildcards. Defaults to None, which
                means all.

        Returns:
            list[str]: In alphabetical order.
        """
        register_models()
        return host_list_models(pattern=pattern, task='Regression')

    def _inputs_to_list(self, inputs: Any) -> list:
        if not self.is_tabular:
            return super()._inputs_to_list(inputs)
        table = as_table(inputs)
        if table is not None and table.ndim not in (1, 2):
            raise ValueError(
                f'rows must have shape (d,) or (N, d), got {table.shape}.'
            )
        if self.encoder is None:
            if table is None:
                raise ValueError(
                    'the inputs are no table of numbers: give an array of '
                    'shape (d,) or (N, d). Rows by column name, and names of '
                    'categories, need a model whose weights are loaded from '
                    'a checkpoint of mmgeom.TabularDataset.'
                )
            return list(np.atleast_2d(table))
        if table is not None and table.shape[-1] == self.encoder.num_inputs:
            return list(np.atleast_2d(table))
        rows = as_rows(inputs)
        return [self.encoder(row, index) for index, row in enumerate(rows)]

    def _row_encoder(self) -> RowEncoder | None:
        """How the training file's rows were encoded, if that is known."""
        if not self.is_tabular:
            return None
        metainfo = getattr(self.model, '_dataset_meta', None)
        encoder = RowEncoder.from_metainfo(metainfo)
        width = self.model.data_preprocessor.in_channels
        # A pipeline may have made other inputs of the columns.
        known = encoder is not None and encoder.num_inputs == width
        return encoder if known else None

    def _init_pipeline(self, cfg: Config) -> Callable:
        if self.is_tabular:
            return _pack_row
        pipeline = _test_pipeline(cfg)
        # Images are loaded before.
        pipeline = remove_transform(pipeline, 'LoadImageFromFile')
        transforms = [TRANSFORMS.build(item) for item in pipeline]
        return Compose([_load_image, *transforms])


def _pack_row(row: np.ndarray) -> dict:
    return dict(inputs=torch.from_numpy(row))


def _load_image(source: Any) -> dict:
    image = imread(source)
    if image is None:
        raise ValueError(
            f'the image {source!r} cannot be read: give the path of an image '
            'file, or an array of shape (H, W, C).'
        )
    shape = image.shape[:2]
    return dict(img=image, img_shape=shape, ori_shape=shape)


def _test_pipeline(cfg: Config) -> list[dict]:
    """The pipeline of the test dataset, or of what it wraps."""
    dataset = (cfg.get('test_dataloader') or {}).get('dataset')
    while dataset is not None and 'pipeline' not in dataset:
        dataset = dataset.get('dataset')
    if dataset is None:
        raise ValueError(
            'the model has no config with test_dataloader.dataset.pipeline, '
            'by which images are prepared: build the model with '
            'mmgeom.apis.models.get_model from a config that has one.'
        )
    return dataset['pipeline']
