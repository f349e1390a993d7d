# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math

import pytest
import torch

from mmgeom.geometry.class_means import class_means, separating_axes
from mmgeom.geometry.collapse import nc1, nc2, nc3, nc4, second_pass
from mmgeom.geometry.collapse_centers import (
    center_distance,
    class_mean_gram,
    cosine_statistics,
    variability,
)
from mmgeom.geometry.collapse_statistics import CollapseStatistics
from mmgeom.geometry.frames import MultiCenterFrame
from mmgeom.geometry.orthonormal import orthonormal_rows, simplex_etf

COUNTS = [30, 12, 5, 1]


def gaussian(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def data(counts=COUNTS, dim=7, seed=0, absent=()):
    """Random features of unequal classes, shuffled; labels may be absent."""
    names = [k for k in range(len(counts) + len(absent)) if k not in absent]
    labels = torch.tensor(names).repeat_interleave(torch.tensor(counts))
    generator = torch.Generator().manual_seed(seed)
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centers = gaussian(len(counts) + len(absent), dim, seed=seed + 1)
    noise = gaussian(len(labels), dim, seed=seed + 2)
    return centers[labels] + 0.3 * noise + 0.5, labels


def slow_means(features, labels):
    present = sorted(set(labels.tolist()))
    rows = []
    for k in present:
        own = [features[i] for i in range(len(labels)) if labels[i] == k]
        rows.append(sum(own) / len(own))
    return torch.stack(rows), present


def slow_metrics(features, labels, directions, centers, pred, target):
    """The definitions, sample by sample, with a full pseudo-inverse."""
    means, present = slow_means(features, labels)
    number, total = len(present), len(labels)
    middle = sum(means) / number
    within = between = 0
    for h, y in zip(features, labels.tolist()):
        r = h - means[present.index(y)]
        within = within + torch.outer(r, r) / total
    for m in means:
        between = between + torch.outer(m - middle, m - middle) / number
    inverse = torch.linalg.pinv(between, rtol=1e-9, hermitian=True)
    rows = means - middle if target == 'simplex' else means
    eye = torch.eye(number, dtype=torch.float64)
    ideal = (
        (eye - 1 / number) / math.sqrt(number - 1)
        if target == 'simplex'
        else eye / math.sqrt(number)
    )
    gram = rows @ rows.T
    weight = directions[present]
    differ, angles, squares, elements = 0, [], [], []
    for h, y, p in zip(features, labels.tolist(), pred.tolist()):
        distance = [(h - m).norm().item() for m in means]
        differ += present[distance.index(min(distance))] != p
        unit = h / h.norm() if h.any() else h
        w, c = directions[y], centers[y]
        angles.append(1 - float(unit @ w / w.norm()))
        gap = unit - c / c.norm()
        squares.append(float(gap @ gap))
        elements += gap.tolist()

    def spread(values):
        mean = sum(values) / len(values)
        return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))

    return {
        'nc1': float((within @ inverse).trace()) / number,
        'nc2': float((gram / gram.norm() - ideal).norm()),
        'nc3': float((weight / weight.norm() - rows / rows.norm()).norm()),
        'nc4': differ / total,
        'variability': sum(angles) / total,
        'center_distance_mean': sum(squares) / total,
        'center_distance_std': spread(squares),
        'center_element_mean': sum(elements) / len(elements),
        'center_element_std': spread(elements),
    }


def all_at_once(features, labels, directions, centers, pred, target):
    means = class_means(features, labels)
    distance = center_distance(features, labels, centers)
    return {
        'nc1': nc1(features, labels),
        'nc2': nc2(means.mean, target),
        'nc3': nc3(means.mean, directions[means.label], target),
        'nc4': nc4(features, labels, pred),
        'variability': variability(features, labels, directions),
        'center_distance_mean': distance.mean,
        'center_distance_std': distance.std,
        'center_element_mean': distance.element_mean,
        'center_element_std': distance.element_std,
    }


CASES = {
    'unequal': data(),
    'wide': data(dim=40),
    'narrow': data([9, 8, 7, 6, 5, 4], dim=3),
    'two classes': data([20, 3], dim=5),
    'absent class': data([20, 10, 4], absent=(0, 3)),
    'only single samples': data([1, 1, 1, 1]),
    'one dimension': data([4, 5], dim=1),
}


