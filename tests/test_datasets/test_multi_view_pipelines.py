# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The datasets whose training samples have three views."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import COLLATE_FUNCTIONS
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.datasets import CIFAR10
from stand_ins import write_all

from mmgeom.registry import DATASETS, MODELS, TRANSFORMS

BASES = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets'
# Channels and side of the images.
SHAPES = {
    'cifar10_lt': (3, 32),
    'cifar100_lt': (3, 32),
    'digits_lt': (1, 8),
    'fashion_mnist_lt': (1, 28),
    'imagenet_lt': (3, 224),
    'inaturalist2018': (3, 224),
}
COLLATE = COLLATE_FUNCTIONS.get('default_collate')

every_dataset = pytest.mark.parametrize('name', list(SHAPES))


@pytest.fixture(autouse=True)
def _scope():
    DefaultScope.get_instance('views', scope_name='mmpretrain')


@pytest.fixture(scope='module')
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('stand-ins')
    write_all(folder)
    return folder


@pytest.fixture
def stand_ins(data_folder, monkeypatch):
    """Let the configs find our files, and trust them."""
    monkeypatch.chdir(data_folder)
    monkeypatch.setattr(CIFAR10, '_check_integrity', lambda self: True)


def views_of(name):
    return Config.fromfile(BASES / f'{name}_views.py')


def training_views(cfg):
    """Pipeline of the training set without loading and packing."""
    dataset = cfg.train_dataloader.dataset
    pipeline = dataset.get('dataset', dataset).pipeline
    assert [step.type for step in pipeline[-2:]] == ['MultiView', 'PackInputs']
    return TRANSFORMS.build(pipeline[-2])


@every_dataset
def test_config_changes_the_training_views_only(name):
    cfg, base = views_of(name), Config.fromfile(BASES / f'{name}.py')
    training_views(cfg)
    preprocessor = cfg.data_preprocessor
    assert preprocessor.pop('type') == 'mmgeom.MultiViewDataPreprocessor'
    for part in (cfg, base):
        dataset = part.train_dataloader.dataset
        dataset.get('dataset', dataset).pop('pipeline')
        part.pop('train_pipeline')
    for key, value in base.items():
        assert cfg[key] == value, key


@every_dataset
def test_batch(name, stand_ins):
    cfg = views_of(name)
    loader = cfg.train_dataloader
    loader.update(
        batch_size=2,
        num_workers=0,
        persistent_workers=False,
        collate_fn=dict(type='default_collate'),
    )
    np.random.seed(0)
    torch.manual_seed(0)
    batch = next(iter(Runner.build_dataloader(loader, seed=0)))
    channels, side = SHAPES[name]
    assert [view.shape for view in batch['inputs']] == [
        (len(batch['data_samples']), channels, side, side)
    ] * 3
    assert all(view.dtype == torch.uint8 for view in batch['inputs'])

    processed = MODELS.build(cfg.data_preprocessor)(batch, training=True)
    size = len(batch['data_samples'])
    assert processed['inputs'].shape == (3 * size, channels, side, side)
    assert len(processed['data_samples']) == size
    assert processed['inputs'].isfinite().all()
    views = processed['inputs'].chunk(3)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(views[first], views[second])

    item = DATASETS.build(cfg.test_dataloader.dataset)[0]
    assert item['inputs'].dim() == 3


