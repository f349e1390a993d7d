# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import datetime
import itertools
import json
import os
from pathlib import Path

import pytest
import torch
from mmengine.dataset import DefaultSampler, default_collate
from mmengine.model import BaseModel
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from mmpretrain.structures import DataSample
from torch import nn
from torch.utils.data import DataLoader, Dataset

from mmgeom.engine.hooks import CollapseMonitorHook
from mmgeom.evaluation import NeuralCollapse
from mmgeom.geometry.class_means import class_means
from mmgeom.geometry.collapse import nc1, nc2, nc3
from mmgeom.geometry.collapse_centers import (
    center_distance,
    cosine_statistics,
    variability,
)
from mmgeom.registry import HOOKS

NUM_CLASSES, DIM = 3, 5
NAMES = itertools.count()


class Points(Dataset):
    """Random vectors with labels; the last class is never there."""

    def __init__(self, number=24):
        generator = torch.Generator().manual_seed(3)
        self.labels = torch.arange(number) // 2 % (NUM_CLASSES - 1)
        self.points = torch.randn(number, DIM, generator=generator)
        self.points += 2 * self.labels[:, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {'point': self.points[index], 'label': self.labels[index]}


class Head(nn.Module):
    """The protocol of the hook, and a log of what was kept."""

    def __init__(self, mixes=lambda rank: False, vectors=True):
        super().__init__()
        self.num_classes = NUM_CLASSES
        self.keep_features = False
        self.kept_feature = self.kept_label = None
        self.weight = nn.Parameter(torch.eye(NUM_CLASSES, DIM) + 0.1)
        self.vectors = vectors
        self.mixes = mixes
        self.kept_batches = []

    def collapse_targets(self):
        if not self.vectors:
            return dict(directions=None, mean_centers=None)
        centers = torch.eye(NUM_CLASSES, DIM)
        return dict(directions=self.weight, mean_centers=centers)

    def loss(self, feature, label):
        assert self.kept_feature is None and self.kept_label is None
        self.kept_batches.append(self.keep_features)
        if self.keep_features:
            rank = int(os.environ.get('RANK', 0))
            self.kept_feature = feature.detach()
            self.kept_label = None if self.mixes(rank) else label
        return (feature @ self.weight.T).logsumexp(1).mean()


class Model(BaseModel):
    """A head on a learnable scale, which is also a feature extractor."""

    def __init__(self, head=None):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        if head is not None:
            self.head = head

    def forward(self, point, label, mode='tensor'):
        feature = point * self.scale
        if mode == 'loss':
            if not hasattr(self, 'head'):
                return {'loss': feature.mean()}
            return {'loss': self.head.loss(feature, label)}
        samples = [DataSample().set_gt_label(y) for y in label.tolist()]
        for sample, x in zip(samples, feature):
            sample.set_field(x, 'feature')
        return samples


def run(
    tmp_path,
    hook,
    head=None,
    epochs=2,
    max_iters=None,
    batch_size=4,
    learning_rate=0.0,
    log_processor={},
    **kwargs,
):
    """Train; returns the runner."""
    torch.manual_seed(0)
    dataset = Points()
    loader = DataLoader(
        dataset,
        batch_size,
        sampler=DefaultSampler(dataset, shuffle=False),
        collate_fn=default_collate,
    )
    model = Model(head)
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    loop = dict(by_epoch=True, max_epochs=epochs)
    if max_iters:
        loop = dict(by_epoch=False, max_iters=max_iters)
    runner = Runner(
        model,
        str(tmp_path),
        train_dataloader=loader,
        train_cfg=loop,
        optim_wrapper=OptimWrapper(optimizer),
        custom_hooks=[hook],
        default_hooks=dict(
            logger=dict(type='LoggerHook', interval=3), checkpoint=None
        ),
        log_processor=dict(by_epoch=max_iters is None, **log_processor),
        visualizer=dict(
            type='Visualizer', vis_backends=[dict(type='LocalVisBackend')]
        ),
        experiment_name=f'collapse_{next(NAMES)}',
        **kwargs,
    )
    runner.train()
    return runner


def expected_of(features, labels, weight):
    """All-at-once metrics with the vectors of the stand-in head."""
    means = class_means(features, labels)
    distance = center_distance(features, labels, torch.eye(NUM_CLASSES, DIM))
    return {
        'nc1': nc1(features, labels),
        'nc2': nc2(means.mean, 'orthogonal'),
        'nc3': nc3(means.mean, weight[means.label], 'orthogonal'),
        'center_distance_mean': distance.mean,
        'center_distance_std': distance.std,
        'center_element_mean': distance.element_mean,
        'center_element_std': distance.element_std,
        'variability': variability(features, labels, weight),
    }


def history(runner, name='nc2', prefix='train_collapse'):
    scalars = runner.message_hub.log_scalars
    buffer = scalars.get(f'train/{prefix}/{name}')
    return [] if buffer is None else buffer.data[0].tolist()


def curve(runner, name='train_collapse/nc2'):
    """Steps and values that a backend has seen."""
    (file,) = Path(runner.log_dir).glob('vis_data/scalars.json')
    lines = [json.loads(line) for line in file.open()]
    return [(line['step'], line[name]) for line in lines if name in line]


def close(expected):
    return pytest.approx(expected, rel=1e-10, abs=1e-10)


def hook_of(**kwargs):
    return HOOKS.build(dict(type='mmgeom.CollapseMonitorHook', **kwargs))


class TestValues:
    def test_epochs(self, tmp_path):
        head = Head()
        runner = run(tmp_path, hook_of(), head)
        data = Points()
        expected = expected_of(data.points, data.labels, head.weight)
        for name, value in expected.items():
            assert history(runner, name) == close([value, value])
        names = [n for n in runner.message_hub.log_scalars if 'collapse' in n]
        assert len(names) == len(expected)
        assert not any('loss' in n for n in names)
        assert all(head.kept_batches) and len(head.kept_batches) == 12
        assert head.keep_features is False
        assert head.kept_feature is None and head.kept_label is None

    def test_features_are_those_of_the_training_steps(self, tmp_path):
        """Weights change between the iterations of a window."""
        head, seen = Head(), []
        loss = head.loss

        def record(feature, label):
            seen.append((feature.detach().clone(), label))
            return loss(feature, label)

        head.loss = record
        runner = run(tmp_path, hook_of(), head, 1, learning_rate=0.5)
        features, labels = map(torch.cat, zip(*seen))
        assert not torch.allclose(features, Points().points)
        # Class vectors are those at the end of the window.
        expected = expected_of(features, labels, head.weight)
        for name, value in expected.items():
            assert history(runner, name) == close([value])

    def test_backend(self, tmp_path):
        runner = run(tmp_path, hook_of(), Head(), 3)
        points = dict(curve(runner))
        assert sorted(points) == [6, 9, 12, 15, 18]
        values = history(runner)
        assert [points[6], points[12], points[18]] == values

    def test_backend_names_with_hierarchy(self, tmp_path):
        runner = run(
            tmp_path,
            hook_of(prefix='geometry'),
            Head(),
            log_processor=dict(log_with_hierarchy=True),
        )
        values = history(runner, prefix='geometry')
        points = dict(curve(runner, 'train/geometry/nc2'))
        assert len(values) == 2 and [points[6], points[12]] == values
        assert not curve(runner, 'geometry/nc2')

    def test_simplex_without_centers(self, tmp_path):
        runner = run(tmp_path, hook_of(cosines=True), Head(vectors=False), 1)
        data = Points()
        means = class_means(data.points, data.labels).mean
        assert history(runner) == close([nc2(means)])
        expected = cosine_statistics(means)
        for name, value in expected.items():
            assert history(runner, name) == close([value])
        assert not history(runner, 'nc3')
        assert not history(runner, 'variability')

    def test_target(self, tmp_path):
        runner = run(tmp_path, hook_of(target='simplex'), Head(), 1)
        data = Points()
        means = class_means(data.points, data.labels).mean
        assert history(runner) == close([nc2(means)])

    def test_wide_features(self, tmp_path):
        runner = run(tmp_path, hook_of(max_scatter_dim=DIM - 1), Head())
        assert not history(runner, 'nc1')
        assert len(history(runner, 'nc2')) == 2


class TestWindows:
    def test_interval_of_epochs(self, tmp_path):
        head = Head()
        runner = run(tmp_path, hook_of(interval=2), head, 5)
        # Epochs 2, 4, and the last.
        looks = [epoch in (1, 3, 4) for epoch in range(5)]
        assert head.kept_batches == [look for look in looks for _ in range(6)]
        assert len(history(runner)) == 3

    def test_some_iterations(self, tmp_path):
        head = Head()
        runner = run(tmp_path, hook_of(every_n_iters=4), head, 1)
        assert head.kept_batches == [True, False, False, False, True, False]
        data = Points()
        index = torch.tensor([0, 1, 2, 3, 16, 17, 18, 19])
        expected = nc1(data.points[index], data.labels[index])
        assert history(runner, 'nc1') == close([expected])

    @pytest.mark.parametrize('max_iters, windows', [(4, 1), (6, 2)])
    def test_iterations(self, tmp_path, max_iters, windows):
        hook = hook_of(by_epoch=False, interval=4)
        runner = run(tmp_path, hook, Head(), max_iters=max_iters)
        data = Points()
        # The last window ends with the training.
        parts = [torch.arange(16), torch.arange(16, 24)][:windows]
        expected = [nc1(data.points[i], data.labels[i]) for i in parts]
        assert history(runner, 'nc1') == close(expected)
        steps = [step for step, _ in curve(runner)]
        assert {4, max_iters} <= set(steps)

    def test_iterations_of_an_epoch_based_loop(self, tmp_path):
        hook = hook_of(by_epoch=False, interval=8)
        runner = run(tmp_path, hook, Head(), 2)
        assert len(history(runner)) == 2  # 8 iterations, and 4 at the end

    def test_epochs_need_epochs(self, tmp_path):
        with pytest.raises(ValueError, match='interval=1 in epochs, but'):
            run(tmp_path, hook_of(), Head(), max_iters=3)

    def test_loop_that_stops_early(self, tmp_path):
        class Stop(CollapseMonitorHook):
            def end_of_epoch(self, dataloader, batch_idx):
                return False

        runner = run(tmp_path, Stop(), Head(), 2)
        assert len(history(runner)) == 2


class TestNothingToSee:
    def test_no_head(self, tmp_path, monkeypatch):
        messages = warnings(monkeypatch)
        runner = run(tmp_path, hook_of(), None, max_iters=3)
        assert not history(runner)
        assert len(messages) == 1
        assert "no head with the attribute 'keep_features'" in messages[0]

    def test_mixed_labels(self, tmp_path, monkeypatch):
        messages = warnings(monkeypatch)
        runner = run(tmp_path, hook_of(), Head(mixes=lambda rank: True), 3)
        assert not history(runner)
        assert len(messages) == 1 and 'mixed labels' in messages[0]

    def test_divergence(self, tmp_path, monkeypatch):
        messages = warnings(monkeypatch)
        head = Head()
        loss = head.loss
        head.loss = lambda x, y: loss(x * float('nan'), y)
        runner = run(tmp_path, hook_of(), head, 2)
        assert not history(runner)
        assert len(messages) == 1 and 'diverged' in messages[0]

    def test_head_without_targets(self, tmp_path, monkeypatch):
        monkeypatch.delattr(Head, 'collapse_targets')
        runner = run(tmp_path, hook_of(), Head(), 1)
        assert history(runner) and not history(runner, 'nc3')


def warnings(monkeypatch):
    messages = []
    monkeypatch.setattr(
        'mmgeom.engine.hooks.collapse_monitor_hook.print_log',
        lambda message, **kwargs: messages.append(message),
    )
    return messages


def test_metrics_learn_the_targets(tmp_path):
    head = Head()
    loader = DataLoader(Points(10), 4, collate_fn=default_collate)
    runner = run(
        tmp_path,
        hook_of(),
        head,
        1,
        val_dataloader=loader,
        val_cfg=dict(),
        val_evaluator=[NeuralCollapse()],
        test_dataloader=loader,
        test_cfg=dict(),
        test_evaluator=[NeuralCollapse(prefix='test')],
    )
    data = Points(10)
    expected = expected_of(data.points, data.labels, head.weight)
    # Training and validation are different curves.
    scalars = runner.message_hub.log_scalars
    for name, value in expected.items():
        assert scalars[f'val/collapse/{name}'].current() == close(value)
    assert curve(runner, 'collapse/nc2') == [
        (1, pytest.approx(expected['nc2']))
    ]
    result = runner.test()
    assert result == close({f'test/{k}': v for k, v in expected.items()})


@pytest.mark.parametrize(
    'arguments, match',
    [
        (dict(interval=0), 'interval must be a positive .* got 0'),
        (dict(every_n_iters=1.5), 'every_n_iters must .* got 1.5'),
        (dict(target='cube'), "or None, got 'cube'"),
        (dict(prefix='loss_geometry'), "must not contain 'loss'"),
    ],
)
def test_failures(arguments, match):
    with pytest.raises(ValueError, match=match):
        CollapseMonitorHook(**arguments)


def worker(rank, port, folder):
    """One of two processes."""
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE='2',
        MASTER_ADDR='127.0.0.1',
        MASTER_PORT=port,
    )
    os.chdir(folder)
    # A rank that waits for the other for ever must fail the test.
    limit = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group('gloo', timeout=limit)
    wrapper = dict(
        type='MMDistributedDataParallel',
        device_ids=None,
        broadcast_buffers=False,
    )
    options = dict(
        launcher='pytorch', cfg=dict(model_wrapper_cfg=wrapper), batch_size=2
    )
    heads = {
        'all': Head(),
        # One rank has no single labels, so that it starts no statistics.
        'first': Head(mixes=lambda rank: rank == 1),
        'none': Head(mixes=lambda rank: True),
    }
    result = {}
    for name, head in heads.items():
        runner = run(Path(folder), CollapseMonitorHook(), head, 1, **options)
        scalars = runner.message_hub.log_scalars
        result[name] = {
            key: buffer.data[0].tolist()
            for key, buffer in scalars.items()
            if 'collapse' in key
        }
    result['metric'] = evaluate_share(rank)
    torch.save(result, Path(folder) / f'{rank}.pt')
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def evaluate_share(rank):
    """Eleven samples, so that the second rank pads with one."""
    data = Points(11)
    metric = NeuralCollapse()
    for start in range(0, 12, 4):
        index = [i % 11 for i in range(start, start + 4)][rank::2]
        metric.process(
            None,
            [
                dict(feature=data.points[i], gt_label=data.labels[i])
                for i in index
            ],
        )
    return metric.evaluate(11)


def test_two_processes_equal_one(tmp_path, free_port):
    torch.multiprocessing.spawn(worker, (free_port, str(tmp_path)), 2)
    first, second = (torch.load(tmp_path / f'{rank}.pt') for rank in (0, 1))
    assert first == second
    runner = run(tmp_path / 'one', CollapseMonitorHook(), Head(), 1)
    scalars = runner.message_hub.log_scalars
    assert len(first['all']) == 8
    for key, values in first['all'].items():
        assert values == close(scalars[key].data[0].tolist())
    data = Points()
    half = data.points[::2], data.labels[::2]
    expected = expected_of(*half, Head().weight)
    assert len(first['first']) == len(expected)
    for key, value in expected.items():
        assert first['first'][f'train/train_collapse/{key}'] == close([value])
    assert first['none'] == {}
    data = Points(11)
    one = NeuralCollapse.calculate(data.points, data.labels)
    assert first['metric'] == close(
        {f'collapse/{k}': v for k, v in one.items()}
    )
