# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch
from torch.nn import functional as F

from mmgeom.geometry import MultiCenterFrame, cosine_center_loss, norm_penalty
from mmgeom.geometry.frames import LAYOUTS

CENTERS = (1, 2, 5, 20)
THETA = 0.2


def make_frame(layout, centers=CENTERS, theta=THETA, dim=64):
    """A frame in fp64 that is orthonormal to fp64 precision."""
    k = len(centers)
    frame = MultiCenterFrame(k, sum(centers), dim, theta, layout, seed=5)
    if layout == 'random':
        exact = torch.linalg.qr(frame.directions.double().T).Q.T
        frame.directions = exact.contiguous()
    frame.set_centers(centers)
    return frame


def dense(frame):
    """All centres, one by one."""
    basis = frame.coordinates(torch.eye(frame.dim).double()).T
    k = frame.num_classes
    rows, label, place = [], [], k
    for c, number in enumerate(frame.centers.tolist()):
        for _ in range(number):
            rows.append(
                math.cos(frame.theta) * basis[place]
                + math.sin(frame.theta) * basis[c]
            )
            label.append(c)
            place += 1
    return basis[:k], torch.stack(rows), torch.tensor(label)


def dense_loss(frame, x, y):
    """Sum over own centres by the definition, sample by sample."""
    _, centers, label = dense(frame)
    losses = []
    for feature, c in zip(x, y):
        unit = feature / feature.norm()
        cosines = torch.stack([w @ unit for w in centers[label == c]])
        losses.append(((cosines - 1) ** 2).sum())
    return torch.stack(losses)


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('dim', [32, 64])
def test_inner_products(layout, dim):
    frame = make_frame(layout, dim=dim)
    directions, centers, label = dense(frame)
    own = label[:, None] == torch.arange(4)
    products = centers @ directions.T
    assert torch.allclose(
        products, math.sin(THETA) * own.double(), rtol=0, atol=1e-12
    )
    gram = centers @ centers.T
    same = label[:, None] == label
    expected = same.double() * math.sin(THETA) ** 2
    expected.fill_diagonal_(1)
    assert torch.allclose(gram, expected.double(), rtol=0, atol=1e-12)
    assert round(math.sin(THETA), 6) == 0.198669
    assert round(math.sin(THETA) ** 2, 6) == 0.039470


def test_angles_and_floor():
    frame = make_frame('axis')
    cos_alpha = [1, 0.720926, 0.481223, 0.295797]
    cos_rho = [0.198669, 0.275575, 0.412843, 0.671640]
    floor = [0, 0.155764, 1.345648, 9.918030]
    for got, expected in (
        (frame.cos_alpha(), cos_alpha),
        (frame.cos_rho(), cos_rho),
        (frame.loss_floor(), floor),
    ):
        assert torch.allclose(got, torch.tensor(expected).double(), atol=1e-6)
    mean = make_frame('random').mean_centers().double()
    assert torch.allclose(mean.norm(dim=1), frame.cos_alpha(), atol=1e-6)


