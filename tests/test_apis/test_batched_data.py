# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What becomes of pipelines when a config is switched to batches."""

import copy

import pytest
from mmengine.config import Config

from mmgeom.apis.batched_data import batched

PACK = dict(type='PackInputs')
CROP = dict(type='RandomCrop', crop_size=8, padding=1)
RESIZE = dict(type='Resize', scale=8)
JITTER = dict(type='mmgeom.ColorJitter', brightness=0.4)


def config(*pipeline, **options):
    return dict(
        train_dataloader=dict(
            num_workers=2,
            dataset=dict(
                type='mmgeom.LongTailedDataset',
                dataset=dict(type='CIFAR10', pipeline=[*pipeline, PACK]),
            ),
        ),
        **options,
    )


def joined(*pipelines):
    parts = [dict(type='CIFAR10', pipeline=list(p)) for p in pipelines]
    wrapped = [dict(type='mmgeom.LongTailedDataset', dataset=p) for p in parts]
    dataset = dict(type='ConcatDataset', datasets=wrapped)
    return dict(train_dataloader=dict(dataset=dataset))


def views(*transforms, num_views):
    return dict(
        type='MultiView', num_views=num_views, transforms=list(transforms)
    )


def test_random_transforms_move():
    cfg = config(RESIZE, CROP, JITTER)
    before = copy.deepcopy(cfg)
    loader, preprocessor = batched(cfg)
    assert cfg == before
    assert loader == dict(
        num_workers=0,
        persistent_workers=False,
        dataset=dict(
            _delete_=True,
            type='mmgeom.BatchedDataset',
            dataset=dict(
                type='mmgeom.LongTailedDataset',
                dataset=dict(type='CIFAR10', pipeline=[RESIZE, PACK]),
            ),
        ),
    )
    assert preprocessor == dict(
        type='mmgeom.BatchedDataPreprocessor',
        augmentations=[
            dict(type='mmgeom.BatchRandomCrop', crop_size=8, padding=1),
            dict(type='mmgeom.BatchColorJitter', brightness=0.4),
        ],
    )


def test_views_move():
    cfg = config(
        views([CROP], [RESIZE, JITTER], num_views=[1, 2]),
        data_preprocessor=dict(type='mmgeom.MultiViewDataPreprocessor'),
    )
    loader, preprocessor = batched(cfg)
    assert loader['dataset']['dataset']['dataset']['pipeline'] == [PACK]
    crop = dict(type='mmgeom.BatchRandomCrop', crop_size=8, padding=1)
    other = [
        dict(type='mmgeom.BatchResize', scale=8),
        dict(type='mmgeom.BatchColorJitter', brightness=0.4),
    ]
    assert preprocessor['views'] == [[crop], other, other]
    assert 'augmentations' not in preprocessor


def test_joined_datasets():
    loader, preprocessor = batched(joined([CROP, PACK], [CROP, PACK]))
    dataset = loader['dataset']['dataset']
    assert dataset['type'] == 'ConcatDataset'
    for part in dataset['datasets']:
        assert part['dataset']['pipeline'] == [PACK]
    (crop,) = preprocessor['augmentations']
    assert crop['type'] == 'mmgeom.BatchRandomCrop'


def test_nothing_random():
    loader, preprocessor = batched(config(), device='cuda')
    assert preprocessor == dict(type='mmgeom.BatchedDataPreprocessor')
    assert loader['dataset']['device'] == 'cuda'


def test_in_a_config_file(tmp_path):
    loader = config(CROP)['train_dataloader']
    (tmp_path / 'base.py').write_text(
        f'train_dataloader = {loader!r}\n'
        'data_preprocessor = dict(mean=[1.0], std=[2.0])\n'
    )
    (tmp_path / 'ours.py').write_text(
        "_base_ = './base.py'\n"
        'from mmgeom.apis.batched_data import batched\n'
        'train_dataloader, data_preprocessor = batched(_base_)\n'
    )
    cfg = Config.fromfile(tmp_path / 'ours.py')
    assert cfg.train_dataloader.dataset.type == 'mmgeom.BatchedDataset'
    assert cfg.data_preprocessor.mean == [1.0]
    assert len(cfg.data_preprocessor.augmentations) == 1
    # What the run writes into its work directory can be read again.
    cfg.dump(tmp_path / 'dumped.py')
    assert Config.fromfile(tmp_path / 'dumped.py').to_dict() == cfg.to_dict()


@pytest.mark.parametrize(
    ('cfg', 'message'),
    [
        (dict(), 'has no train_dataloader.dataset that could be batched'),
        (
            config(model=dict(data_preprocessor=dict(mean=[0]))),
            'data_preprocessor inside of model: move it',
        ),
        (
            config(data_preprocessor=dict(type='SelfSupDataPreprocessor')),
            'SelfSupDataPreprocessor is no data preprocessor that can be',
        ),
        (
            config(
                data_preprocessor=dict(type='mmgeom.BatchedDataPreprocessor')
            ),
            'is batched already',
        ),
        (
            config(
                CROP,
                data_preprocessor=dict(type='mmgeom.TabularDataPreprocessor'),
            ),
            'tabular data have no augmentations',
        ),
        (config(CROP, RESIZE), 'Resize comes after a random transform'),
        (config(views([CROP], num_views=2), CROP), 'RandomCrop comes after'),
        (
            config(views([dict(type='Rotate')], num_views=2)),
            'Rotate comes after a random transform',
        ),
        (
            joined([CROP, PACK], [PACK]),
            'joined datasets must have one pipeline to be batched, but have',
        ),
        (joined(), 'joins no dataset at all'),
    ],
)
def test_refused(cfg, message):
    with pytest.raises(ValueError, match=message):
        batched(cfg)
