# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The SRL head, against fixtures, a plain reference and its options."""

import copy
import itertools

import numpy as np
import pytest
import torch
from mmpretrain.structures import DataSample
from torch import nn

from mmgeom.binning import LabelBins
from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import uniform_points
from mmgeom.models.heads.regressor_head import RegressorHead
from mmgeom.models.heads.srl_head import SRLHead
from mmgeom.models.losses.error_loss import ErrorLoss
from mmgeom.registry import MODELS

# The golden fixture: labels 0, 1, 3 with their centroids, and four points.
CENTROIDS = torch.tensor([[1, 0, 0], [0.8, 0.6, 0], [0, 0.6, 0.8]])
POINTS = torch.tensor([[1, 0, 0], [0, 0, 1], [0, -1, 0], [0.6, 0, 0.8]])
GOLDEN = LabelDistribution(
    [5, 5, 5], bins=LabelBins([-0.5, 0.5, 2.0, 4.0], [0, 1, 3])
)
LABELS = torch.tensor([0.0, 1.0, 3.0])
TERMS = ('enveloping', 'homogeneity', 'contrast')


def samples(target):
    return [
        DataSample().set_gt_score(torch.tensor([float(t)])) for t in target
    ]


def golden_head(**options):
    """Features are projections, points those of the fixture, epoch 1."""
    arguments = dict(lambda_e=1.0, lambda_h=1.0, lambda_con=1.0)
    head = SRLHead(3, 3, proj_dim=0, num_points=4, **{**arguments, **options})
    head.set_label_distribution(GOLDEN)
    if hasattr(head.trace.points, 'points'):
        head.trace.points.points.copy_(POINTS)
    head.before_epoch(1, 10)
    return head


def random_case(num_bins=7, dim=5, batch=6, empty=(), seed=0, **options):
    """A head in epoch 1 with a surrogate of most bins, and a batch."""
    generator = torch.Generator().manual_seed(seed)
    head = SRLHead(dim, num_bins, proj_dim=0, num_points=50, **options)
    edges = torch.arange(num_bins + 1).double().square() / 3
    counts = torch.ones(num_bins)
    counts[list(empty)] = 0
    bins = LabelBins(edges)
    head.set_label_distribution(LabelDistribution(counts, bins=bins))
    surrogate = head.trace.surrogate
    surrogate.centroids.copy_(uniform_points(num_bins, dim, generator))
    surrogate.seen.fill_(True)
    surrogate.seen[1] = False
    surrogate.centroids[1] = 0
    head.before_epoch(1, 10)
    x = torch.randn(batch, dim, generator=generator)
    filled = torch.tensor([k for k in range(num_bins) if k not in empty])
    chosen = torch.randint(len(filled), (batch,), generator=generator)
    return head, x, bins.centers[filled[chosen]].float()


def reference(head, x, target, mode='paper', var=0.0, normalize=False):
    """The three losses by loops over bins and samples, unweighted."""
    trace = head.trace
    z = x.double().numpy()
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    edges = trace.edges.double().numpy()
    own = [
        max(k for k in range(trace.num_bins) if t >= edges[k])
        for t in target.double().tolist()
    ]
    centroids = {}
    for k in range(trace.num_bins):
        rows = [z[i] for i in range(len(z)) if own[i] == k]
        if trace.counts[k] == 0:
            continue
        if rows:
            mean = np.mean(rows, 0)
            centroids[k] = mean / np.linalg.norm(mean)
        elif trace.surrogate.seen[k]:
            centroids[k] = trace.surrogate.centroids[k].double().numpy()
    points = trace.points.points.double().numpy()
    env = -np.mean([max(p @ c for c in centroids.values()) for p in points])
    keys = sorted(centroids)
    values = trace.values.double().numpy()
    if mode == 'paper':
        homo = sum(
            np.sum((centroids[b] - centroids[a]) ** 2)
            / (values[b] - values[a])
            for a, b in itertools.pairwise(keys)
        )
        if normalize:
            span = values[keys[-1]] - values[keys[0]]
            homo *= span / (len(keys) - 1) ** 2
    else:
        cosine = [
            centroids[a] @ centroids[b] for a, b in itertools.pairwise(keys)
        ]
        homo = -np.sum(cosine)
        if len(cosine) > 1:
            homo += var * np.var(cosine, ddof=1)
    con = [
        -np.log(
            np.exp(z[i] @ centroids[own[i]] / trace.temperature)
            / sum(
                np.exp(z[i] @ c / trace.temperature)
                for c in centroids.values()
            )
        )
        for i in range(len(z))
    ]
    return dict(
        enveloping=env,
        homogeneity=homo,
        contrast=np.mean(con),
        available=len(keys),
    )


