# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""SupCon and BCL heads."""

import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import unit_vectors
from mmgeom.models.heads import BCLHead, CosineHead, LinearHead, SupConHead

LABELS = [0, 0, 1, 2, 1, 0, 3]
HEADS = [SupConHead, BCLHead]


@pytest.fixture(autouse=True)
def _scope():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


def make(cls, **options):
    torch.manual_seed(0)
    options = dict(hidden_channels=10, out_channels=6) | options
    head = cls(4, 8, **options).double()
    for module in head.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(LabelDistribution([9, 5, 3, 1]))
    return head


def samples(labels=LABELS):
    return [DataSample().set_gt_label(label) for label in labels]


def views(number=7, count=3):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(
        count * number, 8, generator=generator, dtype=torch.float64
    )


def supcon_loop(z, y, tau):
    """Equation 2, term by term."""
    losses = []
    for i in range(len(y)):
        others = [j for j in range(len(y)) if j != i]
        positives = [j for j in others if y[j] == y[i]]
        total = sum(torch.exp(z[i] @ z[j] / tau) for j in others)
        terms = [z[i] @ z[p] / tau - total.log() for p in positives]
        losses.append(-sum(terms) / len(terms))
    return sum(losses) / len(losses)


def bcl_loop(z, y, prototypes, tau):
    """Class averages, the prototype of each class being one of its keys."""
    losses = []
    for i in range(len(y)):
        total, terms = 0, []
        for k, prototype in enumerate(prototypes):
            keys = [z[j] for j in range(len(y)) if y[j] == k and j != i]
            keys.append(prototype)
            total = total + sum(torch.exp(z[i] @ q / tau) for q in keys) / len(
                keys
            )
            if k == y[i]:
                terms = [z[i] @ q / tau for q in keys]
        losses.append(-sum(t - total.log() for t in terms) / len(terms))
    return sum(losses) / len(losses)


def expected_contrast(head, x):
    number = len(LABELS)
    z = head.projector(x[number:])
    y = LABELS * 2
    if isinstance(head, SupConHead):
        return supcon_loop(z, y, head.temperature)
    prototypes = head.prototype_projector(head.classifier.class_vectors)
    return bcl_loop(z, y, prototypes, head.temperature)


@pytest.mark.parametrize('classifier', ['CosineHead', 'LinearHead'])
@pytest.mark.parametrize('cls', HEADS)
def test_losses_equal_their_definition(cls, classifier):
    head = make(
        cls,
        classifier=dict(type=f'mmgeom.{classifier}'),
        temperature=0.3,
        lambda_x=1.5,
        lambda_c=0.7,
    )
    x = views()
    losses = head.loss((x,), samples())
    assert set(losses) == {'loss_classification', 'loss_contrast'}
    contrast = 0.7 * expected_contrast(head, x)
    assert torch.allclose(losses['loss_contrast'], contrast, rtol=1e-10)
    logits = head.forward((x[: len(LABELS)],))
    prior = torch.tensor([9, 5, 3, 1]).double() / 18
    cross_entropy = torch.nn.functional.cross_entropy(
        logits + prior.log(), torch.tensor(LABELS)
    )
    assert losses['loss_classification'].item() == pytest.approx(
        1.5 * cross_entropy.item(), rel=1e-6
    )


@pytest.mark.parametrize('cls', HEADS)
def test_every_parameter_learns(cls):
    head = make(cls)
    losses = head.loss((views(),), samples())
    sum(losses.values()).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize('cls', HEADS)
def test_first_view_is_not_contrasted(cls):
    head = make(cls)
    x = views()
    changed = x.clone()
    changed[: len(LABELS)] += 1
    first, second = (head.loss((v,), samples()) for v in (x, changed))
    assert torch.equal(first['loss_contrast'], second['loss_contrast'])
    assert first['loss_classification'] != second['loss_classification']


@pytest.mark.parametrize('cls', HEADS)
def test_prediction_is_the_classifiers(cls):
    head = make(cls)
    x = views(count=1)
    predictions = head.predict((x,))
    scores = torch.softmax(head.classifier((x,)), 1)
    for prediction, score in zip(predictions, scores, strict=True):
        assert torch.allclose(prediction.pred_score, score)
    assert torch.equal(head.pre_logits((x,)), x)


