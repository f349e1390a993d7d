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

from mmgeom.binning import LabelBins
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
CONTRASTIVE = [
    name
    for name in PATHS
    if name.split('/')[1].startswith(('bcl', 'featrecon', 'supcon'))
]
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


def is_regression(cfg):
    return cfg.model.type == 'mmgeom.ImageRegressor'


def is_tabular(cfg):
    return (
        cfg.data_preprocessor.get('type') == 'mmgeom.TabularDataPreprocessor'
    )


def image_size(name):
    """Height and width of a config's images, by the name of the data."""
    if '14px' in name:
        return 14
    return SIZES.get(name.split('_')[-1].split('-')[0], 32)


def input_shape(name, cfg):
    """Shape of one input of the network."""
    if is_tabular(cfg):
        return (cfg.data_preprocessor.in_channels,)
    size = image_size(name)
    return len(cfg.data_preprocessor.mean), size, size


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
    assert len(PATHS) >= 78
    assert len(SMALL) >= 51
    assert len(FIXED_GEOMETRY) >= 12
    assert len(ROTATED) >= 3
    assert len(CONTRASTIVE) == 24


@every_config
def test_conventions(name):
    cfg = read(name)
    assert cfg.default_scope == 'mmpretrain'
    # Counts are read from the data.
    for value in values(cfg._cfg_dict.to_dict()):
        if not is_regression(cfg):
            assert isinstance(value, dict) or len(value) <= 20, value
    hooks = cfg.default_hooks
    assert hooks.label_distribution.type == 'mmgeom.LabelDistributionHook'
    assert hooks.checkpoint_check.type == 'mmgeom.CheckpointCheckHook'
    assert hooks.epoch.type == 'mmgeom.EpochHook'
    evaluators = cfg.val_evaluator
    if isinstance(evaluators, dict):
        evaluators = [evaluators]
    metric, best, rule = (
        ('mmgeom.ShotError', 'error/', 'less')
        if is_regression(cfg)
        else ('mmgeom.ShotAccuracy', 'shot/', 'greater')
    )
    assert metric in [evaluator.type for evaluator in evaluators]
    assert hooks.checkpoint.save_best.startswith(best)
    assert hooks.checkpoint.rule == rule
    if is_regression(cfg):
        assert hooks.label_distribution.bins
    if not is_tabular(cfg):
        # Inference opens images by the test pipeline.
        assert 'pipeline' in cfg.test_dataloader.dataset


@every_config
def test_name_tells_the_recipe(name):
    """N processes, batches of M, E epochs or iterations, as it says."""
    cfg = read(name)
    recipe = name.removesuffix('.py').split('_')[2]
    *numbers, unit = re.fullmatch(
        r'(\d+)xb(\d+)-(?:.+-)?(\d+)([ei])', recipe
    ).groups()
    gpus, batch, length = map(int, numbers)
    assert cfg.train_dataloader.batch_size == batch
    longest = 'max_iters' if 'max_iters' in cfg.train_cfg else 'max_epochs'
    assert cfg.train_cfg[longest] == length
    # Iterations may be counted as epochs when the data are one batch.
    assert unit == 'i' or longest == 'max_epochs'
    # What the learning rate is written for, or --auto-scale-lr is wrong.
    assert cfg.auto_scale_lr.base_batch_size == gpus * batch


@every_config
def test_model_builds(name, monkeypatch):
    # Drawing random weights takes most of the time.
    for layer in (torch.nn.modules.conv._ConvNd, torch.nn.Linear):
        monkeypatch.setattr(layer, 'reset_parameters', lambda self: None)
    cfg = read(name)
    model = build_model(cfg)
    if not is_regression(cfg):
        assert model.head.num_classes == cfg.data_preprocessor.num_classes
    first = next(model.backbone.parameters())
    shape = input_shape(name, cfg)
    assert first.shape[1] == shape[0]
    if not is_tabular(cfg):
        assert len(cfg.data_preprocessor.std) == shape[0]

    described = metadata()[name]
    parameters = sum(p.numel() for p in model.parameters())
    assert described['Parameters'] == parameters
    if 'max_iters' in cfg.train_cfg:
        assert described['Iterations'] == cfg.train_cfg.max_iters
    else:
        assert described['Epochs'] == cfg.train_cfg.max_epochs
    assert described['Batch Size'] == cfg.auto_scale_lr.base_batch_size
    if name in SMALL:
        report = get_model_complexity_info(
            model.eval(), shape, show_table=False, show_arch=False
        )
        assert described['FLOPs'] == report['flops']


def call(model, method, *args):
    """What the hooks do: call the modules that offer a method."""
    for module in model.modules():
        if hasattr(module, method):
            getattr(module, method)(*args)


def label_distribution(cfg):
    """A distribution as the hook reads one from the data."""
    if not is_regression(cfg):
        return LabelDistribution(
            range(cfg.data_preprocessor.num_classes, 0, -1)
        )
    number = cfg.model.head.get('num_bins', 4)
    bins = LabelBins(range(number + 1))
    return LabelDistribution(range(number, 0, -1), bins=bins)


def initialised(cfg):
    """The model as it is when training begins, told of the data."""
    torch.manual_seed(0)
    model = build_model(cfg)
    model.init_weights()
    call(model, 'set_label_distribution', label_distribution(cfg))
    if is_regression(cfg):
        call(model, 'set_target_statistics', torch.zeros(1), torch.ones(1))
    if is_tabular(cfg):
        (width,) = input_shape('', cfg)
        call(
            model,
            'set_input_statistics',
            torch.zeros(width),
            torch.ones(width),
        )
    return model


