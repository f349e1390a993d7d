# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Augmenting batches, and labels that stay in one tensor."""

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.models import ClsDataPreprocessor
from mmpretrain.structures import DataSample
from torch import distributed as dist
from torch import nn
from torch.multiprocessing import spawn

from mmgeom.models.data_preprocessors.batched_data_preprocessor import (
    BatchedDataPreprocessor,
)
from mmgeom.models.data_preprocessors.tabular_data_preprocessor import (
    TabularDataPreprocessor,
)
from mmgeom.registry import MODELS
from mmgeom.structures import BatchSamples, stacked_labels, stacked_scores

LABELS = torch.tensor([3, 0, 2, 1, 1])


@pytest.fixture(autouse=True)
def _scope():
    DefaultScope.get_instance('preprocessor', scope_name='mmpretrain')


@MODELS.register_module(force=True)
class RandomShift(nn.Module):
    """Add a random number to each image."""

    def __init__(self, largest):
        super().__init__()
        self.largest = largest

    def forward(self, images, generator):
        shape = len(images), 1, 1, 1
        shifts = torch.randint(
            self.largest, shape, generator=generator, device=generator.device
        )
        return images + shifts.to(torch.uint8)


SHIFT = dict(type='mmgeom.RandomShift', largest=100)
CROP = dict(type='mmgeom.HalfImage')


@MODELS.register_module(force=True)
class HalfImage(nn.Module):
    def forward(self, images, generator):
        return images[..., : images.shape[-1] // 2]


def pixels(*shape):
    generator = torch.Generator().manual_seed(0)
    shape = shape or (5, 3, 6, 8)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


def samples():
    return [DataSample().set_gt_label(label) for label in LABELS]


def batch_samples():
    return BatchSamples(dict(gt_label=LABELS))


PREPARATIONS = {
    'plain': {},
    'normalised': dict(mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0]),
    'colours': dict(mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0], to_rgb=True),
    'padded': dict(pad_size_divisor=5, pad_value=7),
    'one-hot': dict(to_onehot=True, num_classes=4),
}


@pytest.mark.parametrize('training', [False, True])
@pytest.mark.parametrize('options', PREPARATIONS.values(), ids=PREPARATIONS)
def test_without_augmentation_equals_the_host(options, training):
    host = ClsDataPreprocessor(**options)
    ours = BatchedDataPreprocessor(**options)
    expected = host(dict(inputs=pixels(), data_samples=samples()), training)
    for given in (batch_samples(), samples()):
        found = ours(dict(inputs=pixels(), data_samples=given), training)
        assert torch.equal(found['inputs'], expected['inputs'])
        for a, b in zip(
            found['data_samples'], expected['data_samples'], strict=True
        ):
            assert torch.equal(a.gt_label, b.gt_label)
            assert ('gt_score' in a) == ('gt_score' in b)
            if 'gt_score' in b:
                assert torch.equal(a.gt_score, b.gt_score)
                assert a.gt_score.dtype == b.gt_score.dtype
                assert a.num_classes == b.num_classes


@pytest.mark.parametrize(
    ('name', 'hint'),
    [
        ('RandomCrop', 'that of a batch is mmgeom.BatchRandomCrop'),
        ('mmgeom.ColorJitter', 'that of a batch is mmgeom.BatchColorJitter'),
        ('mmgeom.BatchRotate', 'write one of your own'),
    ],
)
def test_no_augmentation_of_a_batch(name, hint):
    with pytest.raises(ValueError, match=f"'{name}' is no aug.*: {hint}"):
        BatchedDataPreprocessor(augmentations=[dict(type=name)])


@pytest.mark.parametrize('kind', ['Mixup', 'CutMix'])
def test_batch_augments_equal_the_host(kind):
    options = dict(
        batch_augments=dict(augments=dict(type=kind, alpha=1.0)),
        num_classes=4,
    )
    results = []
    for cls, given in (
        (ClsDataPreprocessor, samples()),
        (BatchedDataPreprocessor, batch_samples()),
    ):
        torch.manual_seed(0)
        np.random.seed(0)
        model = cls(**options)
        result = model(dict(inputs=pixels(), data_samples=given), True)
        results.append(result)
    host, ours = results
    assert torch.equal(host['inputs'], ours['inputs'])
    scores = [stacked_scores(result['data_samples']) for result in results]
    assert torch.equal(*scores)
    assert not torch.equal(scores[0], scores[0].round())


@pytest.mark.parametrize(
    ('config', 'error', 'message'),
    [
        (dict(crop_size=8), KeyError, 'must contain the key "type"'),
        (torch.nn.Identity(), TypeError, 'should be a dict'),
    ],
)
def test_no_config_of_an_augmentation(config, error, message):
    with pytest.raises(error, match=message):
        BatchedDataPreprocessor(augmentations=[config])


def test_number_of_classes_is_needed():
    model = BatchedDataPreprocessor(to_onehot=True)
    with pytest.raises(ValueError, match='set num_classes of the data pre'):
        model(dict(inputs=pixels(), data_samples=batch_samples()), True)