# --- Golden fixture ---------------------------------------------------------
def test_golden_fixture_by_the_batch():
    losses = golden_head().loss((CENTROIDS,), samples(LABELS))
    assert losses['loss_enveloping'].item() == pytest.approx(-0.61, abs=1e-6)
    assert losses['loss_homogeneity'].item() == pytest.approx(1.04, abs=1e-6)
    assert losses['available_bins'] == 3


def test_golden_fixture_by_the_surrogate():
    head = golden_head()
    head.trace.surrogate.centroids.copy_(CENTROIDS)
    head.trace.surrogate.seen.fill_(True)
    # One sample whose feature is the centroid of its bin already.
    losses = head.loss((CENTROIDS[1:2],), samples([1]))
    assert losses['loss_enveloping'].item() == pytest.approx(-0.61, abs=1e-6)
    assert losses['loss_homogeneity'].item() == pytest.approx(1.04, abs=1e-6)


def test_golden_fixture_of_the_cosine_form():
    head = golden_head(homo_mode='cos', homo_var=0.1)
    losses = head.loss((CENTROIDS,), samples(LABELS))
    assert losses['loss_homogeneity'].item() == pytest.approx(
        -1.16 + 0.00968, abs=1e-6
    )


def test_golden_fixture_of_the_contrast():
    """The pair of the fixture, with the mirror images that leave the
    centroids of the batch where the fixture has them.
    """
    head = golden_head(temperature=0.3)
    z = torch.tensor([[0.6, 0.8, 0], [0, 0.8, 0.6]])
    own = CENTROIDS[1:]
    mirror = 2 * (z * own).sum(1, keepdim=True) * own - z
    features = torch.cat([CENTROIDS[:1], z, mirror])
    bins = torch.tensor([0, 1, 2, 1, 2])
    losses = head.loss((features,), samples(LABELS[bins]))
    logits = features @ CENTROIDS.T / 0.3
    each = nn.functional.cross_entropy(logits, bins, reduction='none')
    assert each[1:3].mean().item() == pytest.approx(0.312388344847, abs=1e-6)
    assert torch.allclose(losses['loss_contrast'], each.mean(), atol=1e-6)


# --- Plain reference --------------------------------------------------------
@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize(
    'options',
    [
        dict(),
        dict(homo_normalize=True, temperature=0.1),
        dict(homo_mode='cos', homo_var=0.1),
    ],
)
@pytest.mark.parametrize(
    'case',
    [
        dict(),
        dict(empty=(0, 3)),
        dict(num_bins=2, batch=4),
        dict(batch=1),
        dict(batch=40, dim=3),
    ],
)
def test_equals_loops(case, options, seed):
    head, x, target = random_case(
        **case, **options, seed=seed, lambda_e=2.0, lambda_h=3.0, lambda_con=4
    )
    losses = head.loss((x,), samples(target))
    expected = reference(
        head,
        x,
        target,
        options.get('homo_mode', 'paper'),
        options.get('homo_var', 0.0),
        options.get('homo_normalize', False),
    )
    for name, weight in zip(TERMS, (2, 3, 4)):
        value = losses[f'loss_{name}'].item() / weight
        assert value == pytest.approx(expected[name], abs=2e-5), name
    assert losses['available_bins'] == expected['available']


def test_order_of_the_batch_does_not_matter():
    head, x, target = random_case(batch=12)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    one = head.loss((x,), samples(target))
    two = head.loss((x[order],), samples(target[order]))
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-6), name


def test_reversed_labels_give_the_same_losses():
    """A trace has no preferred direction."""
    head, x, target = random_case()
    other = copy.deepcopy(head)
    other.trace.edges.copy_(-head.trace.edges.flip(0))
    other.trace.values.copy_(-head.trace.values.flip(0))
    for name in ('centroids', 'seen'):
        buffer = getattr(other.trace.surrogate, name)
        buffer.copy_(buffer.flip(0))
    one, two = (
        h.loss((x,), samples(t)) for h, t in ((head, target), (other, -target))
    )
    for name in TERMS:
        name = f'loss_{name}'
        assert torch.allclose(one[name], two[name], atol=1e-5), name


