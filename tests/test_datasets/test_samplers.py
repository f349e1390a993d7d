# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import random
from itertools import islice
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from mmengine.dataset import (
    ClassBalancedDataset,
    ConcatDataset,
    DefaultSampler,
    RepeatDataset,
)
from mmengine.registry import DefaultScope
from mmengine.runner import IterBasedTrainLoop, Runner
from mmpretrain.datasets import BaseDataset
from torch.utils.data import DataLoader

from mmgeom.datasets.samplers import (
    InfiniteRebalancedSampler,
    RebalancedSampler,
)
from mmgeom.registry import DATA_SAMPLERS

COUNTS = (40, 12, 0, 3, 1)
DIST_INFO = 'mmgeom.datasets.samplers.base_rebalanced_sampler.get_dist_info'
STRATEGIES = [
    dict(strategy='class_balanced'),
    dict(strategy='square_root'),
    dict(strategy='effective_number', beta=0.9),
    dict(strategy='progressive', max_epochs=5),
]
SAMPLERS = [RebalancedSampler, InfiniteRebalancedSampler]


class ToyDataset(BaseDataset):
    """In-memory dataset of labels; a sample is its index and label."""

    def __init__(self, labels, **kwargs):
        self.labels = labels
        super().__init__(ann_file='', **kwargs)

    def load_data_list(self):
        return [dict(gt_label=label) for label in self.labels]

    def prepare_data(self, idx):
        return idx, self.labels[idx]


def toy_labels(counts=COUNTS):
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).permutation(labels).tolist()


def toy_dataset(counts=COUNTS):
    return ToyDataset(toy_labels(counts))


def as_rank(monkeypatch, rank, world_size):
    monkeypatch.setattr(DIST_INFO, lambda: (rank, world_size))


def interleave(parts):
    """Entry i of rank r is entry i * W + r of the whole."""
    whole = []
    for i in range(max(map(len, parts))):
        whole += [part[i] for part in parts if i < len(part)]
    return whole


def reference_probability(counts, strategy, beta=None, progress=None):
    """Class probabilities, one class at a time."""
    present = [k for k, n in enumerate(counts) if n > 0]
    weights = [0.0] * len(counts)
    for k in present:
        n = counts[k]
        if strategy == 'class_balanced':
            weights[k] = 1.0
        elif strategy == 'square_root':
            weights[k] = n**0.5
        elif strategy == 'effective_number':
            weights[k] = n / sum(beta**j for j in range(n))
        else:
            weights[k] = (1 - progress) * n / sum(counts)
            weights[k] += progress / len(present)
    return np.array(weights) / sum(weights)


def assert_within_five_sigma(observed, probability, num_draws):
    sigma = np.sqrt(probability * (1 - probability) / num_draws)
    assert (np.abs(observed / num_draws - probability) <= 5 * sigma).all()


@pytest.mark.parametrize('kwargs', STRATEGIES)
@pytest.mark.parametrize('epoch', [0, 3])
def test_class_frequencies(kwargs, epoch):
    labels = np.array(toy_labels())
    sampler = RebalancedSampler(
        ToyDataset(labels.tolist()), num_samples=20000, seed=1, **kwargs
    )
    expected = reference_probability(
        COUNTS, kwargs['strategy'], kwargs.get('beta'), epoch / 4
    )
    np.testing.assert_allclose(
        sampler.class_probability(epoch).numpy(), expected, atol=1e-12
    )
    sampler.set_epoch(epoch)
    drawn = np.bincount(labels[list(sampler)], minlength=len(COUNTS))
    assert drawn.sum() == 20000
    assert_within_five_sigma(drawn, expected, 20000)


@pytest.mark.parametrize('kwargs', STRATEGIES)
def test_members_of_a_class_are_uniform(kwargs):
    labels = np.array(toy_labels())
    sampler = RebalancedSampler(
        ToyDataset(labels.tolist()), num_samples=20000, seed=2, **kwargs
    )
    drawn = np.bincount(list(sampler), minlength=len(labels))
    for label, count in enumerate(COUNTS):
        members = drawn[labels == label]
        assert len(members) == count
        if count:
            share = np.full(count, 1 / count)
            assert_within_five_sigma(members, share, members.sum())


def test_effective_number_limits():
    dataset = toy_dataset()
    counts = torch.tensor(COUNTS, dtype=torch.float64)
    none = RebalancedSampler(dataset, 'effective_number', beta=0, seed=0)
    torch.testing.assert_close(
        none.class_probability(0), counts / counts.sum()
    )
    full = RebalancedSampler(
        dataset, 'effective_number', beta=1 - 1e-9, seed=0
    )
    torch.testing.assert_close(
        full.class_probability(0), (counts > 0).double() / 4
    )


