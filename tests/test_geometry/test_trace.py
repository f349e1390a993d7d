# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import itertools
import math

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException

from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.sphere import (
    nearest_vectors,
    sample_span,
    uniform_points,
)
from mmgeom.geometry.surrogate import Surrogate
from mmgeom.geometry.trace import (
    batch_centroids,
    bin_sums,
    centroid_contrast,
    centroids_from_sums,
    enveloping_loss,
    homogeneity_loss,
    tube_volume,
)

LABELS = torch.tensor([0, 1, 3], dtype=torch.float64)
CENTROIDS = torch.tensor(
    [[1, 0, 0], [0.8, 0.6, 0], [0, 0.6, 0.8]], dtype=torch.float64
)
POINTS = torch.tensor(
    [[1, 0, 0], [0, 0, 1], [0, -1, 0], [0.6, 0, 0.8]], dtype=torch.float64
)


def unit(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return unit_vectors(normal)


def arc(angles, dim=2):
    angles = torch.as_tensor(angles, dtype=torch.float64)
    rows = torch.zeros(len(angles), dim, dtype=torch.float64)
    rows[:, 0], rows[:, 1] = angles.cos(), angles.sin()
    return rows


# The losses as plain loops ------------------------------------------------
def slow_centroids(features, bins, num_bins):
    rows = {}
    for k in range(num_bins):
        own = [z for z, b in zip(features, bins.tolist()) if b == k]
        if own:
            mean = sum(own) / len(own)
            rows[k] = mean / mean.norm()
    return rows


def slow_losses(features, bins, rows, labels, points, temperature):
    """Enveloping, homogeneity (both forms) and contrast of a trace."""
    names = sorted(rows)
    env = -sum(max(p @ rows[k] for k in names) for p in points) / len(points)
    homo, cosines = 0, []
    for left, right in itertools.pairwise(names):
        step = rows[right] - rows[left]
        homo = homo + step @ step / (labels[right] - labels[left])
        cosines.append(rows[right] @ rows[left])
    cos = -sum(cosines)
    if len(cosines) > 1:
        mean = sum(cosines) / len(cosines)
        variance = sum((c - mean) ** 2 for c in cosines) / (len(cosines) - 1)
        cos = cos + 0.1 * variance
    con = 0
    for z, b in zip(features, bins.tolist()):
        fixed = {k: rows[k].detach() for k in names}
        total = sum((z @ fixed[k] / temperature).exp() for k in names)
        con = con - ((z @ fixed[b] / temperature).exp() / total).log()
    return env, homo, cos, con / len(features)


def all_losses(features, bins, surrogate, labels, points, temperature=0.3):
    trace, present = batch_centroids(features, bins, len(labels))
    rows, available = surrogate.refill(trace, present)
    return (
        enveloping_loss(rows, points, available),
        homogeneity_loss(rows, labels, available),
        homogeneity_loss(rows, labels, available, 'cos', 0.1),
        centroid_contrast(features, bins, rows, available, temperature),
    )


# Golden numbers and closed forms ------------------------------------------
def test_golden_numbers():
    env = enveloping_loss(CENTROIDS, POINTS)
    assert env.item() == pytest.approx(-0.61, abs=1e-12)
    homo = homogeneity_loss(CENTROIDS, LABELS)
    assert homo.item() == pytest.approx(1.04, abs=1e-12)
    cos = homogeneity_loss(CENTROIDS, LABELS, mode='cos')
    assert cos.item() == pytest.approx(-1.16, abs=1e-12)
    both = homogeneity_loss(CENTROIDS, LABELS, mode='cos', variance_weight=0.1)
    assert (both - cos).item() == pytest.approx(0.00968, abs=1e-12)
    z = torch.tensor([[0.6, 0.8, 0], [0, 0.8, 0.6]], dtype=torch.float64)
    bins = torch.tensor([1, 2])
    con = centroid_contrast(z, bins, CENTROIDS, temperature=0.3)
    assert con.item() == pytest.approx(0.312388344847, abs=1e-12)
    parts = centroid_contrast(z, bins, CENTROIDS, reduction='none')
    assert parts.shape == (2,)
    total = centroid_contrast(z, bins, CENTROIDS, reduction='sum')
    assert total.item() == pytest.approx(2 * con.item())
    assert parts.sum().item() == pytest.approx(2 * con.item())


@pytest.mark.parametrize(
    ('angle', 'number', 'value'),
    [(math.pi, 11, 0.97886967), (2 * math.pi, 101, 3.94654314)],
)
def test_uniform_arc_has_the_least_homogeneity_loss(angle, number, value):
    labels = torch.linspace(0, 10, number, dtype=torch.float64)
    uniform = homogeneity_loss(arc(labels * angle / 10), labels)
    steps = number - 1
    closed = steps**2 * 4 * math.sin(angle / (2 * steps)) ** 2 / 10
    assert uniform.item() == pytest.approx(closed, abs=1e-12)
    assert uniform.item() == pytest.approx(value, abs=1e-8)
    assert uniform.item() < angle**2 / 10
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        step = torch.rand(steps, generator=generator).double() + 0.3
        step = step / step.sum() * angle
        assert step.max() < math.pi / 2
        angles = torch.cat([torch.zeros(1), step.cumsum(0)])
        assert homogeneity_loss(arc(angles), labels) >= uniform


def test_uniform_is_not_best_for_steps_above_a_right_angle():
    labels = torch.arange(3).double()
    uniform = homogeneity_loss(arc([0, 0.6 * math.pi, 1.2 * math.pi]), labels)
    uneven = homogeneity_loss(arc([0, 0, 1.2 * math.pi]), labels)
    assert uniform.item() == pytest.approx(5.236, abs=1e-3)
    assert uneven.item() == pytest.approx(3.618, abs=1e-3)


def test_forms_of_the_homogeneity_loss_for_unit_gaps():
    trace = unit(60, 7)
    labels = torch.arange(60).double() + 1e6
    paper = homogeneity_loss(trace, labels)
    cos = homogeneity_loss(trace, labels, mode='cos')
    assert paper.item() == pytest.approx(2 * 59 + 2 * cos.item(), abs=1e-9)


@pytest.mark.parametrize('unit_of_label', [1, 0.01, 300])
def test_normalized_homogeneity_is_the_mean_square_step(unit_of_label):
    trace = unit(9, 4)
    labels = unit_of_label * torch.arange(9).double()
    value = homogeneity_loss(trace, labels, normalize=True)
    square = (trace[1:] - trace[:-1]).square().sum(1)
    assert value.item() == pytest.approx(square.mean().item())
    # With other gaps it is Eq. 6 by the number in the specification.
    labels = labels**2
    mask = torch.tensor([0, 1, 1, 0, 0, 1, 1, 1, 0]).bool()
    plain = homogeneity_loss(trace, labels, mask)
    value = homogeneity_loss(trace, labels, mask, normalize=True)
    factor = 4**2 / (labels[7] - labels[1])
    assert value.item() == pytest.approx((plain / factor).item())
    ends = torch.stack([trace[0], -trace[0], trace[0]])
    worst = homogeneity_loss(ends, torch.arange(3), normalize=True)
    assert worst.item() == pytest.approx(4)


CLOSED = {
    'single point': (arc([0.3], 8), 0.0),
    'antipodes, n=3': (arc([0, math.pi], 3), 0.5),
    'antipodes, n=8': (arc([0, math.pi], 8), 0.29103),
    'antipodes, n=128': (arc([0, math.pi], 128), 0.07066),
    'right angle': (arc([0, math.pi / 2], 3), math.sqrt(0.5) / 2),
    'great circle, n=2': (arc(torch.arange(400) * math.pi / 200), 1.0),
    'great circle, n=3': (arc(torch.arange(400) * math.pi / 200, 3), 0.7854),
    'great circle, n=8': (arc(torch.arange(400) * math.pi / 200, 8), 0.45714),
    'great circle, n=128': (
        arc(torch.arange(400) * math.pi / 200, 128),
        0.11099,
    ),
    'square': (
        arc(torch.arange(4) * math.pi / 2),
        math.sin(math.pi / 4) / (math.pi / 4),
    ),
    'pentagon': (
        arc(torch.arange(5) * math.pi / 2.5),
        math.sin(math.pi / 5) / (math.pi / 5),
    ),
}


@pytest.mark.parametrize('sampled', [False, True], ids=['whole', 'span'])
@pytest.mark.parametrize(('trace', 'value'), CLOSED.values(), ids=CLOSED)
def test_expected_enveloping_loss(trace, value, sampled):
    number = 20_000
    points = uniform_points(number, trace.shape[1], 1, torch.float64)
    if sampled:
        points, trace = sample_span(trace, number, 1)
    cosine = nearest_vectors(points, trace).cosine
    error = cosine.std().item() / math.sqrt(number)
    loss = enveloping_loss(trace, points)
    assert loss.item() == pytest.approx(-value, abs=5 * error + 2e-5)
    assert error < 0.006


@pytest.mark.parametrize(('number', 'std'), [(100, 5e-3), (1000, 1.4e-3)])
def test_spread_of_the_enveloping_loss_over_draws(number, std):
    trace = unit(102, 128).float()
    generator = torch.Generator().manual_seed(0)
    values, errors = [], []
    for _ in range(60):
        points = uniform_points(number, 128, generator)
        values.append(enveloping_loss(trace, points))
        cosine = nearest_vectors(points, trace).cosine
        errors.append(cosine.std() / math.sqrt(number))
    spread = torch.stack(values).std().item()
    # The standard error of one draw predicts it.
    error = torch.stack(errors).mean().item()
    assert spread == pytest.approx(error, rel=0.4)
    assert spread == pytest.approx(std, rel=0.4)


def test_tube_volume():
    points = uniform_points(40_000, 3, 2)
    circle = arc(torch.arange(400) * math.pi / 200, 3).float()
    volume = tube_volume(circle, points, torch.tensor([0.1, 0.8, 0.95]))
    assert volume.shape == (3,)
    for eps, value in zip((0.1, 0.8, 0.95), volume.tolist()):
        closed = math.sqrt(1 - eps**2)
        sigma = math.sqrt(closed * (1 - closed) / 40_000)
        # The polygon's tube is narrower, by the cosine of half a step.
        assert value == pytest.approx(closed, abs=5 * sigma + 1e-4)
    assert volume[1].item() == pytest.approx(0.6, abs=0.013)
    one = tube_volume(circle[:1], points, 0.8)
    assert one.shape == ()
    assert one.item() == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / 40_000))
    mask = torch.zeros(400, dtype=torch.bool)
    assert tube_volume(circle, points, 0.8, mask) == 0
    mask[0] = True
    assert tube_volume(circle, points, 0.8, mask) == one