# --- Gradients --------------------------------------------------------------
def test_no_gradient_through_remembered_rows():
    """Points next to a remembered centroid pull at nothing."""
    head = golden_head()
    surrogate = head.trace.surrogate
    surrogate.centroids.copy_(CENTROIDS)
    surrogate.seen.fill_(True)
    x = torch.tensor([[0.1, 0.6, 0.9]], requires_grad=True)
    for near, pulls in ((0, False), (2, True)):
        head.trace.points.points.copy_(CENTROIDS[near].expand(4, 3))
        x.grad = None
        losses = head.loss((x,), samples([3]))
        losses['loss_enveloping'].backward()
        assert bool(x.grad.any()) is pulls
    assert torch.equal(surrogate.centroids, CENTROIDS)
    assert all(not buffer.requires_grad for buffer in head.buffers())


@pytest.mark.parametrize('name', ['enveloping', 'homogeneity'])
def test_gradient_by_differences(name):
    head, x, target = random_case(batch=5, seed=3)
    head.double()
    target = samples(target)

    def value(feature):
        return head.loss((feature,), target)[f'loss_{name}']

    x = x.double().requires_grad_()
    assert torch.autograd.gradcheck(value, (x,), eps=1e-6)


def test_gradient_of_the_contrast_leaves_centroids_alone():
    """The centroids that features are compared with are constants."""
    head, x, target = random_case(batch=5, lambda_con=1.0)
    one, two = (x.clone().requires_grad_() for _ in range(2))
    head.loss((one,), samples(target))['loss_contrast'].backward()

    trace = head.trace
    bins = trace.bin_index(target)
    z = nn.functional.normalize(x)
    own = torch.zeros(7, 5).index_add(0, bins, z)
    present = torch.bincount(bins, minlength=7) > 0
    own = nn.functional.normalize(own)
    rows, available = trace.surrogate.refill(own, present)
    logits = nn.functional.normalize(two) @ rows.T / trace.temperature
    logits = logits.masked_fill(~available, -torch.inf)
    nn.functional.cross_entropy(logits, bins).backward()
    assert torch.allclose(one.grad, two.grad, atol=1e-6)


# --- Time -------------------------------------------------------------------
def test_warm_up_is_the_regression_alone():
    head, x, target = random_case(warmup_epochs=2)
    plain = RegressorHead(5)
    plain.fc.load_state_dict(head.fc.state_dict())
    expected = plain.loss((x,), samples(target))
    losses = head.loss((x,), samples(target))
    assert list(losses) == list(expected)
    for name, value in expected.items():
        assert torch.equal(losses[name], value), name
    assert head.trace.surrogate.cnt.sum() == len(x)
    head.before_epoch(2, 10)
    assert set(head.loss((x,), samples(target))) > set(expected)


def test_warm_up_leaves_no_parameter_without_gradient():
    head = SRLHead(4, 3, proj_dim=6, projector_hidden=5)
    head.set_label_distribution(GOLDEN)
    head.before_epoch(0, 10)
    head.loss((torch.randn(3, 4),), samples(LABELS))['loss'].backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
    assert all(p.grad.eq(0).all() for p in head.projector.parameters())


def test_surrogate_over_epochs():
    head = golden_head(momentum=0.75)
    head.before_epoch(0, 10)
    head.loss((CENTROIDS[:2],), samples(LABELS[:2]))
    head.after_epoch(0)
    surrogate = head.trace.surrogate
    assert torch.allclose(surrogate.centroids[:2], CENTROIDS[:2])
    assert surrogate.seen.tolist() == [True, True, False]
    # An old bin moves a quarter of the way, a new one takes its feature.
    head.before_epoch(1, 10)
    head.loss((CENTROIDS[[2, 2]],), samples(LABELS[[1, 2]]))
    head.after_epoch(1)
    mixed = 0.75 * CENTROIDS[1] + 0.25 * CENTROIDS[2]
    expected = torch.stack([CENTROIDS[0], mixed / mixed.norm(), CENTROIDS[2]])
    assert torch.allclose(surrogate.centroids, expected)
    assert surrogate.cnt.eq(0).all() and surrogate.acc.eq(0).all()
    head.reset_epochs()
    for name, buffer in surrogate.named_buffers():
        assert not buffer.any(), name


