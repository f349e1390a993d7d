# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from mmgeom.geometry import contrast
from mmgeom.geometry.contrast import supervised_contrastive_loss
from mmgeom.geometry.orthonormal import simplex_etf
from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.theory_contrast import (
    collapse_threshold,
    supervised_contrastive_bound,
    two_level_optimum,
)

IMPLEMENTATIONS = ['dense', 'tiled']
FORMS = ['sample', 'class_averaged']
FIXTURE = torch.tensor(
    [[1, 0], [0.6, 0.8], [-0.8, 0.6], [0, -1]], dtype=torch.float64
)
both = pytest.mark.parametrize('implementation', IMPLEMENTATIONS)
forms = pytest.mark.parametrize('form', FORMS)


def loss_of(*args, tile=7, **kwargs):
    return supervised_contrastive_loss(*args, tile=tile, **kwargs)


def batch(number=45, extra=13, classes=6, width=5, seed=0):
    """Features, labels, extra keys and their labels.

    The first two anchors are alone in their classes, one of them among the
    anchors only; the last class has extra keys only.
    """
    generator = torch.Generator().manual_seed(seed)
    options = dict(generator=generator, dtype=torch.float64)
    z = unit_vectors(torch.randn(number, width, **options))
    x = unit_vectors(torch.randn(extra, width, **options))
    labels = torch.randint(0, classes, (number,), generator=generator)
    extra_labels = torch.randint(0, classes, (extra,), generator=generator)
    labels[:2] = torch.tensor([classes, classes + 1])
    extra_labels[:2] = torch.tensor([classes + 1, classes + 2])
    return z, labels, x, extra_labels


def slow_losses(z, y, tau, x=None, xy=None, form='sample'):
    """The definition, pair by pair."""
    rows, names = z.tolist(), y.tolist()
    if x is not None:
        rows, names = rows + x.tolist(), names + xy.tolist()
    losses = []
    for i in range(len(z)):
        logits = {
            j: sum(a * b for a, b in zip(rows[i], rows[j])) / tau[i]
            for j in range(len(rows))
            if j != i
        }
        size = {k: sum(names[j] == k for j in logits) for k in names}
        total = sum(
            math.exp(v) / (size[names[j]] if form == 'class_averaged' else 1)
            for j, v in logits.items()
        )
        positive = [v for j, v in logits.items() if names[j] == names[i]]
        losses.append(
            sum(math.log(total) - v for v in positive) / len(positive)
            if positive
            else 0.0
        )
    return torch.tensor(losses, dtype=torch.float64)


def value_and_gradients(z, y, tau, x, xy, learned, **options):
    """Losses, and gradients of an uneven sum of them."""
    z = z.clone().requires_grad_()
    x = x if x is None else x.clone().requires_grad_(learned)
    losses = loss_of(z, y, tau, x, xy, reduction='none', **options)
    weights = torch.linspace(-1, 2, len(z), dtype=losses.dtype)
    (losses * weights).sum().backward()
    result = [losses.detach(), z.grad]
    return result + ([x.grad] if learned else [])


def assert_close(actual, expected, tolerance):
    for a, e in zip(actual, expected, strict=True):
        scale = e.abs().max()
        assert scale > 0
        assert (a - e).abs().max() <= tolerance * scale


@both
def test_golden_fixture(implementation):
    y = torch.tensor([0, 0, 1, 1])
    tau = torch.tensor([0.5, 1.0], dtype=torch.float64)
    plain = dict(implementation=implementation, tile=3)
    losses = loss_of(FIXTURE, y, tau, reduction='none', **plain)
    expected = [0.308957346149] * 2 + [1.292217048227] * 2
    assert losses.tolist() == pytest.approx(expected, abs=1e-11)
    mean = loss_of(FIXTURE, y, tau, **plain)
    assert mean.item() == pytest.approx(0.800587197188, abs=1e-11)
    key = torch.tensor([[-0.6, 0.8]], dtype=torch.float64)
    extra = key, torch.tensor([1])
    expected = [0.373439194824, 0.636204642666, 1.348192514439, 1.595054659933]
    losses = loss_of(FIXTURE, y, tau, *extra, reduction='none', **plain)
    assert losses.tolist() == pytest.approx(expected, abs=1e-11)
    mean = loss_of(FIXTURE, y, tau, *extra, **plain)
    assert mean.item() == pytest.approx(0.988222752965, abs=1e-11)
    mean = loss_of(FIXTURE, y, 0.1, **plain)
    assert mean.item() == pytest.approx(3.002643388463, abs=1e-11)


