# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import math

import pytest
import torch
from torch import distributed as dist
from torch.multiprocessing import spawn

from mmgeom.geometry.class_statistics import (
    BIN_WIDTH,
    ClassStatistics,
    angle_between,
)
from mmgeom.geometry.feature_bank import pieces
from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.segments import (
    histogram_quantile,
    segment_mean_std,
    segment_quantile,
)

# A feature of unit length in half precision is off by about this.
HALF = 1e-3
STORES = ['exact', 'stream']
NAMES = ['mean', 'angle', 'angle_mean', 'angle_std', 'valid', 'num_updates']

HEAD_A = [(1, 0, 0), (1, 0.5, 0), (1, 0, 0.5), (1, -0.2, 0.1)]
HEAD_B = [(0, 1, 0), (0.3, 1, 0), (0, 1, 0.4)]
TAIL = [(0.5, 0.6, 0.2), (0.6, 0.5, 0.1)]
GOLDEN_MEAN = [
    (0.941188613737, 0.063008395228, 0.136200900699),
    (0.095782628522, 0.962100992035, 0.123796892118),
    (0.691087217474, 0.689604521268, 0.187534798089),
]
GOLDEN_ANGLE = [0.417796870977, 0.269845596720, 0.108261165628]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def clusters(numbers, dim=6, spread=0.4, seed=0):
    """Unit features around the axes, shuffled."""
    labels = torch.arange(len(numbers)).repeat_interleave(
        torch.tensor(numbers)
    )
    noise = torch.randn(len(labels), dim, generator=generator(seed))
    features = torch.eye(len(numbers), dim)[labels] + spread * noise
    order = torch.randperm(len(labels), generator=generator(seed + 1))
    return unit_vectors(features)[order], labels[order]


def slow_statistics(features, labels, num_classes, alpha=0.99):
    """Plain loop over classes in float64."""
    rows = []
    for k in range(num_classes):
        own = unit_vectors(features[labels == k].double())
        mean = own.mean(0)
        angles = (own @ (mean / mean.norm())).clamp(-1, 1).acos()
        quantile = torch.quantile(angles, alpha)
        deviation = angles.std(correction=0)
        rows.append([*mean, quantile, angles.mean(), deviation])
    table = torch.tensor(rows)
    return table[:, :-3], *table[:, -3:].unbind(1)


def assert_close(statistics, expected, atol):
    for name, value in zip(NAMES, expected, strict=False):
        own = getattr(statistics, name)
        torch.testing.assert_close(own, value.float(), atol=atol, rtol=0)


def collected(features, labels, num_classes, epochs=1, **options):
    statistics = ClassStatistics(num_classes, features.shape[1], **options)
    for _ in range(epochs):
        for some in torch.arange(len(features)).split(7):
            statistics.accumulate(features[some], labels[some])
        statistics.update()
    return statistics


# Segments.


@pytest.mark.parametrize('dtype', [torch.float64, torch.float32])
@pytest.mark.parametrize('alpha', [0.01, 0.5, 0.9, 0.99, 1.0])
def test_segment_quantile_is_that_of_each_segment(alpha, dtype):
    values = torch.randn(300, generator=generator(), dtype=dtype)
    segments = torch.randint(0, 9, (300,), generator=generator(1))
    segments[segments == 4] = 5
    segments[0], segments[segments == 7] = 4, 8
    segments[1] = 4
    result = segment_quantile(values, segments, 10, alpha)
    assert result.dtype == dtype
    eps = 1e-15 if dtype == torch.float64 else 1e-6
    for k in range(10):
        own = values[segments == k]
        if k in (7, 9):
            assert len(own) == 0 == result[k]
            continue
        expected = torch.quantile(own, alpha)
        torch.testing.assert_close(result[k], expected, atol=eps, rtol=eps)