def test_surrogate_of_a_warm_up_is_the_last():
    """Features of the first steps do not stay in it."""
    head = golden_head(momentum=0.9, warmup_epochs=2)
    for epoch in range(3):
        head.before_epoch(epoch, 10)
        head.loss((CENTROIDS[[epoch]],), samples(LABELS[:1]))
        head.after_epoch(epoch)
        old = head.trace.surrogate.centroids[0].clone()
        if epoch < 2:
            assert torch.allclose(old, CENTROIDS[epoch])
    mixed = 0.9 * CENTROIDS[1] + 0.1 * CENTROIDS[2]
    assert torch.allclose(old, mixed / mixed.norm())


def test_evaluating_the_loss_collects_nothing():
    head = golden_head().eval()
    head.loss((CENTROIDS,), samples(LABELS))
    assert head.trace.surrogate.cnt.eq(0).all()


def test_accumulate_only_collects():
    head = golden_head()
    head.accumulate((2 * CENTROIDS,), samples(LABELS))
    surrogate = head.trace.surrogate
    assert torch.allclose(surrogate.acc, CENTROIDS)
    assert surrogate.cnt.tolist() == [1, 1, 1]
    assert not surrogate.seen.any()
    head.forget_sums()
    assert surrogate.acc.eq(0).all() and surrogate.cnt.eq(0).all()


def test_needs_to_know_the_epoch():
    head = SRLHead(3, 3, proj_dim=0)
    head.set_label_distribution(GOLDEN)
    with pytest.raises(RuntimeError, match=r"add dict\(type='mmgeom.EpochH"):
        head.loss((CENTROIDS,), samples(LABELS))


# --- Bins -------------------------------------------------------------------
@pytest.mark.parametrize(
    'values',
    [
        np.round(np.arange(0, 3, 0.1), 10),
        np.arange(18, 90).astype(float),
        np.array([-3.7, 0.05, 0.3, 0.7, 1e4]),
    ],
)
def test_bins_are_those_of_the_counts(values):
    """Also for labels on an edge that float32 rounds down, such as 0.7."""
    inner = (values[1:] + values[:-1]) / 2
    by_edges = [*values, values[-1] + 1]
    between = [values[0] - 1, *inner, values[-1] + 1]
    for edges in (by_edges, between):
        bins = LabelBins(edges)
        head = SRLHead(3, len(bins), proj_dim=0)
        distribution = LabelDistribution.from_values(values, bins)
        head.set_label_distribution(distribution)
        target = torch.tensor(values, dtype=torch.float32)
        found = head.trace.bin_index(target)
        assert torch.equal(found, bins.index(values))
        outside = head.trace.bin_index(torch.tensor([-1e6, 1e6]))
        assert outside.tolist() == [0, len(bins) - 1]


def test_bins_of_labels_on_computed_edges():
    """3 * 0.1 is a little above 0.3, and the same number in float32."""
    values = np.array([k / 5 for k in range(26)])
    for spec in (
        dict(edges=[0.1 * k for k in range(51)]),
        dict(width=0.4),
        dict(width=0.4, start=0.2),
    ):
        distribution = LabelDistribution.from_values(values, spec)
        head = SRLHead(3, len(distribution), proj_dim=0)
        head.set_label_distribution(distribution)
        found = head.trace.bin_index(torch.tensor(values).float())
        assert torch.equal(found, distribution.bins.index(values)), spec
        assert (head.trace.counts[found] > 0).all()


def test_a_bin_without_data_takes_no_part():
    """Not even when a label that something changed falls into it."""
    head, x, target = random_case(empty=(0,))
    before = head.loss((x,), samples(target))
    strange = torch.cat([target, torch.tensor([0.0])])
    feature = torch.cat([x, x.sum(0, keepdim=True)])
    after = head.loss((feature,), samples(strange))
    for name in (*(f'loss_{t}' for t in TERMS), 'available_bins'):
        assert torch.allclose(before[name], after[name]), name


def test_bins_of_classes_are_refused():
    head = SRLHead(3, 3)
    with pytest.raises(ValueError, match=r'bins=dict\(width=1.0\)'):
        head.set_label_distribution(LabelDistribution([1, 2, 3]))