def random_batch(name, cfg, num_views=1):
    """Four inputs, the first of the first class and the last of the last."""
    shape = (4, *input_shape(name, cfg))
    if is_tabular(cfg):
        draw = functools.partial(torch.randn, shape)
    else:
        draw = functools.partial(
            torch.randint, 0, 256, shape, dtype=torch.uint8
        )
    inputs = draw() if num_views == 1 else [draw() for _ in range(num_views)]
    if is_regression(cfg):
        scores = torch.rand(4, 1)
        samples = [DataSample().set_gt_score(score) for score in scores]
    else:
        labels = torch.arange(4) * (cfg.data_preprocessor.num_classes - 1) // 3
        samples = [DataSample().set_gt_label(label) for label in labels]
    return dict(inputs=inputs, data_samples=samples)


@pytest.mark.parametrize('name', SMALL)
def test_training_step(name):
    """One step in the first epoch, and one in the second."""
    cfg = read(name)
    model = initialised(cfg)
    num_views = getattr(model.head, 'num_views', 1)
    assert num_views == (3 if name in CONTRASTIVE else 1)
    model.train()
    for epoch in range(2):
        # Or the preprocessor makes the views.
        given = 1 if 'views' in cfg.data_preprocessor else num_views
        data = random_batch(name, cfg, given)
        call(model, 'before_epoch', epoch, cfg.train_cfg.get('max_epochs', 2))
        data = model.data_preprocessor(data, training=True)
        losses = model(**data, mode='loss')
        loss, _ = model.parse_losses(losses)
        model.zero_grad()
        loss.backward()
        call(model, 'after_epoch', epoch)
        assert torch.isfinite(loss)
        weight = next(model.backbone.parameters())
        assert torch.isfinite(weight.grad).all()
        assert weight.grad.abs().sum() > 0
    if 'featrecon' in name:
        assert 'synthetic_many' in losses

    model.eval()
    data = model.data_preprocessor(random_batch(name, cfg))
    with torch.no_grad():
        predictions = model(**data, mode='predict')
    shape = (1 if is_regression(cfg) else cfg.data_preprocessor.num_classes,)
    for prediction in predictions:
        assert prediction.pred_score.shape == shape
        assert torch.isfinite(prediction.pred_score).all()


@pytest.mark.parametrize('name', CONTRASTIVE)
def test_contrastive_recipe(name):
    cfg = read(name)
    head = cfg.model.head
    if head.type == 'mmgeom.FeatReconHead':
        # One descent of the temperature over the whole training.
        period = head.get('tau_T', 200) or cfg.train_cfg.max_epochs
        assert period == cfg.train_cfg.max_epochs
    # The learning rate is at its end when the training is.
    schedulers = cfg.param_scheduler
    if isinstance(schedulers, dict):
        schedulers = [schedulers]
    assert schedulers[-1].end == cfg.train_cfg.max_epochs


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
    'schedule, factor, top',
    [
        ('cifar_200e', 0.01, 0.1),
        ('cifar_step10_200e', 0.1, 0.1),
        ('cifar_contrast_200e', 0.1, 0.15),
    ],
)
def test_cifar_schedule(schedule, factor, top):
    """Learning rates of the recipes, epoch by epoch."""
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
    rises = [share * top for share in (0.2, 0.4, 0.6, 0.8, 1, 1)]
    assert rates[:6] == pytest.approx(rises)
    assert [rates[epoch] for epoch in (159, 160, 179, 180)] == pytest.approx(
        [top, top * factor, top * factor, top * factor**2]
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
        # Made on the spot, and trained on as one batch, in any order.
        innermost = loader.dataset
        while 'dataset' in innermost:
            innermost = innermost.dataset
        is_whole = innermost.type == 'mmgeom.OperatorLearningDataset'
        if is_whole:
            innermost.num_samples = 40
        dataset = DATASETS.build(loader.dataset)
        assert len(dataset) > 0
        # Or the preprocessor makes the views.
        contrasted = name in CONTRASTIVE and 'views' not in (
            cfg.data_preprocessor
        )
        views = 3 if mode == 'train' and contrasted else 1
        for index in (0, len(dataset) - 1):
            check_item(dataset[index], cfg, views)
        sampler = DATA_SAMPLERS.build(
            loader.sampler, default_args=dict(dataset=dataset, seed=0)
        )
        assert len(list(sampler)) == len(dataset)
        distribution = LabelDistribution.from_dataset(
            dataset, bins=cfg.default_hooks.label_distribution.get('bins')
        )
        if 'imagenet' not in name and not is_regression(cfg):
            expected = cfg.data_preprocessor.num_classes
            assert distribution.num_classes == expected
        # Training data are shuffled or drawn, test data in order.
        shuffled = list(sampler) != list(range(len(dataset)))
        expected = mode == 'train'
        assert is_whole or shuffled == expected or len(dataset) < 4
        if mode != 'train':
            evaluator = Evaluator(copy.deepcopy(cfg[f'{mode}_evaluator']))
            for metric in evaluator.metrics:
                if hasattr(metric, 'set_label_distribution'):
                    metric.set_label_distribution(distribution)
    _READ.add(data)


def check_item(item, cfg, num_views):
    """One packed sample of a dataset."""
    inputs = [item['inputs']] if num_views == 1 else item['inputs']
    assert len(inputs) == num_views
    for tensor in inputs:
        if is_tabular(cfg):
            assert tensor.shape == (cfg.data_preprocessor.in_channels,)
            assert tensor.dtype == torch.float32
        else:
            assert tensor.shape[0] == len(cfg.data_preprocessor.mean)
            assert tensor.dtype == torch.uint8
            assert tensor.shape == inputs[0].shape
    if is_regression(cfg):
        assert item['data_samples'].gt_score.shape == (1,)
    else:
        label = item['data_samples'].gt_label.item()
        assert 0 <= label < cfg.data_preprocessor.num_classes