@pytest.fixture(params=CASES, name='case')
def _case(request):
    """Features, labels, class vectors, centres and predictions."""
    features, labels = CASES[request.param]
    number, dim = int(labels.max()) + 2, features.shape[1]
    directions = gaussian(number, dim, seed=8)
    centers = gaussian(number, dim, seed=9)
    pred = (features @ directions.T).argmax(1)
    return features, labels, directions, centers, pred


def close(expected, tolerance=1e-10):
    return pytest.approx(expected, rel=tolerance, abs=tolerance)


class TestDefinitions:
    @pytest.mark.parametrize('target', ['simplex', 'orthogonal'])
    def test_slow_reference(self, case, target):
        result = all_at_once(*case, target)
        assert result == close(slow_metrics(*case, target))
        assert all(type(value) is float for value in result.values())

    def test_zero_features(self, case):
        features, *others = case
        features = features.clone()
        features[::3] = 0
        result = all_at_once(features, *others, 'orthogonal')
        assert result == close(slow_metrics(features, *others, 'orthogonal'))

    def test_order_of_samples_and_classes(self, case):
        features, labels, directions, centers, pred = case
        order = torch.randperm(
            len(labels), generator=torch.Generator().manual_seed(1)
        )
        names = torch.randperm(
            len(directions), generator=torch.Generator().manual_seed(2)
        )
        back = names.argsort()
        permuted = all_at_once(
            features[order],
            names[labels[order]],
            directions[back],
            centers[back],
            names[pred[order]],
            'simplex',
        )
        assert permuted == close(all_at_once(*case, 'simplex'))

    def test_float32_and_half(self, case):
        features, labels, *_ = case
        half = features.half()
        assert nc1(half, labels) == nc1(half.double(), labels)
        single = features.float()
        assert nc1(single, labels) == nc1(single.double(), labels)

    def test_nc1_of_isotropic_noise(self):
        # Simplex of K unit vectors, noise of variance s^2 in each dimension.
        labels = torch.arange(4).repeat_interleave(20_000)
        simplex = simplex_etf(4, 6, 0, torch.float64)
        features = 3 * simplex[labels] + 0.3 * gaussian(80_000, 6)
        assert nc1(features, labels) == pytest.approx(0.01 * 9 / 4, rel=0.02)

    @pytest.mark.parametrize('number, dim', [(4, 4), (10, 64), (100, 128)])
    def test_geometries(self, number, dim):
        simplex = simplex_etf(number, dim, 0, torch.float64)
        frame = orthonormal_rows(number, dim, 0, torch.float64)
        assert nc2(5 * simplex) < 1e-13
        assert nc2(5 * frame, 'orthogonal') < 1e-13
        # Centred orthonormal vectors are a simplex, but not the reverse.
        assert nc2(frame) < 1e-13
        assert nc2(simplex, 'orthogonal') > 0.9 / number
        gram = class_mean_gram(simplex)
        eye = torch.eye(number, dtype=torch.float64)
        ideal = (number * eye - 1) / (number - 1)
        assert (gram - ideal).abs().max() < 1e-13
        gram = class_mean_gram(2 * frame, 'orthogonal')
        assert (gram - eye).abs().max() < 1e-13

    def test_two_classes_are_always_a_simplex(self):
        assert nc2(gaussian(2, 5)) < 1e-14

    def test_separating_axes(self):
        means = gaussian(5, 9)
        centered = means - means.mean(0)
        between = centered.T @ centered / 5
        inverse = torch.linalg.pinv(between, rtol=1e-9, hermitian=True)
        axes = separating_axes(means)
        assert axes.shape == (9, 4)
        assert (axes @ axes.T - inverse / 5).abs().max() < 1e-10

    def test_prediction_of_an_absent_class_disagrees(self):
        features = torch.tensor([[0.0, 0], [0, 1], [4, 4], [4, 5]])
        labels = torch.tensor([0, 0, 1, 1])
        assert nc4(features, labels, torch.tensor([0, 0, 1, 2])) == 0.25
        scores = torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1]])
        assert nc4(features, labels, scores) == 0.25