def test_another_number_of_bins_is_refused():
    head = SRLHead(3, 4)
    with pytest.raises(ValueError, match='set num_bins=3'):
        head.set_label_distribution(GOLDEN)


def test_bins_too_narrow_for_float32_are_refused():
    head = SRLHead(3, 2)
    bins = LabelBins([1e9, 1e9 + 1, 1e9 + 2])
    with pytest.raises(ValueError, match='subtract an offset'):
        head.set_label_distribution(LabelDistribution([1, 1], bins=bins))


def test_missing_bins_are_named():
    head = SRLHead(3, 3, proj_dim=0)
    head.before_epoch(0, 1)
    with pytest.raises(RuntimeError, match='LabelDistributionHook'):
        head.loss((CENTROIDS,), samples(LABELS))


# --- Numerics ---------------------------------------------------------------
@pytest.mark.parametrize('batch', ['one', 'same bin', 'zeros', 'opposite'])
@pytest.mark.parametrize('remember', [False, True])
@pytest.mark.parametrize('points', ['fixed', 'span'])
def test_nothing_is_infinite(batch, remember, points):
    head = golden_head(points=points)
    if remember:
        head.trace.surrogate.centroids.copy_(CENTROIDS)
        head.trace.surrogate.seen.fill_(True)
    x, target = {
        'one': (CENTROIDS[:1], LABELS[:1]),
        'same bin': (CENTROIDS, LABELS[:1].repeat(3)),
        'zeros': (torch.zeros(2, 3), LABELS[:2]),
        'opposite': (
            torch.cat([CENTROIDS[:1], -CENTROIDS[:1]]),
            LABELS[:1].repeat(2),
        ),
    }[batch]
    x = x.clone().requires_grad_()
    losses = head.loss((x,), samples(target))
    sum(losses.values()).backward()
    assert all(value.isfinite() for value in losses.values())
    assert x.grad.isfinite().all()
    head.after_epoch(1)
    assert head.trace.surrogate.centroids.isfinite().all()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_autocast_changes_nothing(dtype):
    head, x, target = random_case()
    head.projector = nn.Linear(5, 5)
    x = x.to(dtype)
    expected = head.loss((x.float(),), samples(target))
    with torch.autocast('cpu', dtype=dtype):
        losses = head.loss((x,), samples(target))
    for name, value in expected.items():
        assert losses[name].dtype == torch.float32
        assert torch.equal(losses[name], value), name


def test_largest_half_precision_features():
    head = SRLHead(3, 3, proj_dim=4)
    head.set_label_distribution(GOLDEN)
    head.before_epoch(1, 2)
    x = (65504 * torch.ones(3, 3)).half().requires_grad_()
    with torch.autocast('cpu', dtype=torch.float16):
        losses = head.loss((x,), samples(LABELS))
    assert all(value.isfinite() for value in losses.values())


def test_buffers_share_no_memory():
    for options in (dict(), dict(resample='iter'), dict(points='span')):
        head = golden_head(**options)
        head.loss((CENTROIDS,), samples(LABELS))
        head.after_epoch(1)
        tensors = [*head.buffers(), *head.parameters()]
        places = [t.data_ptr() for t in tensors]
        assert len(set(places)) == len(places)


def test_state_dict_round_trip():
    head, x, target = random_case()
    head.loss((x,), samples(target))
    other = SRLHead(5, 7, proj_dim=0, num_points=50, points_seed=4)
    other.load_state_dict(head.state_dict())
    for one in (head, other):
        one.after_epoch(1)
        one.before_epoch(2, 3)
    first, second = (h.loss((x,), samples(target)) for h in (head, other))
    for name in first:
        assert torch.equal(first[name], second[name]), name


def test_no_global_generator_is_touched():
    state = torch.get_rng_state()
    numpy = np.random.get_state()[1].copy()
    for options in (
        dict(resample='iter'),
        dict(resample='epoch', points='span'),
    ):
        head = golden_head(**options)
        head.before_epoch(2, 4)
        fresh = torch.get_rng_state()
        head.loss((CENTROIDS,), samples(LABELS))
        assert torch.equal(torch.get_rng_state(), fresh)
    assert np.array_equal(np.random.get_state()[1], numpy)
    assert len(state) == len(fresh)


# --- Points -----------------------------------------------------------------
def enveloping(head):
    return head.loss((CENTROIDS,), samples(LABELS))['loss_enveloping'].item()


