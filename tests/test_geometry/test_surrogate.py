# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy

import pytest
import torch

from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.sphere import uniform_points
from mmgeom.geometry.surrogate import Surrogate
from mmgeom.geometry.trace import (
    batch_centroids,
    centroid_contrast,
    enveloping_loss,
    homogeneity_loss,
)

BINS = torch.tensor([0, 3, 3, 1, 0, 0])


def unit(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return unit_vectors(torch.randn(*shape, generator=generator))


def filled(features=None, bins=BINS, num_bins=5):
    features = unit(len(bins), 4) if features is None else features
    surrogate = Surrogate(num_bins, features.shape[1])
    surrogate.accumulate(features, bins)
    return surrogate


def slow_mean(features, bins, k):
    own = [z for z, b in zip(features, bins.tolist()) if b == k]
    mean = sum(own) / len(own)
    return mean / mean.norm()


def test_first_epoch_takes_the_new_centroids():
    features = unit(len(BINS), 4)
    surrogate = filled(features)
    assert not surrogate.seen.any()
    assert not surrogate.centroids.any()
    surrogate.update(0.9)
    assert surrogate.seen.tolist() == [True, True, False, True, False]
    for k in (0, 1, 3):
        expected = slow_mean(features, BINS, k)
        torch.testing.assert_close(surrogate.centroids[k], expected)
    assert not surrogate.centroids[[2, 4]].any()
    assert not surrogate.acc.any()
    assert not surrogate.cnt.any()


@pytest.mark.parametrize('momentum', [0.0, 0.3, 0.9, 1.0])
def test_momentum_is_the_weight_of_the_old(momentum):
    surrogate = filled()
    surrogate.update()
    old = surrogate.centroids.clone()
    # Bins 0 and 3 again, bin 2 for the first time, 1 and 4 not.
    bins = torch.tensor([2, 0, 0, 3, 2])
    features = unit(5, 4, seed=1)
    surrogate.accumulate(features, bins)
    surrogate.update(momentum)
    for k in (0, 3):
        new = slow_mean(features, bins, k)
        mixed = momentum * old[k] + (1 - momentum) * new
        expected = mixed / mixed.norm()
        torch.testing.assert_close(surrogate.centroids[k], expected)
    first = slow_mean(features, bins, 2)
    torch.testing.assert_close(surrogate.centroids[2], first)
    assert torch.equal(surrogate.centroids[1], old[1])
    assert surrogate.seen.tolist() == [True, True, True, True, False]
    assert not surrogate.centroids[4].any()


def test_large_momentum_stays_near_the_old():
    surrogate = filled(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), 1)
    surrogate.update()
    surrogate.accumulate(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    surrogate.update(0.9)
    expected = torch.tensor([[0.9, 0.1]]) / (0.82**0.5)
    torch.testing.assert_close(surrogate.centroids, expected)


def test_number_of_samples_does_not_weigh():
    once = filled(unit(3, 4), torch.tensor([0, 1, 1]))
    often = filled(unit(3, 4), torch.tensor([0, 1, 1]))
    for surrogate, times in ((once, 1), (often, 7)):
        surrogate.update()
        for _ in range(times):
            surrogate.accumulate(unit(1, 4, seed=1), torch.tensor([0]))
        surrogate.update(0.5)
    torch.testing.assert_close(once.centroids, often.centroids)


def test_refill():
    surrogate = filled()
    surrogate.update()
    features = unit(3, 4, seed=1).requires_grad_()
    batch, present = batch_centroids(features, torch.tensor([2, 3, 2]), 5)
    rows, available = surrogate.refill(batch, present)
    assert available.tolist() == [True, True, True, True, False]
    assert torch.equal(rows[[2, 3]], batch[[2, 3]])
    assert torch.equal(rows[[0, 1]], surrogate.centroids[[0, 1]])
    assert not rows[4].any()


def test_no_gradient_to_refilled_rows():
    surrogate = filled()
    surrogate.update()
    batch = unit(5, 4, seed=1).requires_grad_()
    present = torch.tensor([False, True, True, False, False])
    rows, available = surrogate.refill(batch, present)
    points = uniform_points(50, 4)
    enveloping_loss(rows, points, available).backward()
    assert torch.equal(batch.grad.any(1), present)
    batch.grad = None
    rows, available = surrogate.refill(batch, present)
    homogeneity_loss(rows, torch.arange(5), available).backward()
    assert torch.equal(batch.grad.any(1), present)
    assert not any(value.requires_grad for value in surrogate.buffers())
    assert list(surrogate.parameters()) == []


def test_bins_never_seen_change_nothing():
    """A bin without any sample may as well not exist."""
    features = unit(len(BINS), 4).requires_grad_()
    labels = torch.tensor([0.0, 1.0, 2.0, 5.0, 9.0])
    points = uniform_points(80, 4)
    keep = torch.tensor([0, 1, 3])
    place = torch.tensor([0, 1, -1, 2, -1])
    results = []
    for bins, values in ((BINS, labels), (place[BINS], labels[keep])):
        surrogate = filled(unit(6, 4, seed=2), bins, len(values))
        surrogate.update()
        batch = batch_centroids(features[:2], bins[:2], len(values))
        rows, available = surrogate.refill(*batch)
        losses = torch.stack(
            [
                enveloping_loss(rows, points, available),
                homogeneity_loss(rows, values, available),
                centroid_contrast(features[:2], bins[:2], rows, available),
            ]
        )
        gradient = torch.autograd.grad(losses.sum(), features)[0]
        results.append((losses, gradient))
    torch.testing.assert_close(results[0], results[1])


def test_batches_and_processes_add_up():
    features, bins = unit(40, 4), torch.arange(40) * 7 % 5
    whole = filled(features, bins)
    halves = Surrogate(5, 4)
    halves.accumulate(features[:17], bins[:17])
    halves.accumulate(features[17:], bins[17:])
    torch.testing.assert_close(halves.sums(), whole.sums())
    ranks = [filled(features[r::2], bins[r::2]) for r in (0, 1)]
    total = ranks[0].sums() + ranks[1].sums()
    for rank in ranks:
        rank.replace_sums(total)
        assert torch.equal(rank.sums(), total)
        rank.update()
    whole.update()
    halves.update()
    torch.testing.assert_close(halves.centroids, whole.centroids)
    torch.testing.assert_close(ranks[0].centroids, whole.centroids)
    assert torch.equal(ranks[0].centroids, ranks[1].centroids)


def test_zero_sums_forget_the_epoch():
    surrogate = filled()
    surrogate.replace_sums(torch.zeros(5, 5))
    surrogate.update()
    assert not surrogate.seen.any()


def test_buffers_never_share_memory():
    surrogate = filled()
    total = surrogate.sums()
    surrogate.replace_sums(total)
    places = {value.data_ptr() for value in surrogate.buffers()}
    assert len(places) == 4
    for epoch in range(3):
        surrogate.update(0.5)
        before = surrogate.centroids.clone()
        surrogate.accumulate(unit(6, 4, seed=epoch), BINS)
        # A running epoch leaves the centroids of the last one alone.
        assert torch.equal(surrogate.centroids, before)
        copied = surrogate.sums()
        copied.zero_()
        assert surrogate.cnt.sum() == 6
        batch, present = torch.zeros(5, 4), torch.zeros(5).bool()
        rows, available = surrogate.refill(batch, present)
        rows.fill_(7)
        available.fill_(True)
        assert torch.equal(surrogate.centroids, before)
        assert not surrogate.seen[2]
        assert places == {value.data_ptr() for value in surrogate.buffers()}
    names = [name for name, _ in surrogate.named_buffers()]
    assert names == ['centroids', 'seen', 'acc', 'cnt']


def test_state_dict_in_the_middle_of_an_epoch():
    surrogate = filled()
    surrogate.update()
    surrogate.accumulate(unit(6, 4, seed=1), BINS)
    other = Surrogate(5, 4)
    other.load_state_dict(copy.deepcopy(surrogate.state_dict()))
    for one in (surrogate, other):
        one.accumulate(unit(6, 4, seed=2), BINS.flip(0))
        one.update(0.8)
    for name, value in surrogate.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
    assert surrogate.centroids.dtype == torch.float32


def test_features_without_direction_or_value():
    surrogate = Surrogate(4, 2)
    features = torch.tensor(
        [
            [1.0, 0.0],
            [float('nan'), 0.0],
            [float('inf'), 0.0],
            [0.0, 0.0],
            [1.0, 0.0],
            [-1.0, 0.0],
        ]
    )
    surrogate.accumulate(features, torch.tensor([0, 0, 1, 2, 3, 3]))
    assert surrogate.cnt.tolist() == [1, 0, 1, 2]
    surrogate.update()
    assert surrogate.seen.tolist() == [True, False, False, False]
    assert surrogate.centroids.tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    # The old and the new cancel: the old one stays.
    surrogate.accumulate(torch.tensor([[-1.0, 0.0]]), torch.tensor([0]))
    surrogate.update(0.5)
    assert surrogate.centroids[0].tolist() == [1, 0]


def test_half_precision_features():
    features = unit(6, 4).half()
    surrogate = filled(features)
    assert surrogate.acc.dtype == torch.float32
    for _ in range(2000):
        surrogate.accumulate(features, BINS)
    assert surrogate.cnt.sum() == 6 * 2001
    surrogate.update()
    expected = slow_mean(features.float(), BINS, 0)
    torch.testing.assert_close(
        surrogate.centroids[0], expected, rtol=1e-4, atol=1e-4
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match='must be positive, got 0 and 4'):
        Surrogate(0, 4)
    surrogate = Surrogate(3, 4)
    with pytest.raises(ValueError, match=r'shape \(B, 4\), got \(2, 5\)'):
        surrogate.accumulate(unit(2, 5), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r'got \(2, 4\) and \(1,\)'):
        surrogate.accumulate(unit(2, 4), torch.tensor([0]))
    with pytest.raises(ValueError, match=r'shape \(3, 5\), got \(3, 4\)'):
        surrogate.replace_sums(torch.zeros(3, 4))
    for value in (-0.1, 1.5, float('nan')):
        with pytest.raises(ValueError, match=r'must lie in \[0, 1\], got'):
            surrogate.update(value)
    assert 'num_bins=3, dim=4' in repr(surrogate)