@pytest.mark.parametrize(
    'name, scope',
    [
        ('cifar10_lt', 'mmpretrain'),
        ('digits_lt', 'mmgeom'),
        ('imagenet_lt', 'mmpretrain'),
        ('imagenet_lt', 'mmgeom'),
    ],
)
def test_inherited_by_name(name, scope, tmp_path, stand_ins):
    """By name each dict carries the scope ``mmgeom``; nothing is lost."""
    path = tmp_path / 'inherits.py'
    path.write_text(f"_base_ = ['mmgeom::_base_/datasets/{name}_views.py']")
    cfg = Config.fromfile(path)
    DefaultScope.get_instance(f'inherits_{scope}', scope_name=scope)
    results = []
    for config in (cfg, views_of(name)):
        np.random.seed(0)
        torch.manual_seed(0)
        dataset = DATASETS.build(config.train_dataloader.dataset)
        assert len(dataset) > 0
        MODELS.build(config.data_preprocessor)
        image = np.full((40, 40), 90, dtype=np.uint8)
        if SHAPES[name][0] == 3:
            image = np.stack([image, image // 2, image // 3], axis=2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr('random.random', lambda: 0.5)
            results.append(training_views(config)({'img': image})['img'])
    for ours, expected in zip(*results):
        assert np.array_equal(ours, expected)


@pytest.mark.parametrize('name', ['cifar10_lt', 'digits_lt'])
def test_written_to_a_work_directory(name):
    cfg = views_of(name)
    again = Config.fromstring(cfg.dump(), '.py')
    assert again.to_dict() == cfg.to_dict()
    training_views(again)


@pytest.mark.parametrize(
    'name', ['cifar10_lt', 'fashion_mnist_lt', 'imagenet_lt']
)
def test_contrast_views_are_independent(name):
    """Brightness of a grey field tells the jitter of each view."""
    np.random.seed(0)
    torch.manual_seed(0)
    transform = training_views(views_of(name))
    channels, side = SHAPES[name]
    shape = (side, side, 3) if channels == 3 else (side, side)
    image = np.full(shape, 100, dtype=np.uint8)
    levels = []
    for _ in range(200):
        # The median leaves out padding.
        views = transform({'img': image.copy()})['img']
        levels.append([np.median(view) for view in views[1:]])
    first, second = np.array(levels).T
    assert first.std() > 10 and second.std() > 10
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2
    assert first.mean() == pytest.approx(second.mean(), abs=6)
    assert (first != 100).mean() == pytest.approx(0.8, abs=0.1)


def test_views_of_digits_are_shifted_independently():
    """The corner pixel tells which of nine shifts a view has."""
    np.random.seed(0)
    transform = training_views(views_of('digits_lt'))
    image = np.arange(1, 65, dtype=np.uint8).reshape(8, 8)
    shifts = []
    for _ in range(300):
        views = transform({'img': image.copy()})['img']
        shifts.append([int(view[4, 4]) for view in views])
    first, second, third = np.array(shifts).T
    assert len(set(first)) == len(set(second)) == len(set(third)) == 9
    for one, other in ((first, second), (first, third), (second, third)):
        assert (one == other).mean() == pytest.approx(1 / 9, abs=0.06)


@pytest.mark.parametrize('name', ['cifar10_lt', 'imagenet_lt'])
def test_grey_views_have_the_luma_of_the_colours(name, monkeypatch):
    transform = training_views(views_of(name))
    jitter, grey = transform.pipelines[1].transforms[2:]
    monkeypatch.setattr('random.random', lambda: 0.0)
    red, green, blue = 200, 100, 40
    colours = [red, green, blue]
    if name == 'imagenet_lt':
        colours = colours[::-1]
    image = np.full((4, 4, 3), colours, dtype=np.uint8)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    result = grey({'img': image})['img']
    assert result.shape == (4, 4, 3)
    assert (result == int(luma)).all()
    assert jitter.channel_order == grey.color_format


def test_cutout_is_always_there():
    transform = training_views(views_of('cifar10_lt'))
    cutout = transform.pipelines[0].transforms[-1]
    np.random.seed(0)
    for _ in range(50):
        image = cutout({'img': np.zeros((32, 32, 3), np.uint8)})['img']
        removed = (image == 128).all(axis=2).sum()
        assert 8 * 8 <= removed <= 16 * 16


def test_rand_augment_at_magnitude_10():
    """The ranges of the original, which do not all grow stronger."""
    cfg = views_of('imagenet_lt')
    transform = training_views(cfg).pipelines[0].transforms[-1]
    assert len(transform.transforms) == 15
    operations = {type(op).__name__: op for op in transform.transforms}
    np.random.seed(0)
    ramp = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    for name, expected in (
        ('Posterize', ramp & 0xF0),
        ('Solarize', ramp),
        ('Brightness', np.minimum(ramp * 1.9, 255)),
    ):
        operation = copy.copy(operations[name])
        assert operation.prob == 0.5 and operation.magnitude_std == 0.5
        operation.prob, operation.magnitude_std = 1.0, 0.0
        result = operation({'img': ramp.copy()})['img']
        assert np.abs(result - expected).max() <= 1, name


def digits_batches(seed):
    loader = views_of('digits_lt').train_dataloader
    loader.update(num_workers=2, collate_fn=dict(type='default_collate'))
    batches = list(Runner.build_dataloader(loader, seed=seed))
    return [torch.cat(batch['inputs']) for batch in batches]


def test_workers_draw_the_same_for_the_same_seed():
    first, second, other = (digits_batches(seed) for seed in (1, 1, 2))
    assert len(first) == len(second) > 1
    assert all(torch.equal(*pair) for pair in zip(first, second))
    assert not torch.equal(first[0], other[0])


def test_identity_views_are_the_image():
    """Without random transforms each view is the single-view input."""
    transform = TRANSFORMS.build(
        dict(type='MultiView', num_views=[1, 2], transforms=[[], []])
    )
    pack = TRANSFORMS.build(dict(type='PackInputs'))
    preprocessor = MODELS.build(views_of('imagenet_lt').data_preprocessor)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    samples = [
        dict(img=image, gt_label=label) for label, image in enumerate(images)
    ]
    single = COLLATE([pack(copy.deepcopy(sample)) for sample in samples])
    views = COLLATE([pack(transform(sample)) for sample in samples])
    expected = preprocessor(single, training=True)
    result = preprocessor(views, training=True)
    assert expected['inputs'].shape == (4, 3, 6, 5)
    for view in result['inputs'].chunk(3):
        assert torch.equal(view, expected['inputs'])
    labels = [sample.gt_label.item() for sample in result['data_samples']]
    assert labels == [0, 1, 2, 3]
