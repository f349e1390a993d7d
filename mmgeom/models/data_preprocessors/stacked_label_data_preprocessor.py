# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What preprocessors do with labels that come as one tensor."""

from typing import Any

import torch
from mmpretrain.models import ClsDataPreprocessor
from torch import Tensor
from torch.nn import functional as F

from mmgeom.structures import BatchSamples


class StackedLabelDataPreprocessor(ClsDataPreprocessor):
    """The host's preprocessor that leaves labels of a batch in one tensor.

    Does with :class:`~mmgeom.structures.BatchSamples` what the host does
    with a list of samples: moves labels and scores to the device, makes
    one-hot scores, applies batch augmentations such as Mixup. Lists of
    samples go through the host's code.
    """

    def forward(self, data: dict, training: bool = False) -> dict:
        """Preprocess a batch.

        Args:
            data (dict): ``inputs`` and perhaps ``data_samples``, as for the
                host.
            training (bool): Whether to apply batch augmentations. Defaults
                to False.

        Returns:
            dict: ``inputs`` and ``data_samples``, on the device.

        Raises:
            ValueError: When one-hot scores are wanted but the number of
                classes is not known.
        """
        samples = data.get('data_samples')
        if not isinstance(samples, BatchSamples):
            return super().forward(data, training)
        inputs = data['inputs']
        if isinstance(inputs, Tensor) and self.pad_size_divisor == 1:
            inputs = self._normalized(inputs)
        else:
            inputs = super().forward({'inputs': inputs}, training)['inputs']
        samples = samples.to(self.device, non_blocking=True)
        return self._with_scores(inputs, samples, training)

    def _normalized(self, inputs: Tensor) -> Tensor:
        """The host's numbers, without a new tensor for each operation.

        On a CPU the pages of large new tensors cost more than arithmetic.
        """
        inputs = inputs.to(self.device, non_blocking=True)
        if self.to_rgb and inputs.size(1) == 3:
            inputs = inputs.flip(1)
        if not self._enable_normalize:
            return inputs.float()
        values = inputs.to(torch.float32, copy=True)
        return values.sub_(self.mean).div_(self.std)

    def _with_scores(
        self, inputs: Tensor, samples: BatchSamples, training: bool
    ) -> dict[str, Any]:
        names, score = samples.keys(), None
        if 'gt_score' in names:
            score = samples.stacked('gt_score')
        elif self.to_onehot and 'gt_label' in names:
            label = samples.stacked('gt_label')
            score = F.one_hot(label, self._num_classes(samples))
        if training and self.batch_augments is not None and score is not None:
            inputs, score = self.batch_augments(inputs, score)
        if score is not None:
            samples = samples.replaced(gt_score=score)
        return dict(inputs=inputs, data_samples=samples)

    def _num_classes(self, samples: BatchSamples) -> int:
        number = self.num_classes or samples.metainfo.get('num_classes')
        if number is None:
            raise ValueError(
                'mixed labels need the number of classes: set num_classes of '
                'the data preprocessor.'
            )
        return number