@both
@forms
@pytest.mark.parametrize('with_extra', [False, True])
@pytest.mark.parametrize('classwise', [False, True])
def test_equals_plain_loops(implementation, form, with_extra, classwise):
    z, y, x, xy = batch(23, 9)
    extra = (x, xy) if with_extra else (None, None)
    tau = torch.linspace(0.1, 1, 9, dtype=torch.float64)
    expected = slow_losses(
        z, y, tau[y] if classwise else [0.3] * len(z), *extra, form
    )
    arguments = (z, y, tau if classwise else 0.3, *extra)
    options = dict(form=form, implementation=implementation)
    losses = loss_of(*arguments, reduction='none', **options)
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)
    # Labels 6 and, without extra keys, 7 occur once.
    assert (losses == 0).sum() == 2 - with_extra
    total = loss_of(*arguments, reduction='sum', **options)
    assert total.item() == pytest.approx(expected.sum().item(), rel=1e-12)
    mean = loss_of(*arguments, **options)
    number = len(z) - (losses == 0).sum()
    assert mean.item() == pytest.approx((expected.sum() / number).item())


@forms
@pytest.mark.parametrize('tile', [1, 7, 45, 64, None])
@pytest.mark.parametrize('keys', ['none', 'constant', 'learned'])
@pytest.mark.parametrize('tau', ['common', 'tiny', 'classwise', 'anchorwise'])
def test_tiled_equals_dense(form, tile, keys, tau):
    z, y, x, xy = batch()
    if keys == 'none':
        x, xy = None, None
    temperatures = dict(
        common=0.1,
        tiny=1e-3,
        classwise=torch.linspace(0.05, 1, 9),
        anchorwise=torch.linspace(0.01, 2, len(z))[:, None],
    )
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        if dtype == torch.float32 and tau == 'tiny':
            # Logits of 1000 have no five digits after the point in fp32.
            continue
        keys_of_type = x if x is None else x.to(dtype)
        arguments = (z.to(dtype), y, temperatures[tau], keys_of_type, xy)
        dense, tiled = (
            value_and_gradients(
                *arguments,
                keys == 'learned',
                form=form,
                implementation=implementation,
                tile=tile,
            )
            for implementation in IMPLEMENTATIONS
        )
        assert_close(tiled, dense, tolerance)


def test_large_tiles_of_default_size():
    z, y, x, xy = batch(1100, 530, classes=40, width=16)
    dense, tiled = (
        value_and_gradients(
            *(z.float(), y, 0.1, x.float(), xy, True),
            implementation=implementation,
            tile=None,
        )
        for implementation in IMPLEMENTATIONS
    )
    assert_close(tiled, dense, 1e-5)


@both
@forms
def test_gradients(implementation, form):
    z, y, x, xy = batch(9, 4, classes=2, width=3)
    z, x = z.requires_grad_(), x.requires_grad_()
    for tau in (0.5, torch.linspace(0.3, 1, 5, dtype=torch.float64)):

        def function(a, b, tau=tau):
            return loss_of(
                *(a, y, tau, b, xy),
                form=form,
                implementation=implementation,
                reduction='none',
                tile=4,
            )

        assert torch.autograd.gradcheck(function, (z, x))
        if implementation == 'dense':
            assert torch.autograd.gradgradcheck(function, (z, x))
        else:
            grads = torch.autograd.grad(
                function(z, x).square().sum(), (z, x), create_graph=True
            )
            with pytest.raises(RuntimeError, match='once_differentiable'):
                grads[0].sum().backward()


