# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Heads and losses in one graph of ``torch.compile``, equal to eager."""

import copy

import pytest
import torch
from mmengine.optim import OptimWrapper
from mmpretrain.structures import DataSample
from torch._dynamo.testing import CompileCounterWithBackend

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import supervised_contrastive_loss
from mmgeom.models.data_preprocessors import BatchedDataPreprocessor
from mmgeom.models.heads.projector import Projector
from mmgeom.registry import MODELS
from mmgeom.structures import BatchSamples

K, WIDTH, BATCH = 5, 32, 12
COUNTS = torch.tensor([100, 50, 20, 10, 5])

CLASSIFIERS = dict(
    linear=dict(type='mmgeom.LinearHead'),
    adjusted=dict(
        type='mmgeom.LinearHead', loss=dict(type='mmgeom.LogitAdjustedLoss')
    ),
    cosine=dict(type='mmgeom.CosineHead', learn_scale=True),
    random=dict(type='mmgeom.MultiCenterHead', f=3),
    axis=dict(type='mmgeom.MultiCenterHead', f=3, frame='axis'),
    hadamard=dict(type='mmgeom.MultiCenterHead', f=3, frame='hadamard'),
    objective_p=dict(
        type='mmgeom.MultiCenterHead',
        f=3,
        loss='regression',
        norm_reg_on='pre_bn',
    ),
    etf=dict(type='mmgeom.ETFHead'),
    rotated=dict(type='mmgeom.RotatedETFHead'),
)
SMALL = dict(hidden_channels=8, out_channels=6)
CONTRASTIVE = dict(
    supcon=dict(type='mmgeom.SupConHead', implementation='dense', **SMALL),
    supcon_tiled=dict(
        type='mmgeom.SupConHead', implementation='tiled', **SMALL
    ),
    bcl=dict(type='mmgeom.BCLHead', implementation='dense', **SMALL),
    bcl_tiled=dict(type='mmgeom.BCLHead', implementation='tiled', **SMALL),
    temperatures=dict(type='mmgeom.FeatReconHead', gen_mode='none', **SMALL),
)
REGRESSORS = dict(
    huber=dict(
        type='mmgeom.RegressorHead',
        loss=dict(type='mmgeom.ErrorLoss', kind='huber'),
    ),
    srl=dict(type='mmgeom.SRLHead'),
    srl_code=dict(type='mmgeom.SRLHead', preset='agedb_code'),
    srl_span=dict(type='mmgeom.SRLHead', points='span', resample='epoch'),
)
HEADS = CLASSIFIERS | CONTRASTIVE | REGRESSORS


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def build(config, seed=0):
    """A head that has been through an epoch of one step."""
    config = dict(dict(in_channels=WIDTH), **config)
    bins = None
    if config['type'] == 'mmgeom.SRLHead':
        config |= dict(num_bins=K, num_points=50, proj_dim=8)
        bins = LabelBins(torch.arange(K + 1.0))
    elif config['type'] != 'mmgeom.RegressorHead':
        config |= dict(num_classes=K)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = MODELS.build(config).train()
    distribution = LabelDistribution(COUNTS, bins=bins)
    for module in head.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(distribution)
    if hasattr(head, 'before_epoch'):
        start_epoch(head, 0)
        head.loss(*batch(head))
        head.after_epoch(0)
        start_epoch(head, 1)
        head.loss(*batch(head))
    return head


def start_epoch(head, epoch):
    if hasattr(head, 'before_epoch'):
        head.before_epoch(epoch, 10)


def batch(head, seed=0, size=BATCH, stacked=True):
    """Features and samples."""
    rng = generator(seed)
    views = getattr(head, 'num_views', 1)
    features = torch.randn(views * size, WIDTH, generator=rng)
    labels = torch.randint(K, (size,), generator=rng)
    if hasattr(head, 'num_targets'):
        scores = (labels + torch.rand(size, generator=rng))[:, None]
        if stacked:
            return (features,), BatchSamples(dict(gt_score=scores))
        return (features,), [DataSample().set_gt_score(s) for s in scores]
    if stacked:
        return (features,), BatchSamples(dict(gt_label=labels))
    return (features,), [DataSample().set_gt_label(int(y)) for y in labels]


