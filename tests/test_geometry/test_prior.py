# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import math

import pytest
import torch
import torch.nn.functional as F
from mmengine.model import ExponentialMovingAverage
from torch import nn

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import (
    LogPrior,
    adjust_logits,
    soft_cross_entropy,
)

COUNTS = [500, 50, 5]


@pytest.fixture
def distribution():
    return LabelDistribution(COUNTS)


def random_logits(n=7, k=3, dtype=torch.float64, scale=5.0):
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(n, k, generator=generator, dtype=dtype)


def balanced_softmax_loop(logits, labels, counts, tau=1.0):
    """-log( n_y^tau e^s_y / sum_k n_k^tau e^s_k ), term by term."""
    losses = []
    for row, y in zip(logits.tolist(), labels.tolist()):
        total = math.fsum(n**tau * math.exp(s) for n, s in zip(counts, row))
        losses.append(math.log(total) - math.log(counts[y] ** tau) - row[y])
    return torch.tensor(losses, dtype=torch.float64)


# adjust_logits --------------------------------------------------------------
@pytest.mark.parametrize('tau', [0.0, 0.5, 1.0, 2.0])
def test_adjusted_cross_entropy_is_balanced_softmax(distribution, tau):
    logits = random_logits()
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 2])
    adjusted = adjust_logits(logits, distribution.log_prior, tau)
    torch.testing.assert_close(
        soft_cross_entropy(adjusted, labels),
        balanced_softmax_loop(logits, labels, COUNTS, tau),
        atol=1e-12,
        rtol=1e-12,
    )


def test_balanced_data_need_no_adjustment():
    logits = random_logits()
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 2])
    prior = LabelDistribution([9, 9, 9]).log_prior
    torch.testing.assert_close(
        soft_cross_entropy(adjust_logits(logits, prior, 1.0), labels),
        F.cross_entropy(logits, labels, reduction='none'),
        atol=1e-12,
        rtol=1e-12,
    )


def test_adjusting_back_and_forth(distribution):
    logits = random_logits()
    there = adjust_logits(logits, distribution.log_prior, 1.5)
    back = adjust_logits(there, distribution.log_prior, -1.5)
    torch.testing.assert_close(back, logits, atol=1e-12, rtol=0)


def test_zero_temperature_leaves_logits_alone():
    prior = torch.full((3,), float('nan'))
    logits = random_logits()
    assert torch.equal(adjust_logits(logits, prior, 0), logits)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(distribution, dtype):
    logits = random_logits(dtype=torch.float32).to(dtype)
    adjusted = adjust_logits(logits, distribution.log_prior, 1.0)
    assert adjusted.dtype == torch.float32
    torch.testing.assert_close(
        adjusted, logits.float() + distribution.log_prior.float()
    )


@pytest.mark.parametrize('width', [1, 2, 4])
def test_other_number_of_classes_is_refused(distribution, width):
    with pytest.raises(
        ValueError, match=f'logits of {width} classes .* priors of 3 classes'
    ):
        adjust_logits(torch.zeros(5, width), distribution.log_prior, 1.0)


# soft_cross_entropy ---------------------------------------------------------
def test_soft_labels_equal_a_loop():
    logits = random_logits()
    target = random_logits(scale=1).softmax(1)
    log_softmax = logits.log_softmax(1)
    expected = [
        -sum(float(t) * float(s) for t, s in zip(target[i], log_softmax[i]))
        for i in range(len(logits))
    ]
    torch.testing.assert_close(
        soft_cross_entropy(logits, target),
        torch.tensor(expected, dtype=torch.float64),
        atol=1e-12,
        rtol=1e-12,
    )


def test_one_hot_equals_the_index():
    logits = random_logits()
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 2])
    torch.testing.assert_close(
        soft_cross_entropy(logits, F.one_hot(labels, 3)),
        soft_cross_entropy(logits, labels),
        atol=1e-12,
        rtol=1e-12,
    )
    small = soft_cross_entropy(logits, labels.to(torch.uint8))
    assert torch.equal(small, soft_cross_entropy(logits, labels))


@pytest.mark.parametrize('shape', [(5,), (7, 2), (6, 3), (7, 3, 1), ()])
def test_shape_of_target_is_checked(shape):
    with pytest.raises(ValueError, match=r'does not fit logits of shape \(7'):
        soft_cross_entropy(random_logits(), torch.zeros(shape))


def test_float_indices_are_refused():
    with pytest.raises(ValueError, match='must be integers, got torch.float'):
        soft_cross_entropy(random_logits(), torch.zeros(7))


# LogPrior -------------------------------------------------------------------
def test_unset_priors_are_an_error(distribution):
    prior = LogPrior(3)
    assert prior.needs_label_distribution
    assert torch.isnan(prior.value).all()
    for _ in range(2):
        with pytest.raises(RuntimeError, match='class priors are not set'):
            prior()
    prior.set_label_distribution(distribution)
    assert not prior.needs_label_distribution
    torch.testing.assert_close(prior(), distribution.log_prior.float())


def test_classes_without_samples_stay_finite():
    prior = LogPrior(3)
    prior.set_label_distribution(LabelDistribution([10, 0, 0]))
    assert prior().tolist() == pytest.approx([0, -math.log(10), -math.log(10)])


def test_number_of_classes_is_checked(distribution):
    with pytest.raises(
        ValueError, match='num_classes=4 but the training data has 3 classes'
    ):
        LogPrior(4).set_label_distribution(distribution)
    with pytest.raises(ValueError, match='num_classes must be positive, got'):
        LogPrior(0)


def test_state_dict_round_trip(distribution):
    prior = LogPrior(3)
    prior.set_label_distribution(distribution)
    fresh = LogPrior(3)
    fresh.load_state_dict(prior.state_dict())
    assert torch.equal(fresh(), prior())
    assert list(prior.state_dict()) == ['value']
    with pytest.raises(RuntimeError, match='size mismatch'):
        LogPrior(4).load_state_dict(prior.state_dict())


def test_loading_unset_priors_is_noticed(distribution):
    prior = LogPrior(3)
    prior.set_label_distribution(distribution)
    prior()
    nn.Sequential(prior).load_state_dict(
        nn.Sequential(LogPrior(3)).state_dict()
    )
    with pytest.raises(RuntimeError, match='class priors are not set'):
        prior()


def test_deep_copy_and_casts_keep_the_priors(distribution):
    prior = LogPrior(3)
    prior.set_label_distribution(distribution)
    twin = copy.deepcopy(prior)
    twin.set_label_distribution(LabelDistribution([1, 1, 1]))
    assert not torch.equal(twin(), prior())
    double = LogPrior(3).double()
    double.set_label_distribution(distribution)
    assert torch.equal(double(), distribution.log_prior)
    half = copy.deepcopy(prior).half()
    assert torch.isfinite(half()).all()
    assert adjust_logits(torch.zeros(1, 3), half(), 1.0).dtype == torch.float


@pytest.mark.parametrize('update_buffers', [False, True])
def test_moving_average_keeps_the_priors(distribution, update_buffers):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 3)
            self.prior = LogPrior(3)

    model = Model()
    average = ExponentialMovingAverage(
        model, momentum=0.1, update_buffers=update_buffers
    )
    # The averaged copy is made before the first label is counted.
    model.prior.set_label_distribution(distribution)
    for _ in range(5):
        average.update_parameters(model)
    torch.testing.assert_close(average.module.prior(), model.prior())
    fresh = Model()
    fresh.load_state_dict(average.module.state_dict())
    torch.testing.assert_close(fresh.prior(), model.prior())