def test_segment_moments():
    values = torch.randn(50, generator=generator()).double() + 1e3
    segments = torch.randint(0, 4, (50,), generator=generator(1))
    segments[7] = 4
    mean, std = segment_mean_std(values, segments, 6)
    for k in range(5):
        own = values[segments == k]
        torch.testing.assert_close(mean[k], own.mean())
        torch.testing.assert_close(std[k], own.std(correction=0))
    assert std[4] == 0 == mean[5] == std[5]


def test_no_value_at_all():
    nothing = torch.zeros(0), torch.zeros(0, dtype=torch.long), 3
    assert segment_quantile(*nothing, 0.5).tolist() == [0, 0, 0]
    assert segment_mean_std(*nothing)[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize('alpha', [0.01, 0.5, 0.99, 1.0])
def test_histogram_quantile_is_exact_to_one_bin(alpha):
    # Few values, far apart, are what simpler interpolations get wrong.
    for number in (1, 2, 3, 40):
        values = torch.rand(number, generator=generator(number)).double()
        histogram = torch.histc(values, 20, 0, 1)[None]
        result = histogram_quantile(histogram, 1 / 20, alpha)
        assert (result - torch.quantile(values, alpha)).abs() < 1 / 20
    assert histogram_quantile(torch.zeros(1, 20), 1 / 20, alpha) == 0


@pytest.mark.parametrize('alpha', [0.0, 1.01, -1.0, math.nan])
def test_level_out_of_range(alpha):
    segments = torch.zeros(2, dtype=torch.long)
    message = r'alpha is the level of a quantile and must lie in \(0, 1\]'
    with pytest.raises(ValueError, match=message):
        segment_quantile(torch.zeros(2), segments, 1, alpha)
    with pytest.raises(ValueError, match=message):
        ClassStatistics(2, 3, alpha=alpha)


def test_wrong_segments():
    zeros = torch.zeros(2, dtype=torch.long)
    with pytest.raises(ValueError, match=r'must both have shape \(N,\)'):
        segment_quantile(torch.zeros(3), zeros, 1, 0.5)
    with pytest.raises(ValueError, match='num_segments must be positive'):
        segment_quantile(torch.zeros(2), zeros, 0, 0.5)
    with pytest.raises(ValueError, match=r'in \[0, 2\), got 0 to 2'):
        segment_mean_std(torch.zeros(2), torch.tensor([0, 2]), 2)


# Angles.


def test_small_and_large_angles():
    angle = torch.tensor([0, 1e-6, 1e-4, 0.3, 1.5, 3.1, math.pi])
    zeros = torch.zeros_like(angle)
    rows = torch.stack([angle.cos(), angle.sin(), zeros], 1)
    axis = torch.tensor([1.0, 0, 0]).expand_as(rows)
    torch.testing.assert_close(
        angle_between(rows, axis), angle, atol=5e-7, rtol=1e-6
    )


# Statistics.


def test_golden_fixture_in_double_precision():
    features = torch.tensor(HEAD_A + HEAD_B + TAIL, dtype=torch.float64)
    features = unit_vectors(features)
    labels = torch.tensor([0] * 4 + [1] * 3 + [2] * 2)
    mean = torch.stack([features[labels == k].mean(0) for k in range(3)])
    expected = torch.tensor(GOLDEN_MEAN, dtype=torch.float64)
    torch.testing.assert_close(mean, expected, atol=1e-11, rtol=0)
    angles = angle_between(features, unit_vectors(mean)[labels])
    quantile = segment_quantile(angles, labels, 3, 0.99)
    expected = torch.tensor(GOLDEN_ANGLE, dtype=torch.float64)
    torch.testing.assert_close(quantile, expected, atol=1e-11, rtol=0)


def test_golden_fixture():
    features = torch.tensor(HEAD_A + HEAD_B + TAIL)
    labels = torch.tensor([0] * 4 + [1] * 3 + [2] * 2)
    statistics = collected(features, labels, 3)
    expected = torch.tensor(GOLDEN_MEAN), torch.tensor(GOLDEN_ANGLE)
    assert_close(statistics, expected, HALF)
    assert statistics.valid.all()


@pytest.mark.parametrize('alpha', [0.3, 0.99, 1.0])
def test_exact_statistics_equal_a_plain_loop(alpha):
    features, labels = clusters([40, 1, 13, 2, 7])
    statistics = collected(features, labels, 5, alpha=alpha)
    expected = slow_statistics(features, labels, 5, alpha)
    assert_close(statistics, expected, HALF)
    # What a class of one sample says does not depend on its rounding.
    assert statistics.angle[1] < 1e-6
    assert statistics.angle_std[1] == 0
    assert statistics.mean.norm(dim=1).max() <= 1 + 1e-6
    assert statistics.num_updates == 1


def test_features_that_half_precision_holds_lose_nothing():
    # Four coordinates of plus or minus one half.
    places = torch.rand(60, 6, generator=generator()).argsort(1)[:, :4]
    signs = torch.rand(60, 4, generator=generator(1)) < 0.2
    features = torch.zeros(60, 6).scatter(1, places, 0.5 - signs.float())
    labels = torch.arange(60) % 3
    statistics = collected(features, labels, 3)
    expected = slow_statistics(features, labels, 3)
    assert_close(statistics, expected, 1e-6)


@pytest.mark.parametrize('alpha', [0.3, 0.99, 1.0])
def test_stream_statistics_are_exact_to_one_bin(alpha):
    features, labels = clusters([40, 1, 13, 2, 7])
    stream = collected(
        features, labels, 5, epochs=2, store='stream', alpha=alpha
    )
    mean, angle, *moments = slow_statistics(features, labels, 5, alpha)
    torch.testing.assert_close(stream.mean, mean.float())
    torch.testing.assert_close(stream.angle_mean, moments[0].float())
    torch.testing.assert_close(
        stream.angle_std, moments[1].float(), atol=1e-4, rtol=1e-4
    )
    error = (stream.angle - angle).abs()
    assert error.max() < BIN_WIDTH
    # Moments bound the quantile of few samples better than bins do.
    assert error[1] < 1e-4


def test_stream_is_valid_one_epoch_after_the_first():
    features, labels = clusters([9, 5])
    statistics = ClassStatistics(3, 6, store='stream')
    first = labels == 0
    valid = []
    for some in (first, ~first, labels >= 0, first):
        statistics.accumulate(features[some], labels[some])
        statistics.update()
        valid.append(statistics.valid.tolist())
    no, yes = False, True
    assert valid[:2] == [[no, no, no], [no, no, no]]
    assert valid[2:] == [[yes, yes, no], [yes, yes, no]]
    assert statistics.num_updates == 4


def test_stream_measures_wide_angles_as_a_right_one():
    axis = torch.eye(2)
    statistics = ClassStatistics(1, 2, store='stream')
    zeros = torch.zeros(1, dtype=torch.long)
    statistics.accumulate(axis[:1], zeros)
    statistics.update()
    for row in (axis[0], -axis[0], axis[1]):
        statistics.accumulate(row[None], zeros)
    statistics.update()
    assert abs(statistics.angle - math.pi / 2) < BIN_WIDTH
    torch.testing.assert_close(
        statistics.angle_mean, torch.tensor([math.pi / 2])
    )


@pytest.mark.parametrize('store', STORES)
def test_absent_classes_keep_what_they_have(store):
    features, labels = clusters([9, 5, 4])
    statistics = collected(features, labels, 4, 2, store=store)
    old = copy.deepcopy(statistics)
    features, labels = clusters([9, 5, 4], seed=5)
    some = labels == 1
    statistics.accumulate(features[some], labels[some])
    statistics.update()
    for name in NAMES[:5]:
        before, after = getattr(old, name), getattr(statistics, name)
        assert torch.equal(before[[0, 2, 3]], after[[0, 2, 3]]), name
        assert name == 'valid' or not torch.equal(before[1], after[1]), name
    assert statistics.valid.tolist() == [True, True, True, False]


@pytest.mark.parametrize('store', STORES)
def test_an_epoch_without_samples_changes_nothing(store):
    features, labels = clusters([9, 5])
    statistics = collected(features, labels, 2, 2, store=store)
    before = copy.deepcopy(statistics.state_dict())
    statistics.accumulate(features[:0], labels[:0])
    statistics.update()
    for name, value in statistics.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize('store', STORES)
@pytest.mark.parametrize('momentum', [0.0, 0.3, 0.9, 1.0])
def test_momentum_is_the_weight_of_the_old(momentum, store):
    features, labels = clusters([9, 5])
    new = clusters([7, 6, 4], seed=3)
    statistics = ClassStatistics(3, 6, store=store, momentum=momentum)
    plain = ClassStatistics(3, 6, store=store)
    for module in (statistics, plain):
        for _ in range(2):
            module.accumulate(features, labels)
            module.update()
    old = copy.deepcopy(plain)
    for module in (statistics, plain):
        module.accumulate(*new)
        module.update()
    for name in NAMES[:4]:
        before, after = getattr(old, name), getattr(plain, name)
        expected = momentum * before + (1 - momentum) * after
        # The third class is new.
        expected[2] = after[2]
        torch.testing.assert_close(
            getattr(statistics, name), expected, atol=1e-6, rtol=1e-6
        )


@pytest.mark.parametrize('store', STORES)
def test_rows_without_direction_are_left_out(store):
    features, labels = clusters([9, 5])
    bad = torch.zeros(4, 6)
    bad[1, 2], bad[2, 0] = math.nan, math.inf
    bad[3] = 1e-20
    mixed = torch.cat([bad, features * 5])
    classes = torch.cat([torch.tensor([0, 1, 2, 0]), labels])
    statistics = collected(mixed, classes, 3, 2, store=store)
    expected = collected(features, labels, 3, 2, store=store)
    assert statistics.valid.tolist() == [True, True, False]
    for name in NAMES:
        torch.testing.assert_close(
            getattr(statistics, name), getattr(expected, name)
        )


@pytest.mark.parametrize('store', STORES)
def test_a_mean_of_zero_is_not_valid(store):
    features = torch.eye(3)[[0, 0, 1, 1]]
    opposite = features * torch.tensor([[1], [-1], [1], [1]])
    labels = torch.tensor([0, 0, 1, 1])
    statistics = collected(features, labels, 2, 2, store=store, momentum=0.5)
    assert statistics.valid.all()
    statistics.accumulate(opposite, labels)
    statistics.update()
    assert statistics.valid.tolist() == [False, True]
    assert not statistics.mean[0].any()
    assert statistics.angle[0] == 0
    for _ in range(2):
        statistics.accumulate(features, labels)
        statistics.update()
    assert statistics.valid.all()
    torch.testing.assert_close(statistics.mean[0], features[0])


def test_old_and_new_means_that_cancel():
    statistics = ClassStatistics(1, 2, momentum=0.5)
    labels = torch.zeros(1, dtype=torch.long)
    for sign in (1.0, -1.0):
        statistics.accumulate(torch.tensor([[sign, 0.0]]), labels)
        statistics.update()
    assert not statistics.valid.any()
    assert torch.isfinite(statistics.angle).all()


@pytest.mark.parametrize('store', STORES)
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_under_autocast(store, dtype):
    features, labels = clusters([9, 5])
    features = (features * 1000).to(dtype)
    with torch.autocast('cpu', torch.bfloat16):
        half = collected(features, labels, 2, 2, store=store)
    full = collected(features.float(), labels, 2, 2, store=store)
    for name in NAMES:
        assert torch.equal(getattr(half, name), getattr(full, name)), name


@pytest.mark.parametrize('store', STORES)
def test_classes_may_be_renumbered(store):
    features, labels = clusters([9, 5, 1, 12])
    order = torch.tensor([2, 0, 3, 1])
    plain = collected(features, labels, 4, 2, store=store)
    other = collected(features, order[labels], 4, 2, store=store)
    for name in NAMES[:5]:
        torch.testing.assert_close(
            getattr(other, name)[order], getattr(plain, name)
        )


def stored_pieces(statistics):
    batches = (rows for rows, _ in statistics._bank._batches)
    return pieces(batches, statistics.mean.shape[1], torch.device('cpu'))


def test_large_banks_are_read_in_pieces(monkeypatch):
    features, labels = clusters([40, 1, 13])
    whole = ClassStatistics(3, 6)
    whole.accumulate(features, labels)
    whole.update()
    monkeypatch.setattr('mmgeom.geometry.feature_bank._MAX_ENTRIES', 30)
    parts = ClassStatistics(3, 6)
    parts.accumulate(features, labels)
    sizes = [len(rows) for rows in stored_pieces(parts)]
    assert max(sizes) == 5
    assert sum(sizes) == 54
    parts.update()
    assert_close(parts, [getattr(whole, name) for name in NAMES[:4]], 1e-6)


def test_pieces_hold_small_batches_together(monkeypatch):
    monkeypatch.setattr('mmgeom.geometry.feature_bank._MAX_ENTRIES', 60)
    features, labels = clusters([40, 1, 13])
    statistics = ClassStatistics(3, 6)
    for some in torch.arange(54).split(4):
        statistics.accumulate(features[some], labels[some])
    start = 0
    for rows in stored_pieces(statistics):
        # Two of four fit into ten.
        assert len(rows) == min(8, 54 - start)
        own = slice(start, start + len(rows))
        torch.testing.assert_close(rows, features[own], atol=HALF, rtol=0)
        start += len(rows)
    assert start == 54


def test_wide_angles():
    features = torch.eye(3)[[0, 0, 0, 1, 2]]
    features[4] = -features[0]
    labels = torch.zeros(5, dtype=torch.int64)
    expected = slow_statistics(features, labels, 1, alpha=1.0)
    assert expected[1] > 2.5
    statistics = collected(features, labels, 1, alpha=1.0)
    assert_close(statistics, expected, 1e-6)


@pytest.mark.parametrize('spread', [1e-4, 1e-2, 0.2])
def test_near_and_far_features_have_exact_angles(spread):
    # What is stored, in double precision, is what angles are of.
    features, labels = clusters([30, 2, 1, 20], dim=64, spread=spread / 8)
    statistics = ClassStatistics(4, 64, alpha=1.0)
    for some in torch.arange(53).split(9):
        statistics.accumulate(features[some], labels[some])
    stored = torch.cat([rows for rows, _ in statistics._bank._batches])
    statistics.update()
    expected = slow_chords(stored.double(), labels, 4)
    torch.testing.assert_close(
        statistics.angle, expected.float(), atol=1e-5, rtol=0
    )
    assert statistics.angle[2] == 0


def slow_chords(features, labels, num_classes):
    """Largest angle of each class, by chords."""
    result = []
    for k in range(num_classes):
        own = unit_vectors(features[labels == k])
        mean = unit_vectors(own.mean(0))
        result.append(2 * ((own - mean).norm(dim=1).max() / 2).asin())
    return torch.stack(result)


def test_memory_that_holds_no_numbers_is_not_read(monkeypatch):
    features, labels = clusters([40, 1, 13])
    expected = collected(features, labels, 3)
    empty = torch.empty

    def no_numbers(*args, **options):
        return empty(*args, **options).fill_(math.nan)

    monkeypatch.setattr('torch.empty', no_numbers)
    statistics = collected(features, labels, 3)
    for name in NAMES:
        own, other = getattr(statistics, name), getattr(expected, name)
        assert torch.equal(own, other), name


def test_measuring_angles_warns_of_nothing(recwarn):
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        collected(*clusters([9, 5]), 2)
    finally:
        torch.set_warn_always(before)
    assert not recwarn.list


def test_features_are_kept_in_half_precision_without_graph():
    statistics = ClassStatistics(2, 6)
    features, labels = clusters([9, 5])
    statistics.accumulate(features.requires_grad_(), labels)
    ((rows, _),) = statistics._bank._batches
    assert rows.dtype == torch.float16
    assert not rows.requires_grad
    assert set(statistics.state_dict()) == set(NAMES)


@pytest.mark.parametrize('store', STORES)
def test_state_dict_round_trip(store):
    features, labels = clusters([9, 5])
    statistics = collected(features, labels, 2, 2, store=store)
    if store == 'stream':
        # In the middle of an epoch.
        statistics.accumulate(features, labels)
    other = ClassStatistics(2, 6, store=store)
    other.load_state_dict(copy.deepcopy(statistics.state_dict()))
    if store == 'exact':
        statistics.accumulate(features, labels)
        other.accumulate(features, labels)
    for module in (statistics, other):
        module.accumulate(*clusters([3, 8], seed=2))
        module.update()
    for name, value in statistics.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert other.num_updates == 3


@pytest.mark.parametrize('store', STORES)
def test_clear_and_reset(store):
    features, labels = clusters([9, 5])
    statistics = collected(features, labels, 2, 2, store=store)
    before = copy.deepcopy(statistics.state_dict())
    statistics.accumulate(*clusters([3, 8], seed=2))
    statistics.clear()
    statistics.update()
    for name, value in statistics.state_dict().items():
        assert torch.equal(value, before[name]), name
    statistics.accumulate(features, labels)
    statistics.reset()
    statistics.update()
    assert not any(value.any() for value in statistics.buffers())


def test_wrong_arguments():
    with pytest.raises(ValueError, match='must be positive, got 0 and 3'):
        ClassStatistics(0, 3)
    with pytest.raises(ValueError, match="'exact' or 'stream', got 'bank'"):
        ClassStatistics(2, 3, store='bank')
    with pytest.raises(ValueError, match=r'must lie in \[0, 1\], got 1.5'):
        ClassStatistics(2, 3, momentum=1.5)


def test_wrong_features():
    statistics = ClassStatistics(2, 3)
    rows = torch.eye(3)
    labels = torch.tensor([0, 1, 1])
    with pytest.raises(ValueError, match=r'shape \(B, 3\), got \(3, 2\)'):
        statistics.accumulate(rows[:, :2], labels)
    with pytest.raises(ValueError, match='3 integer classes'):
        statistics.accumulate(rows, labels[:2])
    with pytest.raises(ValueError, match='soft and mixed labels'):
        statistics.accumulate(rows, labels.float())
    with pytest.raises(ValueError, match=r'in \[0, 2\), got 0 to 2'):
        statistics.accumulate(rows, torch.arange(3))


# Two processes.


def epochs():
    """Features of four epochs, with the rows of each of two ranks."""
    first = clusters([11, 4, 6])
    second = clusters([5, 0, 3], seed=4)
    rows = torch.arange(21)
    # A class on one rank only, and numbers that differ.
    own = (first[1] == 1) | (rows % 3 == 0)
    none = torch.zeros(8, dtype=torch.bool)
    return [
        (first, [own, ~own]),
        (second, [none, ~none]),
        (second, [none, none]),
        (first, [~own, own]),
    ]


def run_epochs(store, rank=None):
    statistics = ClassStatistics(4, 6, store=store, momentum=0.2)
    for (features, labels), owners in epochs():
        mine = owners[0] | owners[1] if rank is None else owners[rank]
        for some in mine.nonzero()[:, 0].split(5):
            statistics.accumulate(features[some], labels[some])
        statistics.update()
    return statistics.state_dict()


def run_rank(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2
    )
    results = {store: run_epochs(store, rank) for store in STORES}
    torch.save(results, f'{folder}/rank{rank}.pth')
    dist.barrier()
    dist.destroy_process_group()


def test_two_ranks_equal_one_process(tmp_path):
    spawn(run_rank, args=(str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f'rank{rank}.pth') for rank in (0, 1)]
    for store in STORES:
        expected = run_epochs(store)
        assert expected['valid'].tolist() == [True, True, True, False]
        for name, value in expected.items():
            first, second = (result[store][name] for result in ranks)
            assert torch.equal(first, second), name
            torch.testing.assert_close(first, value, atol=1e-6, rtol=1e-6)