@pytest.mark.parametrize('max_epochs', [2, 7])
def test_progressive_end_points(max_epochs):
    sampler = RebalancedSampler(
        toy_dataset(), 'progressive', max_epochs=max_epochs, seed=0
    )
    counts = torch.tensor(COUNTS, dtype=torch.float64)
    balanced = (counts > 0).double() / 4
    torch.testing.assert_close(
        sampler.class_probability(0), counts / counts.sum()
    )
    for epoch in (max_epochs - 1, max_epochs, 10 * max_epochs):
        torch.testing.assert_close(sampler.class_probability(epoch), balanced)


def test_progressive_single_epoch_is_instance_balanced():
    sampler = RebalancedSampler(
        toy_dataset(), 'progressive', max_epochs=1, seed=0
    )
    counts = torch.tensor(COUNTS, dtype=torch.float64)
    torch.testing.assert_close(
        sampler.class_probability(0), counts / counts.sum()
    )


@pytest.mark.parametrize('kwargs', STRATEGIES)
def test_epochs_depend_on_seed_and_epoch_only(kwargs):
    dataset = toy_dataset()
    run_through = RebalancedSampler(dataset, seed=5, **kwargs)
    epochs = []
    for epoch in range(4):
        run_through.set_epoch(epoch)
        epochs.append(list(run_through))
        assert list(run_through) == epochs[-1]
    assert len({tuple(indices) for indices in epochs}) == 4

    fresh = RebalancedSampler(dataset, seed=5, **kwargs)
    fresh.set_epoch(3)
    assert list(fresh) == epochs[3]
    other = RebalancedSampler(dataset, seed=50, **kwargs)
    other.set_epoch(3)
    assert list(other) != epochs[3]


@pytest.mark.parametrize('sampler_type', SAMPLERS)
def test_global_random_states_are_untouched(sampler_type):
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    sampler = sampler_type(toy_dataset(), seed=0)
    assert len(list(islice(sampler, 50))) == 50
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_equal(np.random.get_state(), before[1])
    assert random.getstate() == before[2]


@pytest.mark.parametrize('sampler_type', SAMPLERS)
def test_seed_defaults_to_one_the_ranks_agree_on(sampler_type, monkeypatch):
    monkeypatch.setattr(
        DIST_INFO.replace('get_dist_info', 'sync_random_seed'), lambda: 17
    )
    assert sampler_type(toy_dataset()).seed == 17


@pytest.mark.parametrize('kwargs', STRATEGIES)
@pytest.mark.parametrize('world_size', [2, 3])
def test_ranks_interleave_to_one_process(monkeypatch, kwargs, world_size):
    dataset = toy_dataset()
    whole = RebalancedSampler(dataset, num_samples=48, seed=3, **kwargs)
    whole.set_epoch(2)
    parts = []
    for rank in range(world_size):
        as_rank(monkeypatch, rank, world_size)
        part = RebalancedSampler(dataset, num_samples=48, seed=3, **kwargs)
        part.set_epoch(2)
        parts.append(list(part))
    assert interleave(parts) == list(whole)


@pytest.mark.parametrize('round_up', [True, False])
@pytest.mark.parametrize('world_size', [1, 2, 3, 5])
@pytest.mark.parametrize('num_samples', [2, 7, 15])
def test_round_up_as_the_host(monkeypatch, round_up, world_size, num_samples):
    dataset = toy_dataset()
    whole = list(RebalancedSampler(dataset, num_samples=num_samples, seed=0))
    parts = []
    for rank in range(world_size):
        as_rank(monkeypatch, rank, world_size)
        monkeypatch.setattr(
            'mmengine.dataset.sampler.get_dist_info',
            lambda rank=rank: (rank, world_size),
        )
        part = RebalancedSampler(
            dataset, num_samples=num_samples, seed=0, round_up=round_up
        )
        host = DefaultSampler(range(num_samples), False, 0, round_up)
        assert list(part) == [whole[i] for i in host]
        assert len(part) == len(host) == len(list(part))
        parts.append(list(part))
    assert interleave(parts)[:num_samples] == whole


@pytest.mark.parametrize('kwargs', STRATEGIES)
def test_infinite_chunks_are_the_epochs(kwargs):
    dataset = toy_dataset()
    finite = RebalancedSampler(dataset, num_samples=7, seed=4, **kwargs)
    expected = []
    for epoch in range(5):
        finite.set_epoch(epoch)
        expected += list(finite)
    stream = InfiniteRebalancedSampler(
        dataset, num_samples=7, seed=4, **kwargs
    )
    assert list(islice(stream, 35)) == expected
    assert len(stream) == 7


@pytest.mark.parametrize('world_size', [2, 3, 10])
def test_infinite_ranks_interleave_across_chunks(monkeypatch, world_size):
    dataset = toy_dataset()
    kwargs = dict(strategy='progressive', max_epochs=4, num_samples=7, seed=4)
    whole = InfiniteRebalancedSampler(dataset, **kwargs)
    parts = []
    for rank in range(world_size):
        as_rank(monkeypatch, rank, world_size)
        part = InfiniteRebalancedSampler(dataset, **kwargs)
        parts.append(list(islice(part, 12)))
    assert interleave(parts) == list(islice(whole, 12 * world_size))