def test_gradient_bound_is_linear_in_the_number_of_centers():
    frame = make_frame('axis')
    _, centers, label = dense(frame)
    norms = torch.stack([centers[label == c].sum(0).norm() for c in range(4)])
    bound = frame.cos_alpha() * norms
    expected = torch.tensor([1, 1.03947, 1.157878, 1.749921]).double()
    assert torch.allclose(bound, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('dim', [32, 51, 64])
def test_loss_equals_the_dense_loop(layout, dim):
    if layout == 'hadamard' and dim == 51:
        dim = 128
    frame = make_frame(layout, dim=dim)
    torch.manual_seed(0)
    x = torch.randn(17, dim, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 4, (17,))
    terms = frame.own_terms(x, y)
    loss = cosine_center_loss(terms, frame.centers[y], THETA)
    total = loss.sum() + norm_penalty(terms.norm).sum()
    (gradient,) = torch.autograd.grad(total, x)
    expected = dense_loss(frame, x, y)
    reference = expected.sum() + ((x.norm(dim=1) - 1) ** 2).sum()
    (expected_gradient,) = torch.autograd.grad(reference, x)
    assert torch.allclose(loss, expected, rtol=0, atol=1e-10)
    assert torch.allclose(gradient, expected_gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize('layout', LAYOUTS)
def test_several_labels_equal_single_ones(layout):
    frame = make_frame(layout)
    x = torch.randn(9, 64, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 4, (9, 2))
    both = frame.own_terms(x, y)
    for i in range(2):
        single = frame.own_terms(x, y[:, i])
        assert torch.allclose(both.direction[:, i], single.direction)
        assert torch.allclose(both.sum[:, i], single.sum)
        assert torch.allclose(both.square_sum[:, i], single.square_sum)
        assert torch.allclose(both.norm, single.norm)
    assert torch.autograd.gradcheck(
        lambda z: tuple(frame.own_terms(z, y)), x, atol=1e-7
    )


def test_gradient_of_the_cosine_term():
    """2 (a - 1) / |h| (w - a h_hat), without radial component."""
    frame = make_frame('random', centers=(1, 1))
    h = (torch.randn(1, 64).double() * 3).requires_grad_()
    y = torch.tensor([1])
    loss = cosine_center_loss(frame.own_terms(h, y), torch.tensor([1]), THETA)
    (gradient,) = torch.autograd.grad(loss.sum(), h)
    _, centers, _ = dense(frame)
    unit = h.detach() / h.detach().norm()
    a = centers[1] @ unit[0]
    expected = 2 * (a - 1) / h.detach().norm() * (centers[1] - a * unit)
    assert torch.allclose(gradient, expected, rtol=0, atol=1e-12)
    assert (gradient @ unit.T).abs() < 1e-12


@pytest.mark.parametrize('layout', LAYOUTS)
def test_scores(layout):
    frame = make_frame(layout)
    directions, centers, label = dense(frame)
    x = torch.randn(6, 64, dtype=torch.float64)
    unit = F.normalize(x, dim=1)
    assert torch.allclose(frame.class_scores(x), unit @ directions.T)
    nearest = torch.stack(
        [(unit @ centers[label == c].T).amax(1) for c in range(4)], dim=1
    )
    assert torch.allclose(frame.nearest_center_scores(x), nearest)


def test_minimum_is_the_mean_center():
    frame = make_frame('axis')
    x = torch.randn(4, 64, dtype=torch.float64, requires_grad=True)
    y = torch.arange(4)
    optimizer = torch.optim.LBFGS(
        [x],
        max_iter=300,
        line_search_fn='strong_wolfe',
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
    )

    def closure():
        optimizer.zero_grad()
        terms = frame.own_terms(x, y)
        loss = cosine_center_loss(terms, frame.centers[y], THETA).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    terms = frame.own_terms(x.detach(), y)
    loss = cosine_center_loss(terms, frame.centers[y], THETA)
    assert torch.allclose(loss, frame.loss_floor(), rtol=0, atol=1e-9)
    means = F.normalize(frame.mean_centers().double(), dim=1)
    cosine = (F.normalize(x.detach(), dim=1) * means).sum(1)
    assert torch.allclose(cosine, torch.ones(4).double(), atol=1e-8)


def test_right_angle_is_one_center():
    """At theta = pi/2 all centres are the class direction."""
    frame = make_frame('random', theta=math.pi / 2)
    x = torch.randn(5, 64, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 3])
    loss = cosine_center_loss(
        frame.own_terms(x, y), frame.centers[y], math.pi / 2
    )
    score = frame.class_scores(x).gather(1, y[:, None])[:, 0]
    assert torch.allclose(loss, frame.centers[y] * (score - 1) ** 2)
    assert torch.allclose(frame.cos_alpha(), torch.ones(4).double())


def test_axis_and_random_frames_train_alike():
    """SGD commutes with the rotation that turns one into the other."""
    torch.manual_seed(0)
    random = make_frame('random', dim=32)
    axis = make_frame('axis', dim=32)
    rotation = random.directions
    inputs = torch.randn(24, 7, dtype=torch.float64)
    y = torch.randint(0, 4, (24,))
    weight = torch.randn(32, 7, dtype=torch.float64)
    losses = []
    for frame, start in ((random, weight), (axis, rotation @ weight)):
        parameter = start.clone().requires_grad_()
        optimizer = torch.optim.SGD(
            [parameter], lr=0.1, momentum=0.9, weight_decay=1e-3
        )
        for _ in range(50):
            terms = frame.own_terms(inputs @ parameter.T, y)
            loss = cosine_center_loss(terms, frame.centers[y], THETA).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append((loss.item(), frame.class_scores(inputs @ parameter.T)))
    assert losses[0][0] == pytest.approx(losses[1][0], abs=1e-12)
    assert torch.allclose(losses[0][1], losses[1][1], rtol=0, atol=1e-12)


@pytest.mark.parametrize('layout', LAYOUTS)
def test_hard_inputs_stay_finite(layout):
    frame = make_frame(layout)
    for x in (torch.zeros(2, 64), torch.full((2, 64), 6e4).half()):
        x = x.requires_grad_()
        terms = frame.own_terms(x, torch.tensor([0, 3]))
        loss = cosine_center_loss(
            terms, frame.centers[torch.tensor([0, 3])], THETA
        )
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        assert loss.dtype == torch.float32 or x.dtype == torch.float64
        assert torch.isfinite(loss).all() and torch.isfinite(gradient).all()
        assert torch.isfinite(frame.class_scores(x)).all()


@pytest.mark.parametrize('layout', LAYOUTS)
def test_state_round_trip(layout):
    frame = make_frame(layout)
    other = MultiCenterFrame(4, 28, 64, THETA, layout, seed=9)
    if layout == 'random':
        other = other.double()
    other.load_state_dict(frame.state_dict())
    x = torch.randn(3, 64, dtype=torch.float64)
    y = torch.tensor([0, 2, 3])
    for a, b in zip(frame.own_terms(x, y), other.own_terms(x, y)):
        assert torch.equal(a, b)
    again = MultiCenterFrame(4, 28, 64, THETA, layout, seed=5)
    again.set_centers(CENTERS)
    if layout != 'random':
        assert torch.equal(again.class_scores(x), frame.class_scores(x))


def test_large_frames_allocate_nothing_of_their_size():
    """No tensor but a few copies of the batch, at K = 8142 and f = 20."""
    num_classes, f = 8142, 20
    frame = MultiCenterFrame(
        num_classes, f * num_classes, (f + 1) * num_classes, layout='axis'
    )
    frame.set_centers(torch.full((num_classes,), f))
    state = sum(b.numel() for b in frame.buffers())
    assert state < 2 * num_classes
    x = torch.randn(4, frame.dim, requires_grad=True)
    y = torch.randint(0, num_classes, (4,))
    with torch.profiler.profile(profile_memory=True) as profile:
        terms = frame.own_terms(x, y)
        cosine_center_loss(terms, frame.centers[y], 0.2).sum().backward()
    batch = x.numel() * x.element_size()
    # Events nest, so their sum counts some allocations several times.
    largest = max(e.cpu_memory_usage for e in profile.key_averages())
    assert largest <= 2 * batch


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(num_classes=1, num_centers=4), 'at least 2 classes, got 1'),
        (dict(num_classes=4, num_centers=3), 'at least as many centres'),
        (dict(dim=31), 'dimension 32 or more, got 31'),
        (dict(theta=2), r'radians in \[0, pi/2\], got 2'),
        (dict(layout='dense'), "layout 'dense' is unknown"),
        (dict(layout='hadamard', dim=40), 'power of two, got 40'),
    ],
)
def test_errors(arguments, message):
    default = dict(num_classes=4, num_centers=28, dim=32, layout='axis')
    with pytest.raises(ValueError, match=message):
        MultiCenterFrame(**{**default, **arguments})


