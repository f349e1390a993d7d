# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Every shipped config: loads, builds, trains a step, reads its data."""

import copy
import functools
import re
from pathlib import Path

import pytest
import torch
import torchvision
import yaml
from mmengine.analysis import get_model_complexity_info
from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from mmpretrain.datasets import CIFAR10
from mmpretrain.structures import DataSample
from stand_ins import write_all

from mmgeom.distribution import LabelDistribution
from mmgeom.registry import DATA_SAMPLERS, DATASETS, MODELS

ROOT = Path(__file__).resolve().parents[1]
PATHS = {
    path.relative_to(ROOT / 'configs').as_posix(): path
    for path in sorted(ROOT.glob('configs/*/*.py'))
    if path.parent.name != '_base_'
}
# Too large for a training step in a test.
LARGE = ('resnet50', 'resnet152')
SMALL = [name for name in PATHS if name.split('_')[1] not in LARGE]
# Of the small ones, those that learn before class vectors they do not learn.
FIXED_GEOMETRY = [
    name
    for name in SMALL
    if re.match('(ncmc|quickstart|rbl|setf)/(ncmc|rbl|setf)', name)
    and 'densenet' not in name
]
ROTATED = [name for name in PATHS if name.startswith('rbl/')]
SIZES = {'digits': 8, 'fashion': 28, 'stl10': 96}
MODES = ('train', 'val', 'test')

every_config = pytest.mark.parametrize('name', list(PATHS))


@pytest.fixture(autouse=True)
def _scope():
    DefaultScope.get_instance('configs', scope_name='mmpretrain')


@functools.cache
def _parsed(name):
    return Config.fromfile(PATHS[name])


def read(name):
    """The config, which the test may change."""
    return copy.deepcopy(_parsed(name))


@functools.cache
def metadata():
    """What the metafiles say, by config."""
    index = yaml.safe_load((ROOT / 'model-index.yml').read_text())
    entries = {}
    for metafile in index['Import']:
        content = yaml.safe_load((ROOT / metafile).read_text())
        for entry in content['Models']:
            name = entry['Config'].removeprefix('configs/')
            entries[name] = entry['Metadata']
    return entries


def build_model(cfg):
    """The model as a runner builds it, without published weights."""
    model = copy.deepcopy(cfg.model)
    model.setdefault('data_preprocessor', cfg.data_preprocessor)
    init_cfg = model.backbone.get('init_cfg') or {}
    if init_cfg.get('type') == 'Pretrained':
        del model.backbone['init_cfg']
    return MODELS.build(model)


def image_size(name):
    """Height and width of a config's images, by the name of the data."""
    return SIZES.get(name.split('_')[-1].split('-')[0], 32)