class TestCollapse:
    """Check 25: collapsed features, with and without noise of 1e-6."""

    @pytest.mark.parametrize('noise, small', [(0, 1e-14), (1e-6, 1e-11)])
    @pytest.mark.parametrize('counts', [[20] * 4, COUNTS])
    def test_simplex(self, noise, small, counts):
        labels = torch.arange(4).repeat_interleave(torch.tensor(counts))
        simplex = simplex_etf(4, 6, 0, torch.float64)
        features = 2 * simplex[labels] + noise * gaussian(len(labels), 6)
        means = class_means(features, labels)
        assert 0 <= nc1(features, labels) < small
        assert nc2(means.mean) < 2 * math.sqrt(small)
        assert nc3(means.mean, 7 * simplex) < 2 * math.sqrt(small)
        assert nc4(features, labels, features @ simplex.T) == 0
        result = cosine_statistics(means.mean, simplex)
        tolerance = 4 * math.sqrt(small)
        for name in ('hh', 'ww', 'hw'):
            assert result[f'cos_{name}_mean'] == pytest.approx(
                -1 / 3, abs=tolerance
            )
            assert result[f'cos_{name}_std'] < tolerance
        assert result['cos_own_mean'] == pytest.approx(1, abs=tolerance)
        assert result['cos_own_std'] < tolerance

    def test_multiple_centers(self):
        frame = MultiCenterFrame(3, 60, 70, theta=0.2)
        frame.set_centers([20, 20, 20])
        directions, _ = frame.dense_basis()
        centers = frame.mean_centers()
        labels = torch.arange(3).repeat_interleave(torch.tensor([9, 4, 1]))
        features = 0.7 * centers[labels]
        means = class_means(features, labels).mean
        assert variability(features, labels, directions) == pytest.approx(
            0.3283598, abs=1e-6
        )
        assert center_distance(features, labels, centers).mean < 1e-12
        assert nc1(features, labels) < 1e-12
        assert nc2(means, 'orthogonal') < 1e-6
        assert nc3(means, centers, 'orthogonal') < 1e-6
        # The class directions are another geometry than the mean centres.
        assert nc3(means, directions, 'orthogonal') == pytest.approx(
            math.sqrt(2 * 0.3283598), abs=1e-6
        )
        assert nc4(features, labels, frame.class_scores(features)) == 0

    def test_unequal_centers(self):
        frame = MultiCenterFrame(3, 26, 30, theta=0.2)
        frame.set_centers([1, 5, 20])
        directions, _ = frame.dense_basis()
        labels = torch.tensor([0, 0, 1, 2])
        features = frame.mean_centers()[labels]
        expected = 1 - frame.cos_rho()[labels].mean().item()
        assert variability(features, labels, directions) == pytest.approx(
            expected, abs=1e-6
        )


def test_cosines_by_hand():
    means = torch.tensor([[2.0, 0], [0, 3], [-1, 0]])
    directions = torch.tensor([[1.0, 1], [0, 5], [0, 0]])
    result = cosine_statistics(means, directions, 'orthogonal')
    root = math.sqrt(0.5)
    hw = [0, 0, root, 0, -root, 0]  # h0w1 h0w2 h1w0 h1w2 h2w0 h2w1
    assert result['cos_hh_mean'] == pytest.approx((0 - 1 + 0) / 3)
    assert result['cos_hh_std'] == pytest.approx(math.sqrt(2) / 3)
    assert result['cos_ww_mean'] == pytest.approx(root / 3)
    assert result['cos_hw_mean'] == pytest.approx(sum(hw) / 6, abs=1e-15)
    assert result['cos_hw_std'] == pytest.approx(
        math.sqrt(sum(v * v for v in hw) / 6)
    )
    own = torch.tensor([root, 1.0, 0.0])
    assert result['cos_own_mean'] == pytest.approx(own.mean().item())
    assert result['cos_own_std'] == pytest.approx(own.std(correction=0).item())
    assert set(cosine_statistics(means)) == {'cos_hh_mean', 'cos_hh_std'}