def test_unallocated_centers_are_an_error():
    frame = MultiCenterFrame(4, 28, 32, layout='axis')
    with pytest.raises(RuntimeError, match='not allocated to classes yet'):
        frame.own_terms(torch.ones(1, 32), torch.tensor([0]))
    with pytest.raises(ValueError, match='has 28 centres, .* sum to 27'):
        frame.set_centers([1, 2, 5, 19])


@pytest.mark.parametrize('layout', LAYOUTS)
def test_autocast_does_not_lower_the_precision(layout):
    frame = MultiCenterFrame(4, 28, 64, THETA, layout)
    frame.set_centers(CENTERS)
    x = torch.randn(3, 64)
    y = torch.tensor([0, 2, 3])
    expected = frame.own_terms(x, y)
    scores = frame.class_scores(x)
    with torch.autocast('cpu', torch.bfloat16):
        for got, value in zip(frame.own_terms(x, y), expected):
            assert torch.equal(got, value)
        assert torch.equal(frame.class_scores(x), scores)
        assert frame.coordinates(x.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize('layout', LAYOUTS)
def test_dense_forms(layout):
    frame = make_frame(layout)
    directions, centers, label = dense(frame)
    got, parts = frame.dense_basis(torch.float64)
    assert torch.allclose(got, directions, rtol=0, atol=1e-14)
    assert len(parts) == 28
    dense_centers = frame.dense_centers(torch.float64)
    assert torch.allclose(dense_centers, centers, rtol=0, atol=1e-14)
    means = frame.mean_centers(torch.float64)
    for c in range(4):
        mean = centers[label == c].mean(0)
        assert torch.allclose(means[c], mean, rtol=0, atol=1e-14)
