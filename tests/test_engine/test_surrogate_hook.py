# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The extra pass for SRL's surrogate, and SRL in small runs."""

import copy
import itertools

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmpretrain.structures import DataSample
from torch import nn

from mmgeom.engine.hooks.surrogate_hook import SurrogateHook
from mmgeom.geometry import StepGenerator
from mmgeom.models.data_preprocessors.tabular_data_preprocessor import (
    TabularDataPreprocessor,
)
from mmgeom.models.heads.regressor_head import RegressorHead
from mmgeom.models.heads.srl_head import SRLHead
from mmgeom.models.losses.error_loss import ErrorLoss
from mmgeom.models.regressors.image_regressor import ImageRegressor

NAMES = itertools.count()


class Rows(torch.utils.data.Dataset):
    """Rows with the labels 0, 1, 2, 4, 5, of which 0 is frequent."""

    metainfo = {}

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(24, 4, generator=generator)
        self.y = torch.tensor([0.0, 1, 2, 4, 5, 0, 0, 0]).repeat(3)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        sample = DataSample().set_gt_score(self.y[index : index + 1])
        return dict(inputs=self.x[index], data_samples=sample)

    def get_gt_values(self):
        return self.y.double().numpy()


class Noise(TabularDataPreprocessor):
    """Draws as the preprocessor of batches of images does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps = StepGenerator(5)

    def forward(self, data, training=False):
        data = super().forward(data, training)
        if training:
            x = data['inputs']
            noise = torch.randn(x.shape, generator=self.steps('cpu'))
            data['inputs'] = x + noise
        return data


class Body(nn.Module):
    """Something with running statistics and, if asked, random numbers."""

    def __init__(self, dropout):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout)
        )

    def forward(self, x):
        return (self.layers(x),)


def build_model(dropout=0.0, **options):
    arguments = dict(num_bins=6, proj_dim=5, num_points=30, loss=ErrorLoss())
    torch.manual_seed(0)
    return ImageRegressor(
        backbone=Body(dropout),
        head=SRLHead(8, **{**arguments, **options}),
        data_preprocessor=TabularDataPreprocessor(4, standardize=False),
    )


def build_runner(work_dir, model, hooks=(), epochs=4, iters=None, **options):
    by_epoch = iters is None
    sampler = 'DefaultSampler' if by_epoch else 'InfiniteSampler'
    length = dict(max_epochs=epochs) if by_epoch else dict(max_iters=iters)
    return Runner(
        model=model,
        work_dir=str(work_dir),
        experiment_name=f'srl_{next(NAMES)}',
        train_dataloader=dict(
            batch_size=6,
            num_workers=0,
            dataset=Rows(),
            sampler=dict(type=sampler, shuffle=True),
        ),
        train_cfg=dict(by_epoch=by_epoch, **length),
        optim_wrapper=dict(
            type='OptimWrapper',
            optimizer=dict(type='AdamW', lr=0.01, weight_decay=0.01),
        ),
        default_hooks=dict(
            checkpoint=dict(
                type='CheckpointHook',
                interval=1 if by_epoch else 6,
                by_epoch=by_epoch,
            )
        ),
        custom_hooks=[
            dict(type='mmgeom.LabelDistributionHook', bins=dict(width=1.0)),
            dict(type='mmgeom.EpochHook'),
            *hooks,
        ],
        log_processor=dict(by_epoch=by_epoch),
        default_scope='mmpretrain',
        randomness=dict(seed=0),
        **options,
    )


def run(work_dir, model, hooks=(), **options):
    runner = build_runner(work_dir, model, hooks, **options)
    runner.train()
    return runner


# --- SRL in a run -----------------------------------------------------------
EXTRA = dict(type='mmgeom.SurrogateHook')
AVERAGE = dict(type='EMAHook', momentum=0.1)
RESUMED = {
    'fixed points': (dict(), ()),
    'points of an epoch': (dict(resample='epoch'), ()),
    'points of an iteration': (dict(resample='iter', points='span'), ()),
    'extra pass': (dict(preset='agedb_code'), [EXTRA]),
    'averaged': (dict(resample='iter'), [AVERAGE]),
}


def assert_same_state(first, second):
    assert list(first) == list(second)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def assert_same_runs(one, two):
    assert_same_state(one['state_dict'], two['state_dict'])
    states = (run['optimizer']['state'] for run in (one, two))
    for a, b in zip(*(state.values() for state in states), strict=True):
        assert_same_state(a, b)
    if 'ema_state_dict' in one:
        assert_same_state(one['ema_state_dict'], two['ema_state_dict'])


@pytest.mark.parametrize('case', list(RESUMED))
def test_two_parts_equal_the_whole(tmp_path, load, case):
    options, hooks = RESUMED[case]
    run(tmp_path / 'whole', build_model(**options), hooks)
    middle = tmp_path / 'whole/epoch_2.pth'
    run(
        tmp_path / 'part',
        build_model(**options),
        hooks,
        load_from=str(middle),
        resume=True,
    )
    whole, part = (
        load(tmp_path / name / 'epoch_4.pth') for name in ('whole', 'part')
    )
    assert_same_runs(whole, part)
    # Something was learnt in the second part, or equality says nothing.
    before = load(middle)['state_dict']
    for name in ('head.trace.surrogate.centroids', 'head.fc.weight'):
        assert not torch.equal(before[name], whole['state_dict'][name])


def test_two_parts_of_iterations_equal_the_whole(tmp_path, load):
    """Parted in the middle of an epoch of four iterations."""
    options = dict(resample='iter')
    run(tmp_path / 'whole', build_model(**options), iters=18)
    middle = tmp_path / 'whole/iter_6.pth'
    assert load(middle)['state_dict']['head.trace.surrogate.cnt'].sum() == 12
    run(
        tmp_path / 'part',
        build_model(**options),
        iters=18,
        load_from=str(middle),
        resume=True,
    )
    whole, part = (
        load(tmp_path / name / 'iter_18.pth') for name in ('whole', 'part')
    )
    assert_same_runs(whole, part)


def test_starting_from_weights_forgets_the_surrogate(tmp_path, load):
    run(tmp_path / 'first', build_model(), epochs=2)
    path = tmp_path / 'first/epoch_2.pth'
    weights = {
        name: value
        for name, value in load(path)['state_dict'].items()
        if 'surrogate' not in name
    }
    torch.save(dict(state_dict=weights), tmp_path / 'weights.pth')
    surrogates = []
    for start in (path, tmp_path / 'weights.pth'):
        model = build_model()
        run(tmp_path / start.stem, model, epochs=1, load_from=str(start))
        surrogates.append(dict(model.head.trace.surrogate.named_buffers()))
    assert_same_state(*surrogates)


def test_empty_bins_stay_out_of_the_trace(tmp_path):
    model = build_model()
    run(tmp_path, model, epochs=2)
    trace = model.head.trace
    assert trace.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert trace.counts.tolist() == [12, 3, 3, 0, 3, 3]
    assert trace.surrogate.seen.tolist() == [1, 1, 1, 0, 1, 1]
    norms = trace.surrogate.centroids.norm(dim=1)
    assert torch.allclose(norms, trace.surrogate.seen.float())


# --- The extra pass ---------------------------------------------------------
class Keep(Hook):
    """Copies the model at the end of an epoch, before the extra pass."""

    priority = 'VERY_HIGH'

    def after_train_epoch(self, runner):
        self.model = copy.deepcopy(runner.model)


def test_surrogate_is_that_of_the_last_weights(tmp_path):
    model, keep = build_model(), Keep()
    runner = run(tmp_path, model, [keep, EXTRA], epochs=1)
    other = keep.model.train()
    sums = torch.zeros(6, 5)
    with torch.no_grad():
        for batch in runner.train_dataloader:  # in the order of the epoch
            x = torch.stack(batch['inputs'])
            target = torch.cat([s.gt_score for s in batch['data_samples']])
            p = other.head.projector(other.backbone(x)[-1])
            z = nn.functional.normalize(p)
            sums.index_add_(0, target.long(), z)
    expected = nn.functional.normalize(sums)
    found = model.head.trace.surrogate.centroids
    assert torch.allclose(found, expected, atol=1e-6)
    # In training mode, as the released code has it.
    for name, value in model.backbone.named_buffers():
        assert torch.equal(value, other.backbone.get_buffer(name)), name
    collected = build_model()
    run(tmp_path / 'without', collected, epochs=1)
    without = collected.head.trace.surrogate.centroids
    assert not torch.allclose(found, without, atol=1e-3)


def test_each_sample_counts_once(tmp_path, monkeypatch):
    numbers = []
    after_epoch = SRLHead.after_epoch

    def spy(head, epoch):
        numbers.append(head.trace.surrogate.cnt.tolist())
        after_epoch(head, epoch)

    monkeypatch.setattr(SRLHead, 'after_epoch', spy)
    run(tmp_path, build_model(), [EXTRA], epochs=2)
    assert numbers == [[12, 3, 3, 0, 3, 3]] * 2


def test_training_goes_on_as_without(tmp_path):
    """Random numbers of dropout are those of a run without the pass."""
    models = [build_model(dropout=0.5, warmup_epochs=9) for _ in range(2)]
    run(tmp_path / 'with', models[0], [EXTRA], epochs=3)
    run(tmp_path / 'without', models[1], epochs=3)
    for one, two in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(one, two)
    means = [m.backbone.layers[1].running_mean for m in models]
    assert not torch.equal(*means)


def test_augmentations_of_batches_go_on_as_without(tmp_path):
    """Their step is part of the model."""
    models = [build_model(warmup_epochs=9) for _ in range(2)]
    for model in models:
        model.data_preprocessor = Noise(4, standardize=False)
    run(tmp_path / 'with', models[0], [EXTRA], epochs=3)
    run(tmp_path / 'without', models[1], epochs=3)
    for one, two in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(one, two)
    steps = [m.data_preprocessor.steps.step for m in models]
    assert torch.equal(*steps)


def test_interval(tmp_path, monkeypatch):
    calls, accumulate = [], SRLHead.accumulate

    def spy(head, feats, data_samples):
        calls.append(head.trace.points._epoch)
        assert not torch.is_grad_enabled()
        accumulate(head, feats, data_samples)

    monkeypatch.setattr(SRLHead, 'accumulate', spy)
    run(tmp_path, build_model(), [dict(EXTRA, interval=2)], epochs=3)
    assert calls == [1] * 4


def test_needs_a_head_that_collects(tmp_path):
    model = build_model()
    model.head = RegressorHead(8, loss=ErrorLoss())
    with pytest.raises(ValueError, match='such as mmgeom.SRLHead, got Regr'):
        run(tmp_path, model, [EXTRA])


def test_needs_epochs(tmp_path):
    with pytest.raises(ValueError, match='by_epoch=True .* IterBasedTrain'):
        run(tmp_path, build_model(), [EXTRA], iters=4)


def test_needs_a_positive_interval():
    with pytest.raises(ValueError, match='interval must be positive, got 0'):
        SurrogateHook(interval=0)


def test_a_model_without_head_is_left_alone(tmp_path):
    runner = build_runner(tmp_path, build_model())
    runner.model = nn.Linear(2, 2)
    hook = SurrogateHook()
    hook.before_train(runner)
    hook.after_train_epoch(runner)
    assert not (tmp_path / 'epoch_1.pth').exists()