def test_augments_in_training_only():
    model = BatchedDataPreprocessor(augmentations=[SHIFT, CROP], seed=1)
    images = pixels()
    kept = images.clone()
    data = dict(inputs=images, data_samples=batch_samples())
    assert torch.equal(model(data, False)['inputs'], images.float())
    found = model(data, True)['inputs']
    assert found.shape == (5, 3, 6, 4)
    shifts = (found - images[..., :4].float()) % 256
    shifts = shifts.flatten(1)
    assert (shifts == shifts[:, :1]).all()  # an image, a number
    assert len(shifts[:, 0].unique()) > 1
    assert torch.equal(images, kept)


def test_images_of_the_host_are_augmented_too():
    results = []
    for inputs in (pixels(), list(pixels())):
        model = BatchedDataPreprocessor(augmentations=[SHIFT], seed=1)
        data = dict(inputs=inputs, data_samples=samples())
        results.append(model(data, True)['inputs'])
    assert torch.equal(*results)
    assert not torch.equal(results[0], pixels().float())


def test_views_are_view_major():
    model = BatchedDataPreprocessor(
        views=[[], [SHIFT], [SHIFT]], mean=[1.0] * 3, std=[2.0] * 3, seed=1
    )
    data = dict(inputs=pixels(), data_samples=batch_samples())
    found = model(data, True)
    first, second, third = found['inputs'].chunk(3)
    assert torch.equal(first, (pixels().float() - 1) / 2)
    assert not torch.equal(second, first)
    assert not torch.equal(second, third)
    assert len(found['data_samples']) == 5
    assert model(data, False)['inputs'].shape == (5, 3, 6, 8)


def draws(model, number):
    data = dict(inputs=pixels(), data_samples=None)
    return [model(data, True)['inputs'] for _ in range(number)]


def test_resumed_numbers_go_on():
    def make():
        return BatchedDataPreprocessor(augmentations=[SHIFT], seed=1)

    whole = draws(make(), 4)
    assert not torch.equal(whole[0], whole[1])
    first = make()
    draws(first, 2)
    second = make()
    second.load_state_dict(first.state_dict())
    assert all(map(torch.equal, draws(second, 2), whole[2:]))
    second.reset_epochs()
    assert all(map(torch.equal, draws(second, 2), whole[:2]))


def test_seeds():
    def first(seed):
        model = BatchedDataPreprocessor(augmentations=[SHIFT], seed=seed)
        return draws(model, 1)[0]

    assert not torch.equal(first(0), first(1))
    torch.manual_seed(5)
    from_torch = first(None)
    state = torch.get_rng_state()
    assert torch.equal(from_torch, first(5))
    assert torch.equal(state, torch.get_rng_state())


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    model = BatchedDataPreprocessor(augmentations=[SHIFT], seed=1)
    torch.save(draws(model, 2), f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


def test_ranks_draw_other_numbers(tmp_path):
    spawn(run_rank, args=(str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f'rank{rank}.pth') for rank in (0, 1)]
    alone = draws(BatchedDataPreprocessor(augmentations=[SHIFT], seed=1), 2)
    assert all(map(torch.equal, ranks[0], alone))
    for a in ranks[0]:
        assert not any(torch.equal(a, b) for b in ranks[1])


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(views=[]), 'has no view'),
        (dict(views=[[SHIFT]], augmentations=[SHIFT]), 'not both'),
        (
            dict(views=[[]], batch_augments=dict(augments=[])),
            'views take no batch augmentations',
        ),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        BatchedDataPreprocessor(**options)


@pytest.mark.parametrize(
    ('inputs', 'message'),
    [
        ([pixels(), pixels()], 'a list of 2 views: leave MultiView out'),
        ([pixels(3, 6, 8), pixels(3, 6, 9)], 'must have one shape'),
    ],
)
def test_wrong_inputs(inputs, message):
    model = BatchedDataPreprocessor(augmentations=[SHIFT])
    with pytest.raises(ValueError, match=message):
        model(dict(inputs=inputs, data_samples=None), True)


def test_views_of_different_shapes():
    model = BatchedDataPreprocessor(views=[[SHIFT], [CROP]])
    with pytest.raises(ValueError, match='must have one shape'):
        model(dict(inputs=pixels()), True)


@pytest.mark.parametrize('augments', [None, dict(type='Mixup', alpha=0.5)])
def test_rows(augments):
    scores = torch.arange(8.0).reshape(4, 2)
    host = [DataSample().set_gt_score(score) for score in scores]
    results = []
    for given in (host, BatchSamples(dict(gt_score=scores))):
        torch.manual_seed(0)
        np.random.seed(0)
        model = TabularDataPreprocessor(
            3, batch_augments=augments and dict(augments=augments)
        )
        model.set_input_statistics(torch.ones(3), torch.full((3,), 2.0))
        rows = torch.arange(12.0).reshape(4, 3)
        results.append(model(dict(inputs=rows, data_samples=given), True))
    expected, found = results
    assert torch.equal(found['inputs'], expected['inputs'])
    assert isinstance(found['data_samples'], BatchSamples)
    assert torch.equal(
        stacked_scores(found['data_samples']),
        stacked_scores(expected['data_samples']),
    )


def test_labels_stay_in_one_tensor():
    model = BatchedDataPreprocessor()
    found = model(dict(inputs=pixels(), data_samples=batch_samples()), True)
    # Nothing was taken apart on the way, nor copied on one device.
    assert stacked_labels(found['data_samples']) is LABELS
