# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmpretrain import ImageClassificationInferencer
from mmpretrain.apis import list_models as host_list_models

from mmgeom.apis.models import get_model, list_models, register_models

NAME = 'logit-adjustment_resnet32_1xb128-200e_cifar10-lt-if100'


def test_our_models_are_listed_here_and_by_the_host():
    names = list_models()
    assert names == sorted(names) and NAME in names
    assert set(list_models('*cifar100*')) < set(names)
    assert set(names) <= set(host_list_models())
    assert register_models() is register_models()


def test_a_model_by_name():
    model = get_model(NAME)
    assert type(model.backbone).__name__ == 'CIFARResNet'
    assert not model.training
    feature = model.extract_feat(torch.zeros(1, 3, 32, 32), stage='pre_logits')
    assert feature.shape == (1, 64)


def test_an_unknown_name():
    with pytest.raises(ValueError, match='Failed to find model'):
        get_model('resnet31_nowhere')


def test_the_host_predicts_with_it():
    inferencer = ImageClassificationInferencer(get_model(NAME))
    image = np.zeros((32, 32, 3), dtype=np.uint8)
    (result,) = inferencer(image)
    assert result['pred_scores'].shape == (10,)
