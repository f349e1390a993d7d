# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Batches of a dataset against its samples, collated by the host."""

import copy

import numpy as np
import pytest
import torch
from mmcv.transforms import BaseTransform
from mmengine.dataset import ConcatDataset, default_collate
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

from mmgeom.datasets import (
    ArrayDataset,
    ImbalancedRegressionDataset,
    LongTailedDataset,
    OperatorLearningDataset,
    RebalancedSampler,
)
from mmgeom.datasets.batched_dataset import BatchedDataset
from mmgeom.labels import dataset_inputs, dataset_labels, dataset_values
from mmgeom.registry import DATASETS, TRANSFORMS
from mmgeom.structures import BatchSamples, stacked_labels

PACK = [dict(type='PackInputs')]


@pytest.fixture(autouse=True)
def _scope():
    DefaultScope.get_instance('batched', scope_name='mmpretrain')


@DATASETS.register_module(force=True)
class StandInImages(ArrayDataset):
    """60 colour images of 8x8 of 3 classes."""

    METAINFO = dict(classes=('a', 'b', 'c'))

    def load_arrays(self):
        generator = np.random.default_rng(0)
        shape = (60, 8, 8, 3)
        images = generator.integers(0, 256, shape, dtype=np.uint8)
        return images, np.arange(60) % 3


@TRANSFORMS.register_module(force=True)
class OwnGenerator(BaseTransform):
    """Random, without a global generator."""

    generator = np.random.default_rng(0)

    def transform(self, results):
        shift = self.generator.integers(1, 100)
        return {**results, 'img': results['img'] + np.uint8(shift)}


@TRANSFORMS.register_module(force=True)
class RandomForSome(BaseTransform):
    """Random for all samples but the first."""

    def transform(self, results):
        if results['sample_idx']:
            np.random.rand()
        return results


@TRANSFORMS.register_module(force=True)
class GrowingImages(BaseTransform):
    """Images of different sizes."""

    def transform(self, results):
        size = 8 - results['sample_idx'] % 2
        return {**results, 'img': results['img'][:size]}


def images(*transforms, **kwargs):
    pipeline = [*(dict(type=name) for name in transforms), *PACK]
    return dict(type='mmgeom.StandInImages', pipeline=pipeline, **kwargs)


def rows():
    return ImbalancedRegressionDataset(
        OperatorLearningDataset('linear', num_samples=80),
        density=dict(type='uniform'),
        num_samples=30,
        sampling='weights',
    )


DATA = {
    'images': lambda: DATASETS.build(images()),
    'grey': lambda: DATASETS.build(
        dict(type='mmgeom.Digits', split='test', pipeline=PACK, indices=40)
    ),
    'resized': lambda: DATASETS.build(
        dict(
            type='mmgeom.StandInImages',
            pipeline=[dict(type='Resize', scale=6), *PACK],
        )
    ),
    'long-tailed': lambda: LongTailedDataset(images(), imbalance_factor=5),
    'rows': rows,
    'concatenated': lambda: ConcatDataset([images(), images(indices=20)]),
}


@pytest.mark.parametrize('name', list(DATA))
def test_batches_are_the_samples(name):
    plain = DATA[name]()
    ours = BatchedDataset(DATA[name]())
    assert len(ours) == len(plain)
    indices = [len(plain) - 1, 3, 3, 0]
    expected = default_collate([plain[i] for i in indices])
    found = default_collate(ours.__getitems__(indices))
    assert torch.equal(found['inputs'], expected['inputs'])
    assert found['inputs'].dtype == expected['inputs'].dtype
    assert isinstance(found['data_samples'], BatchSamples)
    singles = [ours[i]['data_samples'] for i in indices]
    for samples in (found['data_samples'], singles):
        for a, b in zip(samples, expected['data_samples'], strict=True):
            assert dict(a.metainfo_items()) == dict(b.metainfo_items())
            assert a.keys() == b.keys()
            for key, value in b.items():
                assert torch.equal(a.get(key), value)
    assert torch.equal(ours[-1]['inputs'], plain[len(plain) - 1]['inputs'])


def test_samples_cannot_change_what_is_kept():
    ours = BatchedDataset(images())
    before = ours[4]['inputs'].clone()
    ours[4]['inputs'].zero_()
    ours.__getitems__([4])['inputs'].zero_()
    assert torch.equal(ours[4]['inputs'], before)


def test_protocol_of_wrappers():
    plain = LongTailedDataset(images(), imbalance_factor=5)
    ours = BatchedDataset(plain)
    assert ours.metainfo == plain.metainfo
    assert ours.CLASSES == ('a', 'b', 'c')
    assert np.array_equal(dataset_labels(ours), dataset_labels(plain))
    assert ours.get_cat_ids(7) == plain.get_cat_ids(7)
    assert ours.get_data_info(9)['gt_label'] == plain.get_cat_ids(9)[0]
    assert ours.indices == list(range(len(plain)))
    assert f'({len(plain)}, 3, 8, 8) torch.uint8 on cpu' in repr(ours)
    assert f'{len(plain)} samples of LongTailedDataset' in repr(ours)