def test_infinite_iterations_start_afresh_and_apart():
    sampler = InfiniteRebalancedSampler(toy_dataset(), num_samples=7, seed=0)
    first = iter(sampler)
    head = list(islice(first, 10))
    assert list(islice(sampler, 20))[:10] == head
    assert head + list(islice(first, 10)) == list(islice(sampler, 20))


def train_batches(start, stop):
    """Batches that an iteration loop trains on from ``start`` to ``stop``."""
    dataset = toy_dataset()
    sampler = InfiniteRebalancedSampler(
        dataset, 'progressive', max_epochs=3, num_samples=10, seed=6
    )
    runner = MagicMock(val_loop=None)
    loop = IterBasedTrainLoop(
        runner, DataLoader(dataset, batch_size=4, sampler=sampler), stop
    )
    loop._iter = start
    loop.run()
    calls = runner.model.train_step.call_args_list
    return [call.args[0][0].tolist() for call in calls]


def test_infinite_resume_continues_the_stream():
    whole = train_batches(0, 9)
    assert len(whole) == 9
    assert train_batches(5, 9) == whole[5:]


@pytest.mark.parametrize('sampler_type', SAMPLERS)
@pytest.mark.parametrize(
    'wrap',
    [
        lambda dataset: RepeatDataset(dataset, 2),
        lambda dataset: ConcatDataset([dataset, toy_dataset((0, 2, 5))]),
        lambda dataset: ClassBalancedDataset(dataset, 0.3),
        lambda dataset: ConcatDataset(
            [dict(type='RepeatDataset', dataset=dataset, times=3), dataset]
        ),
    ],
    ids=['repeat', 'concat', 'class_balanced', 'nested'],
)
def test_wrapped_datasets(sampler_type, wrap):
    dataset = wrap(toy_dataset())
    labels = np.array([dataset[i][1] for i in range(len(dataset))])
    sampler = sampler_type(dataset, num_samples=20000, seed=0)
    indices = np.array(list(islice(sampler, 20000)))
    assert set(indices) == set(range(len(dataset)))
    drawn = np.bincount(labels[indices], minlength=len(COUNTS))
    present = np.bincount(labels, minlength=len(COUNTS)) > 0
    assert_within_five_sigma(drawn, present / present.sum(), 20000)


@pytest.mark.parametrize('sampler_type', SAMPLERS)
def test_build_by_registry(sampler_type):
    sampler = DATA_SAMPLERS.build(
        dict(type=f'mmgeom.{sampler_type.__name__}', strategy='square_root'),
        default_args=dict(dataset=toy_dataset(), seed=3),
    )
    assert isinstance(sampler, sampler_type)
    assert (sampler.strategy, sampler.seed) == ('square_root', 3)
    assert sampler.num_samples == len(sampler) == sum(COUNTS)


def test_build_by_runner_from_the_hosts_config():
    # A config that changes the type only inherits `shuffle=True`.
    sampler = dict(type='mmgeom.RebalancedSampler', shuffle=True)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        loader = Runner.build_dataloader(
            dict(
                dataset=toy_dataset(),
                sampler=sampler,
                batch_size=8,
                num_workers=0,
            ),
            seed=9,
        )
    assert isinstance(loader.sampler, RebalancedSampler)
    assert loader.sampler.seed == 9
    drawn = [index for indices, _ in loader for index in indices]
    assert drawn == list(loader.sampler)


@pytest.mark.parametrize('sampler_type', SAMPLERS)
@pytest.mark.parametrize(
    ('kwargs', 'match'),
    [
        (
            dict(strategy='oversample'),
            'class_balanced, square_root, effective_number, progressive, '
            "got 'oversample'",
        ),
        (dict(beta=1.0), r'beta must be in \[0, 1\), got 1.0'),
        (dict(beta=-0.1), r'beta must be in \[0, 1\), got -0.1'),
        (dict(strategy='progressive'), 'needs max_epochs'),
        (
            dict(strategy='progressive', max_epochs=0),
            'max_epochs must be an integer of at least 1, got 0',
        ),
        (dict(num_samples=0), 'num_samples must be .* at least 1, got 0'),
        (dict(num_samples=0.5), 'num_samples must be an integer .* 0.5'),
        (dict(shuffle=False), 'no fixed order, got shuffle=False'),
    ],
)
def test_argument_errors(sampler_type, kwargs, match):
    with pytest.raises(ValueError, match=match):
        sampler_type(toy_dataset(), seed=0, **kwargs)


@pytest.mark.parametrize('sampler_type', SAMPLERS)
@pytest.mark.parametrize(
    ('labels', 'error', 'match'),
    [
        ([], ValueError, 'holds no samples'),
        ([0, 1, -1], ValueError, 'label -1 at position 2'),
        ([0.5, 2.0], TypeError, 'must be integers'),
        ([[0, 1], [2]], ValueError, 'one class per sample'),
    ],
    ids=['empty', 'negative', 'float', 'multi_label'],
)
def test_label_errors(sampler_type, labels, error, match):
    with pytest.raises(error, match=match):
        sampler_type(labels, seed=0)