# Equality with plain loops ------------------------------------------------
@pytest.mark.parametrize('absent', [(), (0,), (3, 4, 8), (1, 2, 5, 6, 7)])
def test_losses_and_gradients_equal_plain_loops(absent):
    num_bins, dim = 9, 6
    bins = torch.tensor([0, 2, 2, 5, 2, 8, 5, 0])
    known = [k for k in range(num_bins) if k not in absent]
    surrogate = Surrogate(num_bins, dim).double()
    surrogate.accumulate(unit(len(known), dim, seed=1), torch.tensor(known))
    surrogate.update()
    labels = torch.tensor([0, 1, 1.5, 4, 5, 9, 10, 12, 20]).double()
    points = unit(300, dim, seed=2)
    features = unit(len(bins), dim, seed=3).requires_grad_()
    slow = features.detach().clone().requires_grad_()
    rows = {k: surrogate.centroids[k] for k in known}
    rows |= slow_centroids(slow, bins, num_bins)
    expected = slow_losses(slow, bins, rows, labels, points, 0.3)
    losses = all_losses(features, bins, surrogate, labels, points)
    for loss, value in zip(losses, expected):
        torch.testing.assert_close(loss, value, rtol=1e-12, atol=1e-12)
        (gradient,) = torch.autograd.grad(loss, features, retain_graph=True)
        (reference,) = torch.autograd.grad(value, slow, retain_graph=True)
        torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-12)


