# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Real images: CIFAR-10 as JPEG files, made long-tailed."""

import tarfile
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

import mmgeom
from mmgeom.distribution import LabelDistribution
from mmgeom.registry import DATASETS

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / 'shared' / 'data' / 'cifar10_jpg.tar.xz'
CONFIG = 'logit-adjustment_resnet32_1xb128-200e_cifar10-lt-if100.py'
# The folders of the archive, in the order of their labels.
CLASSES = (
    'airplane',
    'automobile',
    'bird',
    'cat',
    'deer',
    'dog',
    'frog',
    'horse',
    'ship',
    'truck',
)
COUNTS = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
# Images unpacked of each class, since unpacking all takes long.
UNPACKED = {'train': 40, 'test': 4}


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """Some images, and lists of all files and of those unpacked."""
    if not ARCHIVE.is_file():
        pytest.skip('the archive of CIFAR-10 images is not here')
    folder = tmp_path_factory.mktemp('cifar10')
    lines, unpacked = {}, {}
    with tarfile.open(ARCHIVE, 'r:xz') as archive:
        for member in archive:
            if not member.isfile():
                continue
            split, name, file = Path(member.name).parts[-3:]
            line = f'{split}/{name}/{file} {CLASSES.index(name)}\n'
            lines.setdefault(f'{split}.txt', []).append(line)
            number = unpacked.get((split, name), 0)
            if number < UNPACKED[split]:
                target = folder / split / name / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())
                lines.setdefault(f'{split}_unpacked.txt', []).append(line)
            unpacked[split, name] = number + 1
    for name, content in lines.items():
        (folder / name).write_text(''.join(content))
    return folder


def images(root, name, pipeline=()):
    return dict(
        type='CustomDataset',
        data_root=str(root),
        ann_file=name,
        metainfo=dict(classes=CLASSES),
        pipeline=list(pipeline),
    )


def long_tailed(dataset, imbalance_factor):
    return dict(
        type='mmgeom.LongTailedDataset',
        imbalance_factor=imbalance_factor,
        protocol='ldam',
        dataset=dataset,
    )


@pytest.mark.parametrize(
    'factor, expected',
    [
        (100, COUNTS),
        (10, [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]),
    ],
)
def test_counts_of_the_whole(root, factor, expected):
    cfg = long_tailed(images(root, 'train.txt'), factor)
    distribution = LabelDistribution.from_dataset(DATASETS.build(cfg))
    assert distribution.counts.tolist() == expected
    assert distribution.class_names == CLASSES
    assert distribution.imbalance_factor == factor


def shortened(config, folder, root):
    """The shipped config on the images that were unpacked."""
    cfg = Config.fromfile(mmgeom.config_path(config))
    decode = dict(type='mmgeom.LoadImage')
    train = cfg.train_dataloader
    pipeline = [decode, *train.dataset.dataset.dataset.pipeline]
    dataset = images(root, 'train_unpacked.txt', pipeline)
    train.dataset.dataset = long_tailed(dataset, 10)
    train.update(batch_size=32, num_workers=0)
    for mode in ('val', 'test'):
        loader = cfg[f'{mode}_dataloader']
        pipeline = [decode, *loader.dataset.pipeline]
        loader.dataset = images(root, 'test_unpacked.txt', pipeline)
        loader.num_workers = 0
    # These images are decoded as BGR.
    cfg.data_preprocessor.to_rgb = True
    cfg.work_dir = str(folder)
    return cfg


def test_training(tmp_path, root, load, logged_metrics):
    """One epoch of the baseline."""
    cfg = shortened(f'baseline/{CONFIG}', tmp_path, root)
    cfg.train_cfg.update(max_epochs=1, val_interval=1)
    Runner.from_cfg(cfg).train()

    saved = load(tmp_path / 'epoch_1.pth')['label_distribution']
    expected = [int(40 * 0.1 ** (label / 9.0)) for label in range(10)]
    assert saved['counts'] == expected
    (metrics,) = logged_metrics(tmp_path)
    for name in ('shot/accuracy_few', 'calibration/ece_few'):
        assert 0 <= metrics[name] <= 100


def test_contrastive_training(tmp_path, root, logged_metrics):
    """Two epochs of FeatRecon, the second with synthetic features."""
    name = 'featrecon_resnet32_1xb256-200e_cifar10-lt-if100.py'
    cfg = shortened(f'featrecon/{name}', tmp_path, root)
    cfg.train_cfg.update(max_epochs=2, val_interval=2)
    cfg.default_hooks.logger.interval = 1
    runner = Runner.from_cfg(cfg)
    runner.train()

    statistics = runner.model.head.statistics
    assert statistics.valid.all()
    assert statistics.num_updates == 2
    scalars = runner.message_hub.log_scalars
    assert scalars['train/loss_contrast'].current() > 0
    made = [scalars[f'train/synthetic_{g}'].current() for g in ('many', 'few')]
    assert sum(made) + scalars['train/synthetic_medium'].current() > 0
    (metrics,) = logged_metrics(tmp_path)
    assert 0 <= metrics['shot/accuracy'] <= 100