def test_targets_and_inputs():
    plain = rows()
    ours = BatchedDataset(plain)
    assert np.array_equal(dataset_values(ours), dataset_values(plain))
    assert np.array_equal(dataset_inputs(ours), dataset_inputs(plain))
    sample = ours.__getitems__([2])['data_samples'][0]
    assert sample.group_value == plain[2]['data_samples'].group_value
    with pytest.raises(TypeError, match="hold no 'gt_label'"):
        dataset_labels(BatchedDataset(rows(), lazy_init=True))


@pytest.mark.parametrize('num_workers', [0, 2])
def test_data_loader(num_workers):
    plain = LongTailedDataset(images(), imbalance_factor=5)
    loaders = [
        DataLoader(
            dataset,
            batch_size=7,
            sampler=RebalancedSampler(dataset, 'class_balanced', seed=3),
            num_workers=num_workers,
            collate_fn=default_collate,
        )
        for dataset in (plain, BatchedDataset(plain))
    ]
    count = 0
    for expected, found in zip(*loaders, strict=True):
        assert torch.equal(found['inputs'], expected['inputs'])
        assert isinstance(found['data_samples'], BatchSamples)
        labels = stacked_labels(expected['data_samples'])
        assert torch.equal(found['data_samples'].stacked('gt_label'), labels)
        count += len(labels)
    assert count == len(plain)


def test_another_pipeline_is_run():
    ours = BatchedDataset(images())
    assert ours[0]['inputs'].shape == (3, 8, 8)
    other = DATASETS.build(
        dict(
            type='mmgeom.StandInImages',
            pipeline=[dict(type='Resize', scale=4), *PACK],
        )
    )
    ours.pipeline = other.pipeline
    assert ours.pipeline is ours.dataset.pipeline
    assert ours[0]['inputs'].shape == (3, 4, 4)


@pytest.mark.parametrize(
    'transform',
    [
        dict(type='RandomCrop', crop_size=8, padding=1),
        dict(type='RandomFlip', prob=1e-9),
        dict(type='mmgeom.OwnGenerator'),
    ],
)
@pytest.mark.parametrize('wrapped', [False, True])
def test_random_transforms(transform, wrapped):
    cfg = dict(type='mmgeom.StandInImages', pipeline=[transform, *PACK])
    if wrapped:
        cfg = dict(
            type='mmgeom.LongTailedDataset', dataset=cfg, imbalance_factor=5
        )
    before = np.random.get_state()[2], torch.get_rng_state()
    name = transform['type'].split('.')[-1]
    with pytest.raises(ValueError, match=f'{name} is random, but Batched'):
        BatchedDataset(copy.deepcopy(cfg))
    assert np.random.get_state()[2] == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_random_for_some_samples():
    with pytest.raises(ValueError, match='pipeline of StandInImages is rand'):
        BatchedDataset(images('mmgeom.RandomForSome'))


def test_random_in_a_dataset_without_pipeline():
    cfg = images()
    cfg['pipeline'].insert(0, dict(type='RandomFlip', prob=0.5))
    with pytest.raises(ValueError, match='pipeline of ConcatDataset is ran'):
        BatchedDataset(ConcatDataset([cfg]))


def test_sizes_differ():
    with pytest.raises(ValueError, match='sample 1 of StandInImages has'):
        BatchedDataset(images('mmgeom.GrowingImages'))


def test_views():
    view = dict(type='MultiView', num_views=2, transforms=[[]])
    cfg = dict(type='mmgeom.StandInImages', pipeline=[view, *PACK])
    with pytest.raises(TypeError, match='leave MultiView out of the pipeline'):
        BatchedDataset(cfg)


def test_not_packed():
    with pytest.raises(TypeError, match='end its pipeline with dict'):
        BatchedDataset(dict(type='mmgeom.StandInImages', pipeline=[]))


def test_settings_of_the_dataset_inside():
    message = (
        'BatchedDataset has no imbalance_factor, .* write '
        'train_dataloader.dataset.dataset.imbalance_factor'
    )
    with pytest.raises(TypeError, match=message):
        BatchedDataset(dict(type='mmgeom.Digits'), imbalance_factor=50)


@pytest.mark.parametrize('device', ['gpu', 'cuda:99'])
def test_no_such_device(device):
    with pytest.raises(ValueError, match=rf"samples on '{device}', since"):
        BatchedDataset(dict(type='mmgeom.Digits'), device=device)


def test_no_dataset():
    with pytest.raises(TypeError, match='BatchedDataset wraps a dataset'):
        BatchedDataset([1, 2])


def test_workers_cannot_use_another_device():
    ours = BatchedDataset(images(), device='meta')
    assert ours.__getitems__([1])['inputs'].device.type == 'meta'
    loader = DataLoader(
        ours, num_workers=1, batch_size=2, collate_fn=default_collate
    )
    with pytest.raises(RuntimeError, match='set num_workers=0'):
        next(iter(loader))


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_on_a_gpu():
    plain = BatchedDataset(images())
    batch = BatchedDataset(images(), device='cuda').__getitems__([4, 2])
    assert batch['data_samples'].stacked('gt_label').is_cuda
    expected = plain.__getitems__([4, 2])['inputs']
    assert torch.equal(batch['inputs'].cpu(), expected)