def test_gradient_of_the_nearest_centroid_equals_that_of_the_maximum():
    trace = unit(40, 8).requires_grad_()
    points = unit(3000, 8, seed=1)
    loss = enveloping_loss(trace, points)
    dense = -(points @ trace.T).max(1).values.mean()
    assert loss.item() == pytest.approx(dense.item(), abs=1e-15)
    (gradient,) = torch.autograd.grad(3 * loss, trace)
    (expected,) = torch.autograd.grad(3 * dense, trace)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-15)
    assert torch.autograd.gradcheck(
        lambda c: enveloping_loss(c, points[:50]), trace
    )


def test_order_of_bins_does_not_matter_but_for_homogeneity():
    trace, labels = unit(7, 5), torch.arange(7).double()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    points, features = unit(50, 5, seed=1), unit(4, 5, seed=2)
    bins = torch.tensor([1, 1, 6, 0])
    place = order.argsort()
    torch.testing.assert_close(
        enveloping_loss(trace, points), enveloping_loss(trace[order], points)
    )
    torch.testing.assert_close(
        centroid_contrast(features, bins, trace),
        centroid_contrast(features, place[bins], trace[order]),
    )
    backwards = homogeneity_loss(trace.flip(0), labels)
    torch.testing.assert_close(homogeneity_loss(trace, labels), backwards)
    other = homogeneity_loss(trace[order], labels)
    assert abs(other - backwards) > 1e-3