@pytest.mark.parametrize('points', ['fixed', 'span'])
def test_points_that_stay(points):
    head = golden_head(points=points)
    value = enveloping(head)
    head.before_epoch(2, 10)
    assert enveloping(head) == value


@pytest.mark.parametrize('points', ['fixed', 'span'])
def test_points_of_an_epoch(points):
    head = golden_head(points=points, resample='epoch')
    values = []
    for epoch in (1, 1, 2, 3, 2):
        head.before_epoch(epoch, 10)
        values.append((enveloping(head), enveloping(head)))
    assert all(a == b for a, b in values)
    assert values[0] == values[1] and values[2] == values[4]
    assert len(set(values)) == 3


@pytest.mark.parametrize('points', ['fixed', 'span'])
def test_points_of_an_iteration(points):
    head = golden_head(points=points, resample='iter')
    values = [enveloping(head) for _ in range(3)]
    state = copy.deepcopy(head.state_dict())
    values += [enveloping(head) for _ in range(3)]
    assert len(set(values)) == 6
    # Goes on where the checkpoint was written, and starts anew when told.
    head.load_state_dict(state)
    assert [enveloping(head) for _ in range(3)] == values[3:]
    head.reset_epochs()
    head.before_epoch(1, 10)
    assert [enveloping(head) for _ in range(3)] == values[:3]


def test_points_by_default_are_those_of_the_seed():
    head = SRLHead(8, 3, proj_dim=4, num_points=30, points_seed=7)
    assert torch.equal(head.trace.points.points, uniform_points(30, 4, 7))


def test_span_agrees_with_whole_points():
    values = [
        SRLHead(16, 3, lambda_e=1.0, proj_dim=0, num_points=20000, points=kind)
        for kind in ('fixed', 'span')
    ]
    x = uniform_points(3, 16, 5)
    for index, head in enumerate(values):
        head.set_label_distribution(GOLDEN)
        head.before_epoch(1, 2)
        losses = head.loss((x,), samples(LABELS))
        values[index] = losses['loss_enveloping'].item()
    # Five standard errors of a cosine of standard deviation 1/4.
    assert values[0] == pytest.approx(values[1], abs=5 * 0.25 / 20000**0.5)


# --- Options ----------------------------------------------------------------
@pytest.mark.parametrize('name', TERMS)
def test_a_weight_of_zero_leaves_a_term_out(name):
    argument = dict(
        enveloping='lambda_e', homogeneity='lambda_h', contrast='lambda_con'
    )[name]
    losses = golden_head(**{argument: 0.0}).loss((CENTROIDS,), samples(LABELS))
    left = {f'loss_{t}' for t in TERMS if t != name}
    assert {key for key in losses if key.startswith('loss_')} == left


def test_without_any_weight_it_is_a_regressor():
    head = golden_head(lambda_e=0.0, lambda_h=0.0, lambda_con=0.0)
    losses = head.loss((CENTROIDS,), samples(LABELS))
    assert list(losses) == ['loss', 'mae']


def test_presets():
    paper = SRLHead(8, 5)
    assert paper.trace.lambda_e == paper.trace.lambda_h == 0.1
    assert paper.trace.lambda_con == 1.0
    assert paper.trace.temperature == 0.3
    assert paper.loss_module.kind == 'mse' and paper.scale_targets
    assert paper.momentum == 0.9 and paper.warmup_epochs == 1
    assert paper.trace.points.points.shape == (2000, 128)
    code = SRLHead(8, 5, preset='agedb_code')
    assert code.trace.lambda_e == 100 and code.trace.lambda_h == 0.01
    assert code.trace.lambda_con == 10 and code.trace.temperature == 0.3
    assert code.trace.homogeneity['mode'] == 'cos'
    assert code.trace.homogeneity['variance_weight'] == 0.1
    assert code.loss_module.kind == 'l1' and not code.scale_targets


def test_an_argument_wins_over_the_preset():
    head = SRLHead(
        8,
        5,
        preset='agedb_code',
        lambda_e=0.0,
        temperature=0.5,
        loss=dict(type='mmgeom.ErrorLoss', kind='huber'),
        scale_targets=True,
    )
    assert head.trace.lambda_e == 0 and head.trace.lambda_con == 10
    assert head.trace.temperature == 0.5
    assert head.loss_module.kind == 'huber' and head.scale_targets