def step(function, head, features, samples):
    """All values, and the gradients of feature and parameters."""
    head.zero_grad()
    feature = features[0].clone().requires_grad_()
    losses = function((feature,), samples)
    sum(v for k, v in losses.items() if 'loss' in k).backward()
    gradients = {k: p.grad for k, p in head.named_parameters()}
    return {k: v.detach() for k, v in losses.items()}, feature.grad, gradients


def check_equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('name', HEADS)
def test_loss_of_head_is_one_graph(name):
    eager = build(HEADS[name])
    own = copy.deepcopy(eager)
    compiled = torch.compile(own.loss, fullgraph=True, backend='aot_eager')
    actual = step(compiled, own, *batch(own, 1))
    check_equal(actual, step(eager.loss, eager, *batch(eager, 1)))
    assert actual[1].abs().sum() > 0
    for one, two in zip(own.buffers(), eager.buffers(), strict=True):
        check_equal(one, two)


@pytest.mark.parametrize('name', ['adjusted', 'axis', 'supcon', 'srl'])
def test_samples_of_the_host_are_in_the_graph(name):
    head = build(HEADS[name])
    compiled = torch.compile(head.loss, fullgraph=True, backend='eager')
    expected = head.loss(*batch(head, 1))
    features, samples = batch(head, 1, stacked=False)
    actual = compiled(features, samples)
    assert actual.keys() == expected.keys()
    for key in actual:
        if 'loss' in key:
            check_equal(actual[key], expected[key])


@pytest.mark.parametrize('name', ['adjusted', 'axis', 'random', 'etf'])
def test_mixed_labels_that_were_looked_at_once(name):
    head = build(HEADS[name])
    (feature,), samples = batch(head, 1)
    labels = torch.eye(K)[samples.stacked('gt_label')]
    samples = BatchSamples(dict(gt_score=labels.lerp(labels.flip(0), 0.3)))
    expected = head.loss((feature,), samples)
    compiled = torch.compile(head.loss, fullgraph=True, backend='aot_eager')
    actual = compiled((feature,), samples)
    check_equal({k: actual[k] for k in expected}, expected)


@pytest.mark.parametrize(
    'name', ['linear', 'cosine', 'hadamard', 'bcl', 'srl']
)
def test_forward_is_one_graph(name):
    head = build(HEADS[name]).eval()
    compiled = torch.compile(head, fullgraph=True, backend='aot_eager')
    (feature,), _ = batch(head)
    check_equal(compiled((feature,)), head((feature,)))


def test_projector():
    projector = Projector(WIDTH, 8, 6, norm=False)
    compiled = torch.compile(projector, fullgraph=True, backend='aot_eager')
    rows = torch.randn(7, WIDTH, generator=generator())
    check_equal(compiled(rows), projector(rows))


@pytest.mark.parametrize('own_anchors', [False, True])
@pytest.mark.parametrize('implementation', ['dense', 'tiled'])
def test_contrast_with_synthetic_features(implementation, own_anchors):
    """The graph of FeatRecon; of a number of keys that changes, only one."""
    config = dict(type='mmgeom.FeatReconHead', **SMALL)
    config |= dict(implementation=implementation, syn_as_anchor=own_anchors)
    head = build(config)
    counter = CompileCounterWithBackend('aot_eager')
    compiled = torch.compile(
        head.contrast_with, fullgraph=True, backend=counter, dynamic=True
    )
    for number in (9, 7, 13):
        arguments = []
        for seed, size in ((1, 2 * BATCH), (2, number)):
            rng = generator(seed)
            rows = torch.randn(size, 6, generator=rng)
            arguments += [rows, torch.randint(K, (size,), generator=rng)]
        results = []
        for function in (head.contrast_with, compiled):
            rows = arguments[0].clone().requires_grad_()
            loss = function(rows, *arguments[1:])
            results.append((loss, *torch.autograd.grad(loss, rows)))
        check_equal(results[1], results[0])
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    'options',
    [dict(gen_mode='const', feature_store='stream'), dict(syn_as_anchor=True)],
)
def test_featrecon_leaves_its_graph_for_statistics_only(options):
    eager = build(dict(type='mmgeom.FeatReconHead', **SMALL, **options))
    own = copy.deepcopy(eager)
    features, samples = batch(own, 1)
    compiled = torch.compile(own.loss, backend='aot_eager')
    torch._dynamo.utils.counters.clear()
    actual = step(compiled, own, features, samples)
    check_equal(actual, step(eager.loss, eager, features, samples))
    (reason,) = torch._dynamo.utils.counters['graph_break']
    assert '_use_statistics' in reason
    for head in (own, eager):
        head.after_epoch(1)
    check_equal(own.statistics.mean, eager.statistics.mean)


