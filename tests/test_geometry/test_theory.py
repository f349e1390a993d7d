# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import itertools
import math

import pytest
import torch

from mmgeom.geometry.frames import MultiCenterFrame
from mmgeom.geometry.orthonormal import orthonormal_rows, simplex_etf
from mmgeom.geometry.theory_collapse import (
    cos_alpha,
    fixed_frame_norm,
    gradient_bound,
    learnable_frame_optimum,
    nearest_center_probability,
    pairwise_probability,
)
from mmgeom.geometry.theory_contrast import (
    collapse_threshold,
    feasible_x2,
    supervised_contrastive_bound,
    two_level_bound,
    two_level_optimum,
)

CENTERS = [1, 2, 5, 20]
COUNTS = [40, 20, 8, 3]


def contrastive_loss(z, labels, temperature=1.0):
    """The sum over anchors, as a plain mask of pairs."""
    z = torch.nn.functional.normalize(z, dim=1)
    others = ~torch.eye(len(z), dtype=torch.bool)
    logits = z @ z.T / temperature
    positive = (labels[:, None] == labels) & others
    total = logits.masked_fill(~others, float('-inf')).logsumexp(1)
    log_prob = logits - total[:, None]
    return -((log_prob * positive).sum(1) / positive.sum(1)).sum()


def slow_contrastive_loss(z, labels, temperature=1.0):
    total = 0.0
    for i in range(len(z)):
        partition = sum(
            math.exp(float(z[i] @ z[j]) / temperature)
            for j in range(len(z))
            if j != i
        )
        positive = [
            j for j in range(len(z)) if j != i and labels[j] == labels[i]
        ]
        for j in positive:
            prob = math.exp(float(z[i] @ z[j]) / temperature) / partition
            total -= math.log(prob) / len(positive)
    return total


def minimise(closure_of, variables, steps=60):
    """Minimum by LBFGS; `closure_of` gives the objective."""
    optimizer = torch.optim.LBFGS(
        variables,
        max_iter=100,
        tolerance_grad=1e-14,
        tolerance_change=0,
        line_search_fn='strong_wolfe',
    )

    def closure():
        optimizer.zero_grad()
        value = closure_of()
        value.backward()
        return value

    for _ in range(steps):
        optimizer.step(closure)
        if max(v.grad.abs().max() for v in variables) < 1e-12:
            break
    return closure_of().item()