def test_the_papers_form_with_the_preset_of_the_code():
    head = SRLHead(8, 5, preset='agedb_code', homo_mode='paper')
    assert head.trace.homogeneity['mode'] == 'paper'
    assert head.trace.homogeneity['variance_weight'] == 0
    with pytest.raises(ValueError, match="variance_weight belongs to mode='c"):
        SRLHead(8, 5, preset='agedb_code', homo_mode='paper', homo_var=0.1)


def test_any_regression_loss():
    class Cube(nn.Module):
        def forward(self, pred, target):
            return (pred - target).abs().pow(3).mean()

    head = golden_head(loss=Cube())
    losses = head.loss((CENTROIDS,), samples(LABELS))
    error = head.fc(CENTROIDS)[:, 0] - LABELS
    assert torch.allclose(losses['loss'], error.abs().pow(3).mean())
    assert isinstance(golden_head(loss=ErrorLoss('l1')).loss_module, ErrorLoss)


def test_the_trace_is_in_label_units():
    """Standardised targets change the regression, not the trace."""
    head = golden_head(lambda_h=1.0)
    head.set_target_statistics(torch.tensor([1.5]), torch.tensor([1.2]))
    losses = head.loss((CENTROIDS,), samples(LABELS))
    assert losses['loss_homogeneity'].item() == pytest.approx(1.04, abs=1e-6)
    prediction = head.predict((CENTROIDS,))[0].pred_score
    expected = 1.5 + 1.2 * head.fc(CENTROIDS)[0]
    assert torch.allclose(prediction, expected)


@pytest.mark.parametrize(
    ('options', 'layers'),
    [(dict(), 1), (dict(projector_hidden=6), 3), (dict(proj_dim=0), 0)],
)
def test_projectors(options, layers):
    head = SRLHead(8, 3, **{'proj_dim': 4, **options})
    assert len(list(head.projector.children())) == layers
    z = head.project(torch.randn(5, 8))
    assert z.shape == (5, 4 if layers else 8)
    assert torch.allclose(z.norm(dim=1), torch.ones(5))


def test_projector_does_not_start_as_the_regression_does():
    head = SRLHead(64, 3)
    head.init_weights()
    uniform = 1 / (3 * 64) ** 0.5
    deviation = head.projector[0].weight.std().item()
    assert deviation == pytest.approx(uniform, rel=0.1)
    assert head.fc.weight.std().item() == pytest.approx(0.01, rel=0.4)


def test_is_registered():
    head = MODELS.build(dict(type='mmgeom.SRLHead', in_channels=8, num_bins=3))
    assert isinstance(head, SRLHead)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(num_targets=2), 'one-dimensional labels'),
        (dict(num_bins=1), 'num_bins of at least 2, got 1'),
        (dict(preset='age'), "preset must be one of .* got 'age'"),
        (
            dict(lambda_e=-1.0),
            'lambda_e must not be negative or infinite, got -1.0',
        ),
        (dict(lambda_h=float('inf')), 'lambda_h must not be negative'),
        (dict(lambda_con=float('nan')), 'lambda_con must not be negative'),
        (dict(temperature=0.0), 'temperature must be positive, got 0.0'),
        (dict(num_points=0), 'positive num_points, got 0'),
        (dict(points_seed=-1), 'seed of the points must not be negative'),
        (dict(resample='always'), "'never', 'epoch' or 'iter', got 'always'"),
        (dict(points='some'), "'fixed' or 'span', got 'some'"),
        (dict(momentum=1.5), r'in \[0, 1\], got 1.5'),
        (dict(warmup_epochs=-1), 'warmup_epochs must not be negative'),
        (dict(homo_mode='arc'), "'paper' or 'cos', got 'arc'"),
        (dict(homo_var=0.1), "variance_weight belongs to mode='cos'"),
        (dict(homo_mode='cos', homo_var=-0.1), 'homo_var must not be neg'),
        (
            dict(homo_mode='cos', homo_normalize=True),
            "normalize=True needs mode='paper'",
        ),
        (dict(proj_dim=-1), r'0 \(no projection\) or positive, got -1'),
        (dict(projector_hidden=0), 'projector_hidden must be positive'),
        (dict(projector_hidden=4, proj_dim=0), 'needs proj_dim > 0'),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        SRLHead(**{'in_channels': 8, 'num_bins': 3, **options})