def test_batch_centroids():
    features = unit(6, 4).requires_grad_()
    bins = torch.tensor([3, 0, 3, 3, 0, 1])
    trace, present = batch_centroids(features, bins, 5)
    assert present.tolist() == [True, True, False, True, False]
    for k, row in slow_centroids(features, bins, 5).items():
        torch.testing.assert_close(trace[k], row)
    assert not trace[~present].any()
    # Sums over two halves of the batch make the same centroids.
    first = bin_sums(features[:2], bins[:2], 5)
    second = bin_sums(features[2:], bins[2:], 5)
    assert second[1].tolist() == [1, 1, 0, 2, 0]
    halves = centroids_from_sums(*(a + b for a, b in zip(first, second)))
    torch.testing.assert_close(halves[0], trace)
    assert torch.equal(halves[1], present)


def test_features_that_cancel_have_no_centroid():
    features = torch.tensor([[1.0, 0.0], [-1.0, 1e-9], [0.0, 1.0]])
    features.requires_grad_()
    trace, present = batch_centroids(features, torch.tensor([0, 0, 1]), 2)
    assert present.tolist() == [False, True]
    trace.sum().backward()
    assert features.grad.tolist()[:2] == [[0, 0], [0, 0]]


def test_contrast_leaves_out_features_without_a_centroid():
    features = unit(3, 4).requires_grad_()
    trace = unit(5, 4, seed=1)
    mask = torch.tensor([True, False, True, True, False])
    bins = torch.tensor([0, 1, 3])
    loss = centroid_contrast(features, bins, trace, mask)
    rest = centroid_contrast(features[[0, 2]], bins[[0, 2]], trace, mask)
    torch.testing.assert_close(loss, rest)
    keep = torch.tensor([0, 2, 3])
    few = centroid_contrast(
        features[[0, 2]], torch.tensor([0, 2]), trace[keep]
    )
    torch.testing.assert_close(loss, few)
    loss.backward()
    assert not features.grad[1].any()
    assert features.grad[[0, 2]].any(1).all()


def test_contrast_holds_the_centroids_constant():
    features, bins = unit(4, 5).requires_grad_(), torch.tensor([0, 2, 2, 1])
    trace, present = batch_centroids(features, bins, 3)
    loss = centroid_contrast(features, bins, trace, present)
    fixed = centroid_contrast(features, bins, trace.detach(), present)
    (gradient,) = torch.autograd.grad(loss, features)
    (expected,) = torch.autograd.grad(fixed, features)
    assert torch.equal(gradient, expected)


# Hard inputs --------------------------------------------------------------
HARD = {
    'two bins': (2, [0, 1, 1], [], False),
    'one bin of two, nothing seen': (2, [1, 1, 1], [], False),
    'one bin of two, the other seen': (2, [1, 1, 1], [0], False),
    'a single bin': (1, [0, 0, 0], [], False),
    'a batch of one': (5, [3], [0, 4], False),
    'zero features, nothing seen': (4, [0, 1, 1], [], True),
    'zero features, others seen': (4, [0, 1, 1], [2, 3], True),
    'zero features, their bins seen': (4, [0, 1, 1], [0, 1], True),
}


