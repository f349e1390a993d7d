# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The preprocessor of several views of a sample."""

import copy

import pytest
import torch
from mmengine.dataset import COLLATE_FUNCTIONS
from mmpretrain.models import ClsDataPreprocessor
from mmpretrain.structures import DataSample

from mmgeom.models.data_preprocessors.multi_view_data_preprocessor import (
    MultiViewDataPreprocessor,
)
from mmgeom.registry import MODELS

COLLATES = ('default_collate', 'pseudo_collate')
MIXUP = dict(augments=dict(type='Mixup', alpha=1.0))


@pytest.fixture
def views():
    """Three views of four grey images."""
    generator = torch.Generator().manual_seed(0)
    size = (3, 4, 1, 8, 8)
    return torch.randint(0, 256, size, generator=generator).byte()


def collated(inputs, collate='default_collate'):
    """A batch of samples with the given inputs, labelled 0, 1, 2 ..."""
    samples = [
        dict(inputs=item, data_samples=DataSample().set_gt_label(label))
        for label, item in enumerate(inputs)
    ]
    return COLLATE_FUNCTIONS.get(collate)(samples)


def view_batch(*shapes, samples=2):
    """Views of one shape each, with no pipeline."""
    return dict(
        inputs=[torch.zeros(samples, *shape).byte() for shape in shapes],
        data_samples=[DataSample().set_gt_label(0) for _ in range(samples)],
    )


@pytest.mark.parametrize('collate', COLLATES)
@pytest.mark.parametrize('training', [True, False])
def test_views_are_one_batch(collate, training):
    """Against the host's preprocessor on each view alone."""
    settings = dict(
        mean=[1.0, 2.0, 3.0],
        std=[4.0, 5.0, 6.0],
        to_rgb=True,
        pad_size_divisor=4,
        pad_value=7,
        to_onehot=True,
        num_classes=9,
    )
    generator = torch.Generator().manual_seed(0)
    views = torch.randint(0, 256, (3, 2, 3, 5, 6), generator=generator).byte()
    data = collated([list(views[:, i]) for i in range(2)], collate)
    preprocessor = MODELS.build(
        dict(type='mmgeom.MultiViewDataPreprocessor', **settings)
    )
    assert type(preprocessor) is MultiViewDataPreprocessor
    result = preprocessor(data, training=training)
    host = ClsDataPreprocessor(**settings)
    for view, inputs in zip(views, result['inputs'].chunk(3)):
        expected = host(dict(inputs=view))['inputs']
        assert expected.shape == (2, 3, 8, 8)
        assert torch.equal(inputs, expected)
    assert len(result['data_samples']) == 2
    for label, sample in enumerate(result['data_samples']):
        assert sample.gt_label.item() == label
        assert sample.gt_score.argmax() == label


@pytest.mark.parametrize('collate', COLLATES)
def test_one_view_goes_the_hosts_way(views, collate):
    settings = dict(mean=[127.5], std=[60.0])
    data = collated(views[0], collate)
    assert torch.is_tensor(data['inputs']) == (collate == 'default_collate')
    result = MultiViewDataPreprocessor(**settings)(copy.deepcopy(data))
    expected = ClsDataPreprocessor(**settings)(data)
    assert torch.equal(result['inputs'], expected['inputs'])
    assert result['inputs'].shape == (4, 1, 8, 8)


def test_images_of_one_view_may_differ_in_size():
    """The host pads them, and so does this."""
    inputs = [torch.ones(1, 4, 6), torch.ones(1, 5, 3)]
    result = MultiViewDataPreprocessor()(dict(inputs=inputs))
    assert result['inputs'].shape == (2, 1, 5, 6)


def test_inputs_are_not_changed(views):
    data = collated(map(list, views.transpose(0, 1)))
    before = copy.deepcopy(data['inputs'])
    MultiViewDataPreprocessor(mean=[127.5], std=[60.0])(data, training=True)
    assert isinstance(data['inputs'], list)
    assert all(map(torch.equal, data['inputs'], before))


def test_views_without_samples(views):
    inputs = list(views)
    result = MultiViewDataPreprocessor()(dict(inputs=inputs))
    assert result['inputs'].shape == (12, 1, 8, 8)
    assert result['data_samples'] is None


def test_views_of_different_sizes():
    data = view_batch((3, 8, 8), (3, 6, 6))
    message = r'one shape .* \[\(3, 6, 6\), \(3, 8, 8\)\]: crop or resize'
    with pytest.raises(ValueError, match=message):
        MultiViewDataPreprocessor()(data)
    # As lists of images, where one image of a view is another size.
    data = view_batch((3, 8, 8), (3, 8, 8))
    data['inputs'] = [list(view) for view in data['inputs']]
    data['inputs'][1][0] = torch.zeros(3, 6, 6).byte()
    with pytest.raises(ValueError, match=message):
        MultiViewDataPreprocessor()(data)


def test_lists_of_the_views_of_a_sample():
    """Not transposed by a collate function."""
    data = view_batch((1, 8, 8), (1, 8, 8), (1, 8, 8))
    data['inputs'] = [list(views) for views in zip(*data['inputs'])]
    message = r'each of the 2 views .* of the 2 samples, .* hold \[3\] images'
    with pytest.raises(ValueError, match=message):
        MultiViewDataPreprocessor()(data)


def test_batch_augments_are_refused():
    message = 'takes no batch augmentations, .* hard labels, .*Mixup'
    with pytest.raises(ValueError, match=message):
        MODELS.build(
            dict(
                type='mmgeom.MultiViewDataPreprocessor',
                batch_augments=MIXUP,
                num_classes=4,
            )
        )