def test_points_of_each_iteration_are_drawn_outside():
    config = dict(type='mmgeom.SRLHead', points='span', resample='iter')
    eager = build(config)
    own = copy.deepcopy(eager)
    compiled = torch.compile(own.loss, backend='aot_eager')
    torch._dynamo.utils.counters.clear()
    for seed in (1, 2):
        actual = step(compiled, own, *batch(own, seed))
        check_equal(actual, step(eager.loss, eager, *batch(eager, seed)))
    (reason,) = torch._dynamo.utils.counters['graph_break']
    assert '_draw' in reason


@pytest.mark.parametrize('name', ['random', 'bcl', 'temperatures', 'srl'])
def test_epochs_need_no_new_graphs(name):
    head = build(HEADS[name])
    counter = CompileCounterWithBackend('eager')
    compiled = torch.compile(head.loss, fullgraph=True, backend=counter)
    for epoch in range(1, 5):
        start_epoch(head, epoch)
        for seed in range(2):
            compiled(*batch(head, seed))
    assert counter.frame_count == 1


@pytest.mark.parametrize('form', ['sample', 'class_averaged'])
def test_tiles_see_autocast_and_classes_as_eager_does(form):
    rng = generator()
    rows = torch.randn(40, 6, generator=rng)
    labels = torch.randint(3, (40,), generator=rng)
    tau = torch.tensor([0.1, 0.5, 1.0])

    def loss(rows):
        options = dict(form=form, implementation='tiled', tile=16)
        return supervised_contrastive_loss(rows, labels, tau, **options)

    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')
    results = []
    for function in (loss, compiled):
        leaf = rows.clone().requires_grad_()
        with torch.autocast('cpu', dtype=torch.bfloat16):
            value = function(leaf)
        results.append((value, *torch.autograd.grad(value, leaf)))
    assert results[1][0].dtype == torch.float32
    check_equal(results[1], results[0])


def test_unset_priors_are_refused_in_a_compiled_loss():
    loss = MODELS.build(dict(type='mmgeom.LogitAdjustedLoss', num_classes=K))
    compiled = torch.compile(loss, backend='eager')
    with pytest.raises(RuntimeError, match='class priors are not set'):
        compiled(torch.zeros(2, K), torch.tensor([0, 1]))


def test_loaded_state_needs_no_look():
    """What a checkpoint brings is looked at when it is loaded."""
    for name in ('adjusted', 'random', 'srl'):
        head, other = build(HEADS[name]), build(HEADS[name], 1)
        blank = copy.deepcopy(other)
        for key, value in blank.state_dict().items():
            if key.endswith(('log_prior.value', 'edges')):
                value.fill_(float('nan'))
            if key.endswith('frame.centers'):
                value.zero_()
        # A state that lacks them undoes what was known.
        other.load_state_dict(blank.state_dict())
        with pytest.raises(RuntimeError, match='not set|not alloc|not known'):
            other.loss(*batch(other))
        other.load_state_dict(head.state_dict())
        compiled = torch.compile(other.loss, fullgraph=True, backend='eager')
        losses = compiled(*batch(other, 1))
        assert all(value.isfinite() for value in losses.values())
        torch._dynamo.reset()