@pytest.mark.parametrize(
    ('num_bins', 'bins', 'seen', 'zero'), HARD.values(), ids=HARD
)
@pytest.mark.parametrize('dtype', [torch.float32, torch.float16])
def test_hard_inputs_stay_finite(num_bins, bins, seen, zero, dtype):
    surrogate = Surrogate(num_bins, 6)
    if seen:
        rows = unit(len(seen), 6, seed=1).float()
        surrogate.accumulate(rows, torch.tensor(seen))
        surrogate.update()
    raw = 0 * unit(len(bins), 6) if zero else 6e4 * unit(len(bins), 6)
    raw = raw.to(dtype).requires_grad_()
    features = unit_vectors(raw)
    labels = torch.arange(num_bins).double()
    points = uniform_points(40, 6)
    bins = torch.tensor(bins)
    losses = all_losses(features, bins, surrogate, labels, points)
    assert all(loss.dtype == torch.float32 for loss in losses)
    assert torch.isfinite(torch.stack(losses)).all()
    sum(losses).backward()
    assert torch.isfinite(raw.grad).all()
    available = set(seen) | (set() if zero else set(bins.tolist()))
    if len(available) < 2:
        assert losses[1:] == (0, 0, 0)
    if not available:
        assert losses[0] == 0
    span = sample_span(surrogate.centroids, 10)
    assert torch.isfinite(enveloping_loss(span.vectors, span.points))


def test_one_available_bin_has_no_homogeneity():
    trace = unit(4, 3).requires_grad_()
    mask = torch.tensor([False, False, True, False])
    for options in ({}, dict(mode='cos', variance_weight=0.1)):
        loss = homogeneity_loss(trace, torch.arange(4), mask, **options)
        loss.backward()
        assert loss == 0
        assert not trace.grad.any()
    loss = homogeneity_loss(trace, torch.arange(4), mask, normalize=True)
    assert loss == 0
    only = centroid_contrast(unit(2, 3), torch.tensor([2, 2]), trace, mask)
    assert only == 0


def test_a_trace_without_bins_has_no_gradient():
    trace = unit(3, 4).requires_grad_()
    nobody = torch.zeros(3, dtype=torch.bool)
    features = unit(2, 4, seed=2).requires_grad_()
    losses = (
        enveloping_loss(trace, unit(9, 4, seed=1), nobody),
        homogeneity_loss(trace, torch.arange(3), nobody),
        centroid_contrast(features, torch.tensor([0, 1]), trace, nobody),
    )
    assert losses == (0, 0, 0)
    sum(losses).backward()
    assert not trace.grad.any()
    assert not features.grad.any()


def test_half_precision_features_are_summed_in_full():
    features = torch.full((3000, 2), 0.7, dtype=torch.float16)
    sums, counts = bin_sums(features, torch.zeros(3000).long(), 1)
    assert sums.dtype == counts.dtype == torch.float32
    assert counts.item() == 3000
    exact = 3000 * features[0, 0].item()
    assert sums[0].tolist() == pytest.approx([exact, exact], rel=1e-4)


def test_nan_is_not_hidden():
    trace = torch.tensor([[math.nan, 0.0], [1.0, 0.0]])
    assert enveloping_loss(trace, uniform_points(5, 2)).isnan()


def test_autocast_does_not_reach_the_geometry():
    features, bins = unit(8, 16).float(), torch.arange(8) % 3
    surrogate = Surrogate(5, 16)
    surrogate.accumulate(unit(5, 16, seed=1).float(), torch.arange(5))
    surrogate.update()
    labels = torch.arange(5)
    points = uniform_points(60, 16)
    expected = all_losses(features, bins, surrogate, labels, points)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        losses = all_losses(features, bins, surrogate, labels, points)
    for loss, value in zip(losses, expected):
        assert loss.dtype == torch.float32
        assert torch.equal(loss, value)


def test_a_step_does_not_wait_for_the_device():
    """Tensors without values: what needs one raises an error."""
    with FakeTensorMode():
        features = torch.randn(8, 16, requires_grad=True)
        bins = torch.randint(0, 6, (8,))
        surrogate = Surrogate(6, 16)
        with pytest.raises(DataDependentOutputException):
            bool(surrogate.seen.any())
        z = unit_vectors(features)
        points = torch.randn(50, 16)
        losses = all_losses(z, bins, surrogate, torch.arange(6), points)
        rows, _ = surrogate.refill(*batch_centroids(z, bins, 6))
        span = sample_span(rows, 50, torch.Generator())
        env = enveloping_loss(span.vectors, span.points)
        (sum(losses) + env).backward()
        surrogate.accumulate(z, bins)
        surrogate.update(0.9)
        assert features.grad.shape == (8, 16)


