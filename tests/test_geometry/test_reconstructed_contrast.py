# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Synthetic features that fill the classes lead back to the simplex."""

import pytest
import torch

from mmgeom.geometry import (
    ClassStatistics,
    fill_numbers,
    reconstruct,
    sample_confidence_support,
    supervised_contrastive_loss,
    unit_vectors,
)

COUNTS = torch.tensor([24, 4, 4, 4])
LABELS = torch.arange(4).repeat_interleave(COUNTS)
DIM = 6


def synthesize(features, generator):
    """Fill all classes up to the largest, by their own statistics."""
    own = ClassStatistics(4, DIM).double()
    own.accumulate(features, LABELS)
    own.update()
    space = reconstruct(
        own.mean,
        own.angle,
        own.angle_mean,
        own.angle_std,
        COUNTS,
        COUNTS.double().mean() <= COUNTS,
        own.valid,
        gamma=1.0,
    )
    return sample_confidence_support(
        space.mean,
        space.cap,
        fill_numbers(COUNTS, space.valid, generator),
        generator,
        space.angle_mean,
        space.angle_std,
    )


def mean_cosines(use):
    """Cosines of class means after gradient descent on free features."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(LABELS), DIM, generator=generator).double()
    for step in range(500):
        x = unit_vectors(x).requires_grad_()
        keys, labels = x[:0], LABELS[:0]
        if use and step >= 50:
            keys, labels = synthesize(x.detach(), generator)
        if use == 'anchors':
            loss = supervised_contrastive_loss(
                torch.cat([x, keys]), torch.cat([LABELS, labels]), 1.0
            )
        else:
            loss = supervised_contrastive_loss(x, LABELS, 1.0, keys, labels)
        (gradient,) = torch.autograd.grad(loss, x)
        x = (x - 0.5 * len(LABELS) * gradient).detach()
    x = unit_vectors(x)
    means = torch.stack([x[k == LABELS].mean(0) for k in range(4)])
    assert torch.allclose(means.norm(dim=1), torch.ones(4).double())
    gram = means @ means.T
    return gram[0, 1].item(), gram[1, 2].item()


def test_imbalance_pulls_the_rare_classes_together():
    assert mean_cosines('') == pytest.approx((-0.65165, 0.1370), abs=1e-3)


def test_synthetic_keys_lead_most_of_the_way_back():
    """The anchors are still those of an imbalanced batch."""
    head, rare = mean_cosines('keys')
    assert -0.47 < head < -0.43
    assert -0.21 < rare < -0.17


def test_synthetic_anchors_lead_to_the_simplex():
    assert mean_cosines('anchors') == pytest.approx((-1 / 3, -1 / 3), abs=2e-3)