def statistics_of(case, parts, order, max_scatter_dim=4096):
    """Statistics of parts of the data, each updated in uneven batches."""
    features, labels, _, centers, _ = case
    pieces = []
    for part in torch.arange(len(labels)).tensor_split(parts):
        piece = CollapseStatistics(
            len(centers), features.shape[1], centers, max_scatter_dim
        )
        for batch in part.split(7):
            piece.update(features[batch], labels[batch])
        pieces.append(piece)
    total = pieces[order[0]]
    for i in order[1:]:
        total.merge(pieces[i].state())
    return total


class TestStreaming:
    @pytest.mark.parametrize('target', ['simplex', 'orthogonal'])
    @pytest.mark.parametrize('parts, order', [(1, [0]), (3, [2, 0, 1])])
    def test_equals_all_at_once(self, case, target, parts, order):
        features, labels, directions, _, pred = case
        expected = all_at_once(*case, target)
        statistics = statistics_of(case, parts, order)
        result = statistics.metrics(directions, target)
        batches = zip(features.split(5), labels.split(5), pred.split(5))
        second = second_pass(statistics.class_means(), batches)
        assert second == close({k: expected[k] for k in ('nc1', 'nc4')})
        del expected['nc4']
        assert result == close(expected)

    def test_cosines(self, case):
        features, labels, directions, *_ = case
        means = class_means(features, labels)
        result = statistics_of(case, 2, [0, 1]).metrics(
            directions, 'simplex', cosines=True
        )
        expected = cosine_statistics(means.mean, directions[means.label])
        assert {k: v for k, v in result.items() if 'cos' in k} == close(
            expected
        )

    def test_wide_features_leave_nc1_to_the_second_pass(self, case):
        width = case[0].shape[1]
        kept = statistics_of(case, 1, [0], max_scatter_dim=width)
        left = statistics_of(case, 1, [0], max_scatter_dim=width - 1)
        assert 'square_sum' in kept.state()
        assert 'square_sum' not in left.state()
        expected = kept.metrics()
        del expected['nc1']
        assert left.metrics() == expected

    def test_target_follows_the_centers(self, case):
        features, labels, directions, *_ = case
        statistics = statistics_of(case, 1, [0])
        assert statistics.metrics() == statistics.metrics(target='orthogonal')
        plain = CollapseStatistics(len(directions), features.shape[1])
        plain.update(features, labels)
        assert plain.metrics() == plain.metrics(target='simplex')

    def test_offset_does_not_spoil_nc1(self):
        features, labels = data(dim=12)
        features = features + 100
        statistics = CollapseStatistics(4, 12)
        statistics.update(features, labels)
        assert statistics.metrics()['nc1'] == close(nc1(features, labels))

    def test_collapsed_features(self):
        labels = torch.arange(3).repeat_interleave(50)
        simplex = simplex_etf(3, 5, 0, torch.float64)
        statistics = CollapseStatistics(3, 5, simplex)
        statistics.update(simplex[labels], labels)
        result = statistics.metrics(simplex, 'simplex')
        assert set(result) == {
            'nc1',
            'nc2',
            'nc3',
            'variability',
            'center_distance_mean',
            'center_distance_std',
            'center_element_mean',
            'center_element_std',
        }
        assert all(abs(value) < 1e-13 for value in result.values())

    def test_equal_distances_have_no_deviation(self):
        # Zero features are at distance 1 from every centre.
        statistics = CollapseStatistics(3, 4, gaussian(3, 4))
        for _ in range(20):
            statistics.update(torch.zeros(7, 4), torch.arange(7) % 3)
        result = statistics.metrics()
        assert result['center_distance_mean'] == pytest.approx(1, abs=1e-14)
        assert result['center_distance_std'] == 0
        assert 'nc1' not in result and 'nc2' not in result

    def test_single_class_has_no_geometry(self):
        statistics = CollapseStatistics(3, 4)
        statistics.update(gaussian(5, 4), torch.ones(5, dtype=torch.int64))
        assert statistics.metrics() == {}
        result = statistics.metrics(gaussian(3, 4), cosines=True)
        assert set(result) == {'variability'}
        assert 0 <= result['variability'] <= 2
        means = statistics.class_means()
        assert means.label.tolist() == [1]
        batch = (gaussian(5, 4), torch.ones(5, dtype=torch.int64))
        assert second_pass(means, [batch]) == {}
        assert second_pass(means, [(*batch, batch[1])]) == {'nc4': 0.0}

    def test_all_values_are_finite_for_odd_input(self):
        statistics = CollapseStatistics(4, 3, gaussian(4, 3))
        features = torch.tensor([[0.0, 0, 0], [65504, -65504, 1e-7]])
        statistics.update(features.half(), torch.tensor([0, 2]))
        statistics.update(torch.zeros(0, 3), torch.zeros(0).long())
        result = statistics.metrics(torch.zeros(4, 3), cosines=True)
        assert all(math.isfinite(value) for value in result.values())
        assert 'nc3' not in result and result['variability'] == 1

    def test_state_is_the_sums(self):
        statistics = CollapseStatistics(2, 3)
        state = statistics.state()
        statistics.update(torch.ones(1, 3), torch.tensor([1]))
        assert state['count'].tolist() == [0, 1]
        assert all(v.dtype == torch.float64 for v in state.values())
        assert statistics.samples == 1