@both
def test_gradient_of_extra_keys_alone(implementation):
    z, y, x, xy = batch()
    alone, together = (x.clone().requires_grad_() for _ in range(2))
    loss_of(z, y, 0.2, alone, xy, implementation=implementation).backward()
    z.requires_grad_()
    loss_of(z, y, 0.2, together, xy, implementation=implementation).backward()
    torch.testing.assert_close(alone.grad, together.grad)


@both
@forms
def test_equal_temperatures_are_one_temperature(implementation, form):
    z, y, x, xy = batch()
    options = dict(form=form, implementation=implementation)
    one = value_and_gradients(z, y, 0.2, x, xy, True, **options)
    double = dict(dtype=torch.float64)
    for tau in (
        torch.full((9,), 0.2, **double),
        torch.full((len(z), 1), 0.2, **double),
        torch.tensor(0.2, **double),
    ):
        many = value_and_gradients(z, y, tau, x, xy, True, **options)
        assert_close(many, one, 1e-13)


@both
@forms
def test_order_of_samples_and_names_of_classes(implementation, form):
    z, y, x, xy = batch()
    tau = torch.linspace(0.1, 1, 9, dtype=torch.float64)
    options = dict(form=form, implementation=implementation, reduction='none')
    losses = loss_of(z, y, tau, x, xy, **options)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(1))
    moved = loss_of(z[order], y[order], tau, x.flip(0), xy.flip(0), **options)
    torch.testing.assert_close(moved, losses[order])
    names = torch.tensor([5, 7, 0, 8, 2, 1, 4, 6, 3])
    renamed_tau = torch.empty_like(tau).scatter_(0, names, tau)
    renamed = loss_of(z, names[y], renamed_tau, x, names[xy], **options)
    torch.testing.assert_close(renamed, losses)


@both
def test_class_averages_ignore_repeated_keys(implementation):
    """Twice as many keys of a class weigh as much as before."""
    z, y, x, xy = batch()
    options = dict(
        form='class_averaged', implementation=implementation, reduction='none'
    )
    once = loss_of(z, y, 0.2, x, xy, **options)
    # Of the last class there are extra keys only.
    last = xy == 8
    keys, labels = torch.cat([x, x[last]]), torch.cat([xy, xy[last]])
    twice = loss_of(z, y, 0.2, keys, labels, **options)
    torch.testing.assert_close(twice, once)
    # The plain form counts them twice.
    options['form'] = 'sample'
    once = loss_of(z, y, 0.2, x, xy, **options)
    twice = loss_of(z, y, 0.2, keys, labels, **options)
    assert (twice - once)[2:].min() > 1e-6


@both
@pytest.mark.parametrize(
    'temperature, expected', [(1.0, 2.7830434741), (0.1, 1.9459271850)]
)
def test_filled_batch_reaches_the_bound(implementation, temperature, expected):
    """Synthetic keys fill each of 5 classes up to 8."""
    points = simplex_etf(5, 6, seed=0, dtype=torch.float64)
    real = torch.tensor([8, 5, 3, 2, 1])
    y = torch.arange(5).repeat_interleave(real)
    yg = torch.arange(5).repeat_interleave(8 - real)
    loss = loss_of(
        *(points[y], y, temperature, points[yg], yg),
        implementation=implementation,
    )
    assert loss.item() == pytest.approx(expected, abs=1e-9)
    bound = supervised_contrastive_bound(5, 40, temperature, 'mean')
    assert loss.item() == pytest.approx(bound, abs=1e-9)


def minimise(objective, variable):
    optimizer = torch.optim.LBFGS(
        [variable],
        max_iter=400,
        tolerance_grad=1e-10,
        tolerance_change=0,
        line_search_fn='strong_wolfe',
    )

    def closure():
        optimizer.zero_grad()
        value = objective(unit_vectors(variable))
        value.backward()
        return value

    optimizer.step(closure)
    with torch.no_grad():
        z = unit_vectors(variable)
        return objective(z).item(), z