def gaussian(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class TestBalancedBound:
    @pytest.mark.parametrize(
        'num_classes, each, temperature, expected',
        [
            (4, 10, 1.0, 113.1112721931),
            (3, 4, 1.0, 18.7859358249),
            (10, 16, 1.0, 661.3801623401),
            (4, 10, 0.1, 87.8891990391),
            (10, 16, 0.1, 433.3109865697),
            (4, 6, 1.0, 54.6414845542),
        ],
    )
    def test_value_and_simplex(self, num_classes, each, temperature, expected):
        number = num_classes * each
        bound = supervised_contrastive_bound(num_classes, number, temperature)
        assert bound == pytest.approx(expected, abs=1e-9)
        mean = supervised_contrastive_bound(
            num_classes, number, temperature, 'mean'
        )
        assert mean == pytest.approx(bound / number, rel=1e-14)
        labels = torch.arange(num_classes).repeat_interleave(each)
        simplex = simplex_etf(num_classes, num_classes, 0, torch.float64)
        loss = contrastive_loss(simplex[labels], labels, temperature)
        assert loss.item() == pytest.approx(bound, abs=1e-9)

    def test_reference_is_the_plain_loop(self):
        labels = torch.arange(3).repeat_interleave(3)
        z = torch.nn.functional.normalize(gaussian(9, 4), dim=1)
        assert contrastive_loss(z, labels, 0.3).item() == pytest.approx(
            slow_contrastive_loss(z, labels, 0.3), abs=1e-10
        )

    @pytest.mark.parametrize('num_classes, each', [(2, 3), (4, 5)])
    @pytest.mark.parametrize('temperature', [0.1, 1.0])
    def test_nothing_is_below(self, num_classes, each, temperature):
        labels = torch.arange(num_classes).repeat_interleave(each)
        bound = supervised_contrastive_bound(
            num_classes, len(labels), temperature
        )
        for seed in range(100):
            z = gaussian(len(labels), 4, seed=seed)
            assert contrastive_loss(z, labels, temperature) > bound

    def test_training_reaches_it(self):
        labels = torch.arange(4).repeat_interleave(6)
        z = gaussian(24, 5).requires_grad_()
        reached = minimise(lambda: contrastive_loss(z, labels), [z])
        assert reached == pytest.approx(
            supervised_contrastive_bound(4, 24), abs=1e-6
        )

    @pytest.mark.parametrize('number', [3, 4])
    def test_simplex_gram(self, number):
        # A wrong simplex would hide a wrong bound.
        simplex = simplex_etf(number, 64, 3, torch.float64)
        eye = torch.eye(number, dtype=torch.float64)
        expected = (number * eye - 1) / (number - 1)
        assert (simplex @ simplex.T - expected).abs().max() < 2e-15
        assert simplex.sum(0).abs().max() < 2e-15

    @pytest.mark.parametrize(
        'arguments, match',
        [
            ((1, 4), 'num_classes must be at least 2, got 1'),
            ((3, 10), '10 samples are not 3 classes'),
            ((3, 3), '3 samples are not 3 classes'),
            ((3, 9, 0.0), 'temperature must be positive, got 0.0'),
            ((3, 9, math.nan), 'temperature must be positive, got nan'),
            ((3, 9, 1.0, 'none'), "must be 'sum' or 'mean', got 'none'"),
        ],
    )
    def test_failures(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            supervised_contrastive_bound(*arguments)


def two_level_points(x1, x2, num_classes, first, count):
    """Collapsed points of the symmetric arrangement, from its Gram."""
    gram = torch.full((num_classes, num_classes), x2, dtype=torch.float64)
    gram[0, :] = gram[:, 0] = x1
    gram.fill_diagonal_(1)
    value, vector = torch.linalg.eigh(gram)
    points = vector * value.clamp(min=0).sqrt()
    assert (points @ points.T - gram).abs().max() < 1e-12
    number = torch.tensor([first] + [count] * (num_classes - 1))
    labels = torch.arange(num_classes).repeat_interleave(number)
    return points[labels], labels


class TestTwoLevels:
    @pytest.mark.parametrize(
        'num_classes, count, first, x1, expected',
        [
            (4, 3, 12, -0.6, 47.7552813816),
            (5, 4, 2, -0.1, 34.5271227042),
            (6, 2, 40, -0.95, 174.2028275868),
        ],
    )
    def test_direct_loss(self, num_classes, count, first, x1, expected):
        x2 = feasible_x2(x1, num_classes)
        ratio = first / count
        value = two_level_bound(x1, x2, num_classes, ratio, count)
        assert value == pytest.approx(expected, abs=1e-9)
        for temperature in (1.0, 0.3):
            value = two_level_bound(
                x1, x2, num_classes, ratio, count, temperature
            )
            loss = contrastive_loss(
                *two_level_points(x1, x2, num_classes, first, count),
                temperature,
            )
            assert loss.item() == pytest.approx(value, abs=1e-8)

    @pytest.mark.parametrize('temperature', [0.1, 1.0])
    def test_equal_sizes_are_a_simplex(self, temperature):
        optimum = two_level_optimum(5, 1.0, 8, temperature)
        assert optimum.x1 == pytest.approx(-0.25, abs=1e-12)
        assert optimum.x2 == pytest.approx(-0.25, abs=1e-12)
        bound = supervised_contrastive_bound(5, 40, temperature)
        assert optimum.value == pytest.approx(bound, abs=1e-10)

    @pytest.mark.parametrize(
        'ratio, theta1, theta2',
        [
            (0.011, 90.40, 120.00),
            (1, 109.471, 109.471),
            (10, 138.80, 69.56),
            (30, 164.37, 26.98),
            (37, 180, 0),
        ],
    )
    def test_angles(self, ratio, theta1, theta2):
        optimum = two_level_optimum(4, ratio, 100)
        assert math.degrees(optimum.theta1) == pytest.approx(theta1, abs=6e-3)
        assert math.degrees(optimum.theta2) == pytest.approx(theta2, abs=6e-3)

    @pytest.mark.parametrize(
        'temperature, ratio', [(1.0, 0.05), (0.5, 0.05), (0.1, 1.0)]
    )
    def test_angles_are_monotone(self, temperature, ratio):
        # At low temperature the angle grows again for a first class of a
        # few samples, whose own samples hardly enter its partition sums.
        ratios = [ratio * 1.3**i for i in range(30)]
        optima = [two_level_optimum(6, r, 50, temperature) for r in ratios]
        for a, b in itertools.pairwise(optima):
            assert a.theta1 <= b.theta1 and a.theta2 >= b.theta2

    @pytest.mark.parametrize('ratio', [0.3, 2.0, 25.0, 60.0])
    @pytest.mark.parametrize('temperature', [0.2, 1.0])
    def test_grid_has_nothing_lower(self, ratio, temperature):
        optimum = two_level_optimum(5, ratio, 10, temperature)
        for i in range(2001):
            x1 = -i / 2000
            x2 = feasible_x2(x1, 5)
            value = two_level_bound(x1, x2, 5, ratio, 10, temperature)
            assert value >= optimum.value - 1e-10

    @pytest.mark.parametrize(
        'first, value, x1, x2',
        [
            (24, 106.28931715, -0.65165, 0.1370),
            (293, 1712.01397216, -1.0, 1.0),
        ],
    )
    def test_number(self, first, value, x1, x2):
        optimum = two_level_optimum(4, first / 4, 4)
        assert optimum.value == pytest.approx(value, abs=1e-7)
        assert optimum.x1 == pytest.approx(x1, abs=1e-5)
        assert optimum.x2 == pytest.approx(x2, abs=1e-4)

    def test_free_features_reach_it(self):
        labels = torch.arange(4).repeat_interleave(torch.tensor([24, 4, 4, 4]))
        z = gaussian(36, 6).requires_grad_()
        reached = minimise(lambda: contrastive_loss(z, labels), [z])
        optimum = two_level_optimum(4, 6, 4)
        assert reached == pytest.approx(optimum.value, abs=1e-6)
        z = torch.nn.functional.normalize(z.detach(), dim=1)
        assert (z[0] @ z[30]).item() == pytest.approx(optimum.x1, abs=1e-3)
        assert (z[24] @ z[35]).item() == pytest.approx(optimum.x2, abs=1e-3)

    def test_low_temperature_does_not_overflow(self):
        optimum = two_level_optimum(10, 100.0, 50, temperature=1e-4)
        assert -1 < optimum.x1 < 0
        assert math.isfinite(optimum.value)

    @pytest.mark.parametrize(
        'function, arguments, match',
        [
            (feasible_x2, (-1.1, 4), r'x1 is a cosine .* got -1.1'),
            (feasible_x2, (0.0, 2), 'num_classes must be at least 3, got 2'),
            (two_level_bound, (0, 2, 4, 1, 9), 'x2 is a cosine .* got 2'),
            (two_level_bound, (0, 0, 2, 1, 9), 'at least 3, got 2'),
            (two_level_optimum, (4, 0.1, 9), r'greater than 1, got 0.1 \* 9'),
            (two_level_optimum, (4, 5, 1), 'count must be .* got 1'),
            (two_level_optimum, (4, math.inf, 9), 'finite .* got inf'),
            (collapse_threshold, (4, 0.5), 'count must be .* got 0.5'),
            (collapse_threshold, (4, 9, -1), 'temperature .* got -1'),
        ],
    )
    def test_failures(self, function, arguments, match):
        with pytest.raises(ValueError, match=match):
            function(*arguments)


class TestCollapseThreshold:
    @pytest.mark.parametrize(
        'num_classes, count, expected',
        [
            (3, 5, 24.4606),
            (4, 10, 36.5526),
            (4, 100, 36.4909),
            (10, 50, 109.4660),
            (10, 500, 109.4537),
            (100, 5, 1204.112),
            (100, 50, 1203.989),
            # (K - 1) a2 < e^2, so that b2 is negative.
            (3, 2, 24.6719),
            (4, 2, 36.8307),
        ],
    )
    def test_minimiser_turns_over(self, num_classes, count, expected):
        threshold = collapse_threshold(num_classes, count)
        assert threshold == pytest.approx(expected, abs=6e-4)
        below = two_level_optimum(num_classes, 0.99 * threshold, count)
        assert below.x1 == pytest.approx(-0.998, abs=5e-4)
        nearly = two_level_optimum(num_classes, threshold * (1 - 1e-9), count)
        above = two_level_optimum(num_classes, threshold * (1 + 1e-9), count)
        assert -1 < nearly.x1 < -0.99999
        assert (above.x1, above.x2) == (-1, 1)

    @pytest.mark.parametrize(
        'temperature, expected',
        [(1, 109.466), (0.5, 956.28), (0.2, 3.96e5), (0.1, 8.73e9)],
    )
    def test_temperature(self, temperature, expected):
        threshold = collapse_threshold(10, 50, temperature)
        assert threshold == pytest.approx(expected, rel=2e-3)
        above = two_level_optimum(10, 1.0001 * threshold, 50, temperature)
        assert above.x1 == -1
        below = two_level_optimum(10, 0.9999 * threshold, 50, temperature)
        assert below.x1 > -1

    def test_limits(self):
        assert collapse_threshold(1001, 1e6) / 1000 == pytest.approx(
            12.161370, abs=1e-4
        )
        assert collapse_threshold(10, 50, 0.001) == math.inf
        assert math.isfinite(collapse_threshold(10, 50, 0.004))


class TestFrames:
    def test_numbers(self):
        expected = torch.tensor([1, 1.03947, 1.157878, 1.749921]).double()
        assert torch.allclose(
            gradient_bound(CENTERS, 0.2), expected, atol=1e-5
        )
        expected = torch.tensor([1, 0.720926, 0.481223, 0.295797]).double()
        assert torch.allclose(cos_alpha(CENTERS, 0.2), expected, atol=1e-6)

    @pytest.mark.parametrize('theta', [0.0, 0.2, 1.0, math.pi / 2])
    def test_dense_frame(self, theta):
        frame = MultiCenterFrame(4, 28, 32, theta, 'axis')
        frame.set_centers(CENTERS)
        bound = gradient_bound(CENTERS, theta)
        cosine = cos_alpha(CENTERS, theta)
        assert torch.allclose(cosine, frame.cos_alpha(), atol=1e-12)
        parts = frame.dense_centers().double().split(CENTERS)
        for k, part in enumerate(parts):
            total = part.sum(0).norm()
            assert abs(cosine[k] * total - bound[k]) < 1e-5


class TestNearestCenter:
    @pytest.mark.parametrize('f, g', [(4, 1), (20, 5), (3, 3)])
    def test_pairwise_simulation(self, f, g):
        vectors = orthonormal_rows(f + g, f + g + 3, 1, torch.float64)
        middle = (vectors[:f].mean(0) * f + vectors[f:].mean(0) * g) / (f + g)
        z = middle + gaussian(100_000, f + g + 3, seed=2)
        share = ((z @ vectors.T).argmax(1) < f).double().mean().item()
        assert share == pytest.approx(
            pairwise_probability([f], [g]).item(), abs=0.006
        )
        assert pairwise_probability([f], [g]).item() == f / (f + g)

    def test_more_centres_for_hard_classes_help(self):
        hard = [0.1, 0.2, 0.7]
        equal = nearest_center_probability([5, 5, 5], hard)
        assert equal == pytest.approx(1 / 3, abs=1e-12)
        ascending = nearest_center_probability([1, 4, 10], hard)
        assert ascending == pytest.approx(7.9 / 15, abs=1e-12)
        assert nearest_center_probability([10, 4, 1], hard) < equal

    @pytest.mark.parametrize(
        'function, arguments, match',
        [
            (pairwise_probability, ([0], [1]), r'centers must .* got \[0.0\]'),
            (nearest_center_probability, ([1, 2], [0.5]), 'one for each'),
            (nearest_center_probability, ([1, 2], [0.5, 0.6]), 'sum 1.1'),
            (nearest_center_probability, ([1, 2], [1.5, -0.5]), 'must be 2'),
            (gradient_bound, ([1, 2], 2.0), r'\[0, pi/2\], got 2.0'),
            (cos_alpha, ([0.5], 0.2), 'centers must .* at least 1'),
            (fixed_frame_norm, ([1], [1, 2], 0.2, 0.1), 'do not fit 2'),
            (fixed_frame_norm, ([1], [0], 0.2, 0.1), 'counts must'),
            (fixed_frame_norm, ([1], [1], 0.2, -1), 'lambda_h .* got -1'),
            (
                learnable_frame_optimum,
                ([1], [1], 0.2, 0.1, 0.0),
                'lambda_w must be positive, got 0.0',
            ),
        ],
    )
    def test_failures(self, function, arguments, match):
        with pytest.raises(ValueError, match=match):
            function(*arguments)


class TestFreeFeatures:
    theta, lambda_h, lambda_w = 0.2, 5e-3, 2e-3

    def test_fixed_frame(self):
        norm = fixed_frame_norm(CENTERS, COUNTS, self.theta, self.lambda_h)
        expected = [0.52631579, 0.74342630, 1.16922146, 2.23249919]
        assert norm.tolist() == pytest.approx(expected, abs=1e-8)

        frame = MultiCenterFrame(4, 28, 33, self.theta)
        frame.set_centers(CENTERS)
        centers = frame.dense_centers().double()
        own = frame.class_of_center()
        labels = torch.arange(4).repeat_interleave(torch.tensor(COUNTS))
        target = (own[None] == labels[:, None]).double()
        total = sum(f * n for f, n in zip(CENTERS, COUNTS))
        h = (0.1 * gaussian(71, 33)).requires_grad_()

        def objective():
            fit = (h @ centers.T - target).square().sum() / (2 * total)
            return fit + self.lambda_h / 2 * h.square().sum()

        minimise(objective, [h], steps=10)
        h = h.detach()
        assert (h.norm(dim=1) - norm[labels]).abs().max() < 1e-6
        means = frame.mean_centers().double()
        cosine = torch.nn.functional.cosine_similarity(h, means[labels])
        assert cosine.min() > 1 - 1e-9

    def test_norm_peaks(self):
        # Remark 3.8: at cos alpha = sqrt(lambda S / f), S = 800, f = 20.
        peak = math.asin(math.sqrt(3 / 19))
        assert cos_alpha([20], peak) == pytest.approx(math.sqrt(4 / 20))
        low, best, high = (
            fixed_frame_norm([20], [40], theta, 5e-3).item()
            for theta in (0.99 * peak, peak, 1.01 * peak)
        )
        assert best > low and best > high

    def test_learnable_frame(self):
        optimum = learnable_frame_optimum(
            CENTERS, COUNTS, self.theta, self.lambda_h, self.lambda_w
        )
        expected = [9.1, 8.94248238, 8.51598694, 8.74410209]
        assert optimum.direction.tolist() == pytest.approx(expected, abs=1e-8)
        expected = [0.091, 0.17884965, 0.42579935, 1.16588028]
        assert optimum.feature.tolist() == pytest.approx(expected, abs=1e-8)

    @pytest.mark.parametrize('lambda_w', [2e-3, 0.4])
    def test_learnable_frame_minimises(self, lambda_w):
        """The problem that is left for each class after symmetry."""
        f = torch.tensor(CENTERS).double()
        n = torch.tensor(COUNTS).double()
        cosine = cos_alpha(CENTERS, self.theta)
        norms = (0.5 + gaussian(2, 4).abs()).requires_grad_()

        def objective():
            w, h = norms
            fit = n * f * (1 - w * h * cosine) ** 2 / (2 * (f * n).sum())
            penalty = lambda_w * w**2 + self.lambda_h * n * h**2
            return (fit + penalty / 2).sum()

        minimise(objective, [norms])
        optimum = learnable_frame_optimum(
            CENTERS, COUNTS, self.theta, self.lambda_h, lambda_w
        )
        reached = norms.detach().square()
        assert torch.allclose(reached[0], optimum.direction, atol=1e-6)
        assert torch.allclose(reached[1], optimum.feature, atol=1e-6)

    def test_heavy_penalty_lets_classes_vanish(self):
        optimum = learnable_frame_optimum(CENTERS, COUNTS, 0.2, 5e-3, 0.4)
        cosine = cos_alpha(CENTERS, 0.2)
        for k, (f, n) in enumerate(zip(CENTERS, COUNTS)):
            holds = cosine[k] > 180 / f * math.sqrt(5e-3 * 0.4 / n)
            assert (optimum.direction[k] > 0) == holds
            assert (optimum.feature[k] > 0) == holds
        assert 0 < (optimum.feature > 0).sum() < 4