NAN = torch.tensor([[math.nan, 0], [0, 1]])
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    'function, arguments, match',
    [
        (nc1, (torch.eye(2), torch.tensor([0])), r'got \(2, 2\) and \(1,\)'),
        (nc1, (torch.ones(2), LABELS), r'got \(2,\) and \(2,\)'),
        (nc1, (torch.zeros(0, 2), LABELS[:0]), 'needs samples, got none'),
        (nc1, (torch.eye(2), torch.tensor([1, 1])), 'means of 1 classes'),
        (nc1, (torch.ones(2, 2), LABELS), 'means of 2 classes have no geom'),
        (nc1, (NAN, LABELS), 'NaN or infinite'),
        (nc2, (torch.eye(2), 'cube'), "target 'cube' is unknown"),
        (nc2, (torch.zeros(2, 2), 'orthogonal'), 'have no geometry'),
        (nc3, (torch.eye(2), torch.eye(3)), r'shape \(3, 3\) do not fit'),
        (nc3, (torch.eye(2), torch.zeros(2, 2)), 'not all zero'),
        (nc4, (torch.eye(2), LABELS, LABELS[:1]), r'2 samples, got .*\(1,\)'),
        (variability, (torch.eye(2), LABELS, torch.eye(3)), 'of width 2'),
        (
            variability,
            (torch.eye(2), LABELS, torch.ones(1, 2)),
            r'labels must lie in \[0, 1\), got 0 to 1',
        ),
        (
            center_distance,
            (torch.eye(2), LABELS - 1, torch.eye(2)),
            'got -1 to 0',
        ),
        (CollapseStatistics, (0, 3), 'must be positive, got 0 and 3'),
        (
            CollapseStatistics,
            (2, 3, torch.eye(2)),
            r'shape \(2, 2\) do not fit .* \(2, 3\)',
        ),
        (
            second_pass,
            (class_means(torch.eye(2), LABELS), [(NAN, LABELS + 1)]),
            'class 2 has no mean',
        ),
        (
            second_pass,
            (class_means(torch.eye(2), LABELS), []),
            'needs samples',
        ),
    ],
)
def test_failures(function, arguments, match):
    with pytest.raises(ValueError, match=match):
        function(*arguments)


@pytest.mark.parametrize(
    'features, labels, match',
    [
        (torch.ones(2, 4), LABELS, 'width 4 do not fit .* width 2'),
        (torch.ones(2, 2), LABELS + 1, r'lie in \[0, 2\), got 1 to 2'),
        (torch.ones(2, 2), LABELS - 1, 'got -1 to 0'),
        (torch.ones(2, 2), LABELS[:1], r'and \(1,\)'),
    ],
)
def test_update_failures(features, labels, match):
    statistics = CollapseStatistics(2, 2)
    with pytest.raises(ValueError, match=match):
        statistics.update(features, labels)
    assert statistics.samples == 0


def test_statistics_failures():
    statistics = CollapseStatistics(2, 2)
    with pytest.raises(ValueError, match='needs samples, got none'):
        statistics.metrics()
    with pytest.raises(ValueError, match=r'do not fit .* equal arguments'):
        statistics.merge(CollapseStatistics(2, 3).state())
    assert statistics.is_finite
    statistics.update(NAN, LABELS)
    assert not statistics.is_finite
    with pytest.raises(ValueError, match='NaN or infinite'):
        statistics.metrics()