def start(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return values.requires_grad_()


@both
def test_balanced_features_reach_the_bound(implementation):
    y = torch.arange(4).repeat_interleave(6)

    def objective(z):
        return loss_of(
            z, y, 1.0, reduction='sum', implementation=implementation
        )

    value, z = minimise(objective, start(24, 4))
    assert value == pytest.approx(54.6414844542, abs=1e-7)
    assert value >= supervised_contrastive_bound(4, 24) - 1e-10
    expected = torch.where(y[:, None] == y, 1.0, -1 / 3).double()
    torch.testing.assert_close(z @ z.T, expected, rtol=0, atol=1e-4)
    # No configuration lies below.
    for seed in range(20):
        other = unit_vectors(start(24, 4, seed=seed + 1)).detach()
        assert objective(other) > value


@pytest.mark.parametrize(
    'ratio, theta1, theta2',
    [(0.11, None, None), (1, 109.471, 109.471), (10, 138.80, 69.56)],
)
def test_imbalance_moves_the_angles(ratio, theta1, theta2):
    """One class of other size; K = 4, 100 samples in each of the others."""
    sizes = torch.tensor([round(100 * ratio), 100, 100, 100])
    y = torch.arange(4).repeat_interleave(sizes)
    value, centers = minimise(
        lambda z: loss_of(z[y], y, 1.0, reduction='sum', tile=None),
        start(4, 3),
    )
    optimum = two_level_optimum(4, ratio, 100)
    assert value == pytest.approx(optimum.value, rel=1e-9)
    angles = (centers @ centers.T).clamp(-1, 1).arccos().rad2deg()
    first, second = math.degrees(optimum.theta1), math.degrees(optimum.theta2)
    if theta1 is not None:
        assert (first, second) == pytest.approx((theta1, theta2), abs=5e-3)
    assert angles[0, 1:].tolist() == pytest.approx([first] * 3, abs=1e-2)
    others = [angles[1, 2], angles[1, 3], angles[2, 3]]
    assert others == pytest.approx([second] * 3, abs=1e-2)


def test_free_features_under_imbalance():
    y = torch.arange(4).repeat_interleave(torch.tensor([24, 4, 4, 4]))
    value, z = minimise(
        lambda z: loss_of(z, y, 1.0, reduction='sum'), start(36, 6)
    )
    assert value == pytest.approx(106.28931715, abs=1e-6)
    assert (z[0] @ z[-1]).item() == pytest.approx(-0.65165, abs=1e-4)
    assert (z[24] @ z[-1]).item() == pytest.approx(0.1370, abs=1e-4)


def test_collapse_above_the_threshold():
    assert 2 * collapse_threshold(4, 4) == pytest.approx(293 / 4, rel=0.01)
    y = torch.arange(4).repeat_interleave(torch.tensor([293, 4, 4, 4]))
    value, centers = minimise(
        lambda z: loss_of(z[y], y, 1.0, reduction='sum'), start(4, 6)
    )
    assert value == pytest.approx(1712.01397216, abs=1e-6)
    side = torch.tensor([1, -1, -1, -1], dtype=torch.float64)
    torch.testing.assert_close(
        centers @ centers.T, torch.outer(side, side), rtol=0, atol=1e-3
    )


def largest_allocation(implementation, tau, form):
    """Of all operations of a loss and its gradient, in bytes."""
    z, y, x, xy = batch(1500, 200, classes=50, width=32)
    z, x = z.float().requires_grad_(), x.float().requires_grad_()
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        loss_of(
            *(z, y, tau, x, xy),
            form=form,
            implementation=implementation,
            tile=128,
        ).backward()
    return max(e.self_cpu_memory_usage for e in profiler.events())


@forms
@pytest.mark.parametrize('classwise', [False, True])
def test_memory_of_tiles_is_that_of_the_keys(form, classwise):
    tau = torch.linspace(0.1, 1, 53) if classwise else 0.1
    keys = 1700 * 32 * 4
    assert keys / 2 < largest_allocation('tiled', tau, form) <= 1.5 * keys
    # The measure sees the matrices of the other implementation.
    assert largest_allocation('dense', tau, form) >= 1500 * 1700 * 4


def test_auto_chooses_by_size(monkeypatch):
    used = []
    for name in IMPLEMENTATIONS:
        function = getattr(contrast, f'{name}_log_partition')

        def recorded(*args, name=name, function=function):
            used.append(name)
            return function(*args)

        monkeypatch.setattr(contrast, f'{name}_log_partition', recorded)
    z, y, x, xy = batch(20, 10)
    monkeypatch.setattr(contrast, 'PAIRS_ON_CPU', 20 * 30)
    supervised_contrastive_loss(z, y, 0.1, x, xy)
    supervised_contrastive_loss(z, y, 0.1, x[1:], xy[1:])
    supervised_contrastive_loss(z, y, 0.1)
    assert used == ['tiled', 'dense', 'dense']


@both
@forms
@pytest.mark.parametrize('classwise', [False, True])
def test_autocast_changes_nothing(implementation, form, classwise):
    z, y, x, xy = (t.float() if t.is_floating_point() else t for t in batch())
    tau = torch.linspace(0.1, 1, 9) if classwise else 0.1
    results = []
    for enabled in (False, True):
        z.grad = None
        z.requires_grad_()
        with torch.autocast('cpu', torch.bfloat16, enabled=enabled):
            loss = loss_of(
                *(z, y, tau, x, xy), form=form, implementation=implementation
            )
            if implementation == 'tiled':
                loss.backward()
        # The gradient of a plain product is that of the caller's precision.
        if implementation == 'dense':
            loss.backward()
        results.append((loss.detach(), z.grad))
    (loss, gradient), (loss_autocast, gradient_autocast) = results
    assert loss_autocast.dtype == torch.float32
    assert torch.equal(loss_autocast, loss)
    assert torch.equal(gradient_autocast, gradient)


@both
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(implementation, dtype):
    z, y, x, xy = batch()
    z, x = z.to(dtype), x.to(dtype)
    half = value_and_gradients(
        z, y, 0.1, x, xy, True, implementation=implementation
    )
    full = value_and_gradients(
        *(z.float(), y, 0.1, x.float(), xy, True),
        implementation=implementation,
    )
    assert half[0].dtype == torch.float32
    assert torch.equal(half[0], full[0])
    for h, f in zip(half[1:], full[1:]):
        assert h.dtype == dtype
        torch.testing.assert_close(h, f.to(dtype))


@both
@forms
@pytest.mark.parametrize('classwise', [False, True])
@pytest.mark.parametrize(
    'labels, extra_labels',
    [
        ([0], []),
        ([0], [0]),
        ([0], [1]),
        ([0, 1], []),
        ([0, 1, 2, 3], [4, 4]),
        ([0, 0], []),
        ([1, 1, 1], [0]),
        ([], []),
        ([], [0]),
        ([], [0, 1, 1]),
    ],
)
def test_few_samples(implementation, form, classwise, labels, extra_labels):
    z = start(len(labels), 3)
    z = unit_vectors(z).detach().requires_grad_()
    x = unit_vectors(start(len(extra_labels), 3, seed=1))
    y = torch.tensor(labels, dtype=torch.int64)
    xy = torch.tensor(extra_labels, dtype=torch.int64)
    tau = torch.linspace(0.1, 1, 5, dtype=torch.float64)
    tau = tau if classwise else 0.1
    options = dict(form=form, implementation=implementation)
    loss = loss_of(z, y, tau, x, xy, **options)
    anchors = [0.1] * len(z) if not classwise else tau[y]
    expected = slow_losses(z, y, anchors, x, xy, form)
    number = max(int((expected != 0).sum()), 1)
    assert loss.item() == pytest.approx(
        (expected.sum() / number).item(), abs=1e-12
    )
    loss.backward()
    assert z.grad.isfinite().all()
    if not expected.any():
        assert z.grad.abs().sum() < 1e-12
    if not (y[:, None] == torch.cat([y, xy])).sum(1).gt(1).any():
        assert loss == 0
        assert not z.grad.any()


@both
@forms
@pytest.mark.parametrize('tau', [0.07, 1e-4, 1e4])
@pytest.mark.parametrize('scale', [0.0, 1e-20, 1.0, 100.0, 65504.0])
def test_hard_inputs_stay_finite(implementation, form, tau, scale):
    z, y, x, xy = batch()
    z = (z * scale).float()
    z[3] = 0
    z[4:8] = z[4]
    for temperature in (tau, torch.full((9,), tau) * torch.linspace(1, 2, 9)):
        results = value_and_gradients(
            *(z, y, temperature, x.float(), xy, True),
            form=form,
            implementation=implementation,
        )
        for result in results:
            assert result.isfinite().all()


@both
def test_cold_and_long_features_agree_with_double_precision(implementation):
    z, y, x, xy = batch()
    for tau, scale in ((0.005, 1.0), (0.1, 6.0)):
        single, double = (
            loss_of(
                *((z * scale).to(dtype), y, tau, x.to(dtype), xy),
                reduction='none',
                implementation=name,
            )
            for dtype, name in (
                (torch.float32, implementation),
                (torch.float64, 'dense'),
            )
        )
        torch.testing.assert_close(
            single.double(), double, rtol=1e-5, atol=2e-4
        )


@both
def test_nan_is_not_hidden(implementation):
    z, y, _, _ = batch()
    z[5] = math.nan
    assert loss_of(z, y, 0.1, implementation=implementation).isnan()


@both
def test_small_label_types(implementation):
    z, y, x, xy = batch()
    tau = torch.linspace(0.1, 1, 9, dtype=torch.float64)
    options = dict(implementation=implementation)
    expected = loss_of(z, y, tau, x, xy, **options)
    for dtype in (torch.uint8, torch.int32):
        loss = loss_of(z, y.to(dtype), tau, x, xy.to(dtype), **options)
        assert torch.equal(loss, expected)


def test_generators_are_left_alone():
    z, y, x, xy = batch()
    state = torch.get_rng_state()
    loss_of(z, y, 0.1, x, xy, implementation='tiled')
    assert torch.equal(torch.get_rng_state(), state)


Z, Y, X, XY = batch(6, 3, classes=2)


@pytest.mark.parametrize(
    'arguments, options, message',
    [
        ((Z, Y, 0.0), {}, 'temperature must be positive and finite, got 0.0'),
        ((Z, Y, math.nan), {}, 'positive and finite, got nan'),
        ((Z, Y, torch.tensor([1.0, 1, -1, 1])), {}, 'finite, got -1.0'),
        ((Z, Y, torch.full((4,), math.inf)), {}, 'finite, got inf'),
        ((Z, Y, torch.ones(2)), {}, r'labels lie in \[1, 3\], but .* 2 class'),
        ((Z, Y - 2, torch.ones(4)), {}, r'labels lie in \[-1, 1\]'),
        ((Z, Y, torch.ones(3, 1)), {}, r'shape \(3, 1\): give .* \(6, 1\)'),
        ((Z, Y, torch.ones(4).requires_grad_()), {}, 'detach it'),
        ((Z, Y[1:], 1.0), {}, 'labels must be 6 integer classes'),
        ((Z, Y.float(), 1.0), {}, 'got torch.float32 .* soft and mixed'),
        ((Z, Z, 1.0), {}, r'shape \(6, 5\); soft and mixed labels'),
        ((Z[0], Y, 1.0), {}, r'features must be .*, got .* shape \(5,\)'),
        ((Z.long(), Y, 1.0), {}, 'features must be .*, got torch.int64'),
        ((Z, Y, 1.0, X), {}, 'belong together'),
        ((Z, Y, 1.0, None, XY), {}, 'belong together'),
        ((Z, Y, 1.0, X[:, 1:], XY), {}, 'have 4 dimensions and features 5'),
        ((Z, Y, 1.0, X, XY[1:]), {}, 'extra_labels must be 3 integer'),
        ((Z, Y, 1.0), dict(reduction='max'), "one of 'mean', .* got 'max'"),
        ((Z, Y, 1.0), dict(form='bcl'), "form must be .* got 'bcl'"),
        ((Z, Y, 1.0), dict(implementation='gpu'), "got 'gpu'"),
        ((Z, Y, 1.0), dict(tile=0), 'tile must be at least 1, got 0'),
    ],
)
def test_bad_arguments(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        supervised_contrastive_loss(*arguments, **options)