# What the losses do to a trace that is free to move -------------------------
def test_homogeneity_makes_a_trace_uniform():
    """Between fixed ends: a geodesic with sin(step) in ratio to the gap."""
    gaps = torch.tensor([1, 2, 1, 4]).double()
    labels = torch.cat([torch.zeros(1).double(), gaps.cumsum(0)])
    ends = arc([0, 1.2], 5)
    free = (arc([0.1, 0.15, 1.0], 5) + 0.1 * unit(3, 5)).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [free], max_iter=200, tolerance_grad=1e-12, tolerance_change=0
    )

    def trace():
        return torch.cat([ends[:1], unit_vectors(free), ends[1:]])

    def closure():
        optimizer.zero_grad()
        loss = homogeneity_loss(trace(), labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    result = trace().detach()
    steps = (result[1:] * result[:-1]).sum(1).arccos()
    assert steps.sum().item() == pytest.approx(1.2, abs=1e-7)
    speed = steps.sin() / gaps
    assert (speed / speed[0] - 1).abs().max() < 1e-5
    expected = torch.tensor([0.1451, 0.1467, 0.1451, 0.1541]).double()
    torch.testing.assert_close(steps / gaps, expected, rtol=0, atol=6e-5)


def fill(env_weight, homo_weight, seed):
    """Gradient descent on a trace that starts nearly collapsed."""
    number, dim = 60, 16
    start = arc(torch.linspace(0, 0.05, number), dim)
    free = (start + 1e-3 * unit(number, dim, seed=seed)).float()
    free.requires_grad_()
    points = uniform_points(300, dim, seed)
    labels = torch.arange(number)
    optimizer = torch.optim.SGD([free], lr=1, momentum=0.9)
    for _ in range(200):
        rows = unit_vectors(free)
        loss = env_weight * enveloping_loss(rows, points)
        loss = loss + homo_weight * homogeneity_loss(
            rows, labels, normalize=True
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return unit_vectors(free.detach()), points


def test_both_losses_fill_the_sphere_better_than_either():
    """A centroid nearest to no point is moved by its neighbours only."""
    fresh = uniform_points(20_000, 16, 1000)
    volume, stranded = {}, {}
    for name, weights in dict(env=(1, 0), homo=(0, 1), both=(1, 0.03)).items():
        volumes, idle = [], []
        for seed in range(3):
            rows, points = fill(*weights, seed)
            volumes.append(tube_volume(rows, fresh, 0.5))
            used = nearest_vectors(points, rows).index.unique()
            idle.append(len(rows) - len(used))
        volume[name] = torch.stack(volumes).mean().item()
        stranded[name] = sum(idle) / 3
    assert volume['both'] > volume['env'] + 0.02
    assert volume['env'] > volume['homo'] + 0.2
    assert stranded['both'] < stranded['env'] - 2


def test_bad_arguments():
    trace, labels = unit(3, 4), torch.arange(3)
    with pytest.raises(ValueError, match=r'got \(2, 5\) and \(3, 4\)'):
        enveloping_loss(trace, unit(2, 5))
    with pytest.raises(ValueError, match=r'got \(3, 4\) and \(4,\)'):
        homogeneity_loss(trace, torch.arange(4))
    with pytest.raises(ValueError, match="mode must be .* got 'arc'"):
        homogeneity_loss(trace, labels, mode='arc')
    with pytest.raises(ValueError, match="belongs to mode='cos', got 0.1"):
        homogeneity_loss(trace, labels, variance_weight=0.1)
    with pytest.raises(ValueError, match="normalize=True needs mode='paper'"):
        homogeneity_loss(trace, labels, mode='cos', normalize=True)
    with pytest.raises(ValueError, match='temperature must be positive'):
        centroid_contrast(trace, labels, trace, temperature=0)
    with pytest.raises(ValueError, match="'sum' or 'none', got 'max'"):
        centroid_contrast(trace, labels, trace, reduction='max')
    with pytest.raises(ValueError, match=r'got \(3, 4\) and \(2,\)'):
        batch_centroids(trace, labels[:2], 3)