@pytest.mark.parametrize('cls', HEADS)
def test_weight_zero_leaves_the_contrast_out(cls):
    head = make(cls, lambda_c=0)
    losses = head.loss((views(),), samples())
    assert set(losses) == {'loss_classification'}
    losses['loss_classification'].backward()
    for name, parameter in head.named_parameters():
        # Or several processes would wait for a gradient that never comes.
        assert parameter.requires_grad == (parameter.grad is not None), name


@pytest.mark.parametrize('cls', HEADS)
@pytest.mark.parametrize(
    'labels, feature',
    [
        ([0], views(1)),
        ([0, 1, 2, 3], torch.zeros(12, 8).double()),
        ([2, 2, 2], views(3) * 1e4),
    ],
)
def test_extreme_batches_are_finite(cls, labels, feature):
    head = make(cls)
    losses = head.loss((feature,), samples(labels))
    total = sum(losses.values())
    total.backward()
    assert torch.isfinite(total)
    for parameter in head.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


def test_contrast_is_computed_in_float32():
    head = make(SupConHead).float()
    with torch.autocast('cpu', torch.bfloat16):
        losses = head.loss((views().float(),), samples())
    assert losses['loss_contrast'].dtype == torch.float32


def test_own_loss_of_the_classifier():
    head = make(
        SupConHead,
        logit_comp_tau=None,
        classifier=dict(
            type='mmgeom.LinearHead',
            loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1),
        ),
    )
    assert type(head.classifier.loss_module).__name__ == 'LabelSmoothLoss'
    assert isinstance(head.classifier, LinearHead)
    assert isinstance(make(SupConHead).classifier, CosineHead)


def one_view_too_few():
    make(SupConHead).loss((views(count=2),), samples())


def another_width():
    make(SupConHead).loss((views()[:, :5],), samples())


def soft_labels():
    soft = [s.set_gt_score(torch.ones(4) / 4) for s in samples()]
    make(SupConHead).loss((views(),), soft)


def no_labels():
    make(SupConHead).loss((views(),), [DataSample() for _ in LABELS])


def two_labels():
    several = [DataSample().set_gt_label([0, 1]) for _ in LABELS]
    make(SupConHead).loss((views(),), several)


@pytest.mark.parametrize(
    'action, message',
    [
        (one_view_too_few, 'needs 3 views of each image, got 14 features of'),
        (another_width, 'have width 5, but SupConHead has in_channels=8: set'),
        (soft_labels, 'leave out Mixup, CutMix'),
        (no_labels, "have no 'gt_label'"),
        (two_labels, '7 images have 14 labels'),
        (lambda: SupConHead(1, 8), 'at least 2 of them, got num_classes=1'),
        (lambda: make(BCLHead, temperature=0), 'temperature must be positive'),
        (lambda: make(BCLHead, lambda_c=-1), 'lambda_c must not be negative'),
        (lambda: make(BCLHead, out_channels=0), 'out_channels of a projector'),
        (
            lambda: make(BCLHead, implementation='fast'),
            "implementation must be 'auto'",
        ),
        (
            lambda: make(
                BCLHead,
                classifier=dict(type='mmgeom.CosineHead', num_classes=5),
            ),
            'num_classes=4 but its classifier has num_classes=5',
        ),
        (
            lambda: make(
                BCLHead,
                classifier=dict(
                    type='mmgeom.CosineHead',
                    loss=dict(type='CrossEntropyLoss'),
                ),
            ),
            'set logit_comp_tau=None to keep it',
        ),
    ],
)
def test_mistakes(action, message):
    with pytest.raises(ValueError, match=message):
        action()


def test_prototypes_need_class_vectors():
    classifier = dict(type='LinearClsHead')
    with pytest.raises(TypeError, match='has no class vectors'):
        make(BCLHead, classifier=classifier, logit_comp_tau=None)


def test_unit_rows_of_the_projector():
    rows = make(SupConHead).projector(views())
    assert torch.allclose(rows, unit_vectors(rows))
    assert rows.shape == (21, 6)