def values(node):
    """All containers of a config."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from values(value)
    elif isinstance(node, (list, tuple)):
        yield node
        for value in node:
            yield from values(value)


def test_there_are_configs():
    assert len(PATHS) >= 52
    assert len(SMALL) >= 31
    assert len(FIXED_GEOMETRY) >= 12
    assert len(ROTATED) >= 3


@every_config
def test_conventions(name):
    cfg = read(name)
    assert cfg.default_scope == 'mmpretrain'
    # Counts are read from the data.
    for value in values(cfg._cfg_dict.to_dict()):
        assert isinstance(value, dict) or len(value) <= 20, value
    hooks = cfg.default_hooks
    assert hooks.label_distribution.type == 'mmgeom.LabelDistributionHook'
    assert hooks.checkpoint_check.type == 'mmgeom.CheckpointCheckHook'
    evaluators = cfg.val_evaluator
    if isinstance(evaluators, dict):
        evaluators = [evaluators]
    if hooks.checkpoint.get('save_best', '').startswith('shot/'):
        assert 'mmgeom.ShotAccuracy' in [e.type for e in evaluators]
    # Inference opens images by the test pipeline.
    assert 'pipeline' in cfg.test_dataloader.dataset


@every_config
def test_name_tells_the_recipe(name):
    """N processes with batches of M for E epochs, as the name says."""
    cfg = read(name)
    recipe = name.removesuffix('.py').split('_')[2]
    gpus, batch, epochs = map(
        int, re.fullmatch(r'(\d+)xb(\d+)-(?:.+-)?(\d+)e', recipe).groups()
    )
    assert cfg.train_dataloader.batch_size == batch
    assert cfg.train_cfg.max_epochs == epochs
    # What the learning rate is written for, or --auto-scale-lr is wrong.
    assert cfg.auto_scale_lr.base_batch_size == gpus * batch


@every_config
def test_model_builds(name, monkeypatch):
    # Drawing random weights takes most of the time.
    for layer in (torch.nn.modules.conv._ConvNd, torch.nn.Linear):
        monkeypatch.setattr(layer, 'reset_parameters', lambda self: None)
    cfg = read(name)
    model = build_model(cfg)
    assert model.head.num_classes == cfg.data_preprocessor.num_classes
    first = next(model.backbone.parameters())
    assert first.shape[1] == len(cfg.data_preprocessor.mean)
    assert len(cfg.data_preprocessor.std) == len(cfg.data_preprocessor.mean)

    described = metadata()[name]
    parameters = sum(p.numel() for p in model.parameters())
    assert described['Parameters'] == parameters
    assert described['Epochs'] == cfg.train_cfg.max_epochs
    assert described['Batch Size'] == cfg.auto_scale_lr.base_batch_size
    if name in SMALL:
        channels, size = first.shape[1], image_size(name)
        report = get_model_complexity_info(
            model.eval(),
            (channels, size, size),
            show_table=False,
            show_arch=False,
        )
        assert described['FLOPs'] == report['flops']


def initialised(cfg):
    """The model as it is when training begins, with class counts."""
    torch.manual_seed(0)
    model = build_model(cfg)
    model.init_weights()
    num_classes = cfg.data_preprocessor.num_classes
    distribution = LabelDistribution(range(num_classes, 0, -1))
    for module in model.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(distribution)
    return model


def random_batch(name, cfg):
    """Four images, the first of the first class and the last of the last."""
    size = image_size(name)
    channels = len(cfg.data_preprocessor.mean)
    labels = torch.arange(4) * (cfg.data_preprocessor.num_classes - 1) // 3
    inputs = torch.randint(0, 256, (4, channels, size, size)).byte()
    samples = [DataSample().set_gt_label(label) for label in labels]
    return dict(inputs=inputs, data_samples=samples)


@pytest.mark.parametrize('name', SMALL)
def test_training_step(name):
    cfg = read(name)
    model = initialised(cfg)
    data = random_batch(name, cfg)
    model.train()
    data = model.data_preprocessor(data, training=True)
    losses = model(**data, mode='loss')
    loss, _ = model.parse_losses(losses)
    loss.backward()
    assert torch.isfinite(loss)
    weight = next(model.backbone.parameters())
    assert torch.isfinite(weight.grad).all()
    assert weight.grad.abs().sum() > 0

    model.eval()
    with torch.no_grad():
        predictions = model(**data, mode='predict')
    for prediction in predictions:
        num_classes = cfg.data_preprocessor.num_classes
        assert prediction.pred_score.shape == (num_classes,)
        assert torch.isfinite(prediction.pred_score).all()


@pytest.mark.parametrize('name', FIXED_GEOMETRY)
def test_two_optimizer_steps(name):
    """What the optimizer does to the parameters leaves a classifier."""
    cfg = read(name)
    model = initialised(cfg)
    optim_wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    data = random_batch(name, cfg)
    model.train()
    for _ in range(2):
        losses = model.train_step(copy.deepcopy(data), optim_wrapper)
        assert torch.isfinite(losses['loss'])
    for parameter in model.parameters():
        assert torch.isfinite(parameter).all()

    data = model.data_preprocessor(data)
    with torch.no_grad():
        scores = model(data['inputs'], mode='tensor')
    assert torch.isfinite(scores).all()
    # For every sample the classes differ, and the samples do.
    assert (scores.std(dim=1) > 1e-3).all()
    assert (scores.std(dim=0) > 1e-4).all()


@pytest.mark.parametrize('name', ROTATED)
def test_rotation_has_no_weight_decay(name):
    cfg = read(name)
    # Written to a work directory and read again, as for a resumed run.
    cfg = Config.fromstring(cfg.dump(), '.py')
    model = build_model(cfg)
    optimizer = build_optim_wrapper(model, cfg.optim_wrapper).optimizer
    decay = {
        parameter: group['weight_decay']
        for group in optimizer.param_groups
        for parameter in group['params']
    }
    rotation = 'head.rotation.parametrizations.weight.original'
    for parameter_name, parameter in model.named_parameters():
        expected = 0 if parameter_name == rotation else 2e-4
        assert decay.pop(parameter) == expected, parameter_name
    assert not decay


@pytest.mark.parametrize(
    'schedule, factor',
    [('cifar_200e', 0.01), ('cifar_step10_200e', 0.1)],
)
def test_cifar_schedule(schedule, factor):
    """Learning rates of the released code, epoch by epoch."""
    path = ROOT / 'configs' / '_base_' / 'schedules' / f'{schedule}.py'
    cfg = Config.fromfile(path)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=cfg.optim_wrapper.optimizer.lr)
    schedulers = [
        PARAM_SCHEDULERS.build(
            scheduler, default_args=dict(optimizer=optimizer)
        )
        for scheduler in cfg.param_scheduler
    ]
    rates = []
    for _ in range(cfg.train_cfg.max_epochs):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert rates[:6] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1, 0.1])
    assert [rates[epoch] for epoch in (159, 160, 179, 180)] == pytest.approx(
        [0.1, 0.1 * factor, 0.1 * factor, 0.1 * factor**2]
    )


@pytest.fixture(scope='module')
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('stand-ins')
    write_all(folder)
    return folder


@pytest.fixture
def trusted(monkeypatch):
    """Let the readers take our files for the published ones."""
    for cls in (
        torchvision.datasets.SVHN,
        torchvision.datasets.STL10,
        CIFAR10,
    ):
        monkeypatch.setattr(cls, '_check_integrity', lambda self: True)


# Data settings that were found to be good; many configs share theirs.
_READ = set()


@every_config
def test_data(name, data_folder, trusted, monkeypatch):
    monkeypatch.chdir(data_folder)
    cfg = read(name)
    parts = [cfg[f'{mode}_dataloader'] for mode in MODES]
    data = str([*parts, cfg.val_evaluator, cfg.test_evaluator])
    if data in _READ:
        return
    for mode in MODES:
        loader = cfg[f'{mode}_dataloader']
        dataset = DATASETS.build(loader.dataset)
        assert len(dataset) > 0
        for index in (0, len(dataset) - 1):
            item = dataset[index]
            channels = len(cfg.data_preprocessor.mean)
            assert item['inputs'].shape[0] == channels
            assert item['inputs'].dtype == torch.uint8
            label = item['data_samples'].gt_label.item()
            assert 0 <= label < cfg.data_preprocessor.num_classes
        sampler = DATA_SAMPLERS.build(
            loader.sampler, default_args=dict(dataset=dataset, seed=0)
        )
        assert len(list(sampler)) == len(dataset)
        distribution = LabelDistribution.from_dataset(dataset)
        if 'imagenet' not in name:
            expected = cfg.data_preprocessor.num_classes
            assert distribution.num_classes == expected
        # Training data are shuffled or drawn, test data in order.
        shuffled = list(sampler) != list(range(len(dataset)))
        assert shuffled == (mode == 'train') or len(dataset) < 4
        if mode != 'train':
            evaluator = Evaluator(copy.deepcopy(cfg[f'{mode}_evaluator']))
            for metric in evaluator.metrics:
                if hasattr(metric, 'set_label_distribution'):
                    metric.set_label_distribution(distribution)
    _READ.add(data)