ROWS = dict(
    type='mmgeom.ImageRegressor',
    backbone=dict(
        type='mmgeom.MLP', in_channels=WIDTH, hidden_channels=(WIDTH,)
    ),
    data_preprocessor=dict(
        type='mmgeom.TabularDataPreprocessor',
        in_channels=WIDTH,
        standardize=False,
    ),
)
IMAGES = dict(
    type='ImageClassifier',
    backbone=dict(type='mmgeom.CIFARResNet', depth=8, base_channels=8),
    neck=dict(type='GlobalAveragePooling'),
    data_preprocessor=dict(type='mmgeom.BatchedDataPreprocessor'),
)
DENSE = dict(
    IMAGES, backbone=dict(type='mmgeom.CIFARDenseNet', depth=10, growth_rate=8)
)
VIEWS = dict(
    IMAGES,
    type='mmgeom.MultiViewClassifier',
    data_preprocessor=dict(
        type='mmgeom.BatchedDataPreprocessor', views=[[], [], []]
    ),
)
MODELS_AND_HEADS = dict(
    srl=(ROWS, REGRESSORS['srl']),
    ncmc=(IMAGES, CLASSIFIERS['random']),
    logit_adjustment=(DENSE, CLASSIFIERS['adjusted']),
    bcl=(VIEWS, CONTRASTIVE['bcl']),
    featrecon=(VIEWS, dict(type='mmgeom.FeatReconHead', **SMALL)),
)


def make_model(name):
    """A model and its data."""
    config, head = MODELS_AND_HEADS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if 'views' in config['data_preprocessor']:
            # What takes the place of it has been through an epoch.
            first = dict(head, num_classes=K, in_channels=WIDTH)
            config = dict(config, head=first)
        model = MODELS.build(config)
        if name != 'srl':
            images = torch.zeros(2, 3, 8, 8)
            width = model.extract_feat(images)[0].shape[1]
            model.head = build(dict(head, in_channels=width))
        else:
            model.head = build(head)
    return model.train()


def batch_of(model, seed):
    (rows,), samples = batch(model.head, seed)
    if isinstance(model.data_preprocessor, BatchedDataPreprocessor):
        rows = torch.rand(BATCH, 3, 8, 8, generator=generator(seed)) * 4 - 2
    return dict(inputs=rows, data_samples=samples)


@pytest.mark.parametrize('name', MODELS_AND_HEADS)
def test_training_step_of_a_model(name):
    """As mmengine compiles it: only parts of others leave the graph."""
    losses = []
    for compiles in (False, True):
        model = make_model(name)
        optimizer = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
        train_step = model.train_step
        if compiles:
            torch._dynamo.utils.counters.clear()
            train_step = torch.compile(train_step, backend='eager')
        for seed in range(3):
            data = batch_of(model, seed)
            losses.append(train_step(data, optimizer)['loss'].detach())
    check_equal(losses[3:], losses[:3])
    reasons = torch._dynamo.utils.counters['graph_break']
    assert any('backward' in reason for reason in reasons)
    allowed = '_use_statistics' if name == 'featrecon' else 'none'
    for reason in reasons:
        inside = 'heads' in reason or 'losses' in reason
        assert not inside or allowed in reason, reason


def test_augmentation_needs_no_new_graphs():
    """Its random numbers are of each step, and stay outside of graphs."""
    preprocessor = MODELS.build(
        dict(
            type='mmgeom.BatchedDataPreprocessor',
            mean=[127.5],
            std=[127.5],
            augmentations=[
                dict(type='mmgeom.BatchRandomCrop', crop_size=8, padding=1)
            ],
        )
    )
    twin = copy.deepcopy(preprocessor)
    counter = CompileCounterWithBackend('eager')
    compiled = torch.compile(preprocessor, backend=counter)
    images = torch.randint(0, 256, (BATCH, 1, 8, 8), generator=generator())
    images = images.to(torch.uint8)

    def step():
        results = [
            module(
                dict(
                    inputs=images,
                    data_samples=BatchSamples(
                        dict(gt_label=torch.zeros(BATCH, 1).long())
                    ),
                ),
                training=True,
            )['inputs']
            for module in (compiled, twin)
        ]
        assert torch.equal(*results)

    step()
    step()
    graphs = counter.frame_count
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(10):
            step()
    assert counter.frame_count == graphs
