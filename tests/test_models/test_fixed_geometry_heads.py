# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import copy
import math

import onnxruntime
import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample
from torch.nn import functional as F

from mmgeom.distribution import LabelDistribution
from mmgeom.engine.hooks.checkpoint_check_hook import compare_state
from mmgeom.geometry import simplex_etf
from mmgeom.models.heads import ETFHead, MultiCenterHead, RotatedETFHead
from mmgeom.models.heads.feature_expansion import FeatureExpansion
from mmgeom.registry import MODELS

COUNTS = [40, 20, 8, 3]
HEADS = [
    (MultiCenterHead, dict(f=3)),
    (MultiCenterHead, dict(f=3, frame='axis')),
    (MultiCenterHead, dict(f=3, frame='hadamard')),
    (ETFHead, {}),
    (RotatedETFHead, {}),
    (RotatedETFHead, dict(etf='published')),
]


@pytest.fixture(autouse=True)
def host_scope():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        yield


def make(cls, counts=COUNTS, in_channels=16, **options):
    torch.manual_seed(0)
    head = cls(len(counts), in_channels, **options)
    head.set_label_distribution(LabelDistribution(counts))
    return head


def samples(labels):
    return [DataSample().set_gt_label(int(label)) for label in labels]


def mixed(first, second, share, num_classes=4):
    target = share * F.one_hot(first, num_classes).float()
    target = target + (1 - share) * F.one_hot(second, num_classes).float()
    return [DataSample().set_gt_score(row) for row in target]


def total(losses):
    return sum(v for name, v in losses.items() if 'loss' in name)


def golden_head(**options):
    """FX3: two classes, f = (1, 2), axis frame of width 5."""
    return make(
        MultiCenterHead,
        counts=[2, 1],
        in_channels=5,
        center_mode=[1, 2],
        frame='axis',
        head_bn=False,
        **options,
    )


def test_golden_values():
    head = golden_head()
    x = torch.tensor([[1, 2, 0.5, -1, 0.3]], dtype=torch.float64)
    losses = head.loss((x,), samples([1]))
    assert losses['loss_center'].item() == pytest.approx(1.472611197213)
    assert losses['loss_norm'].item() == pytest.approx(0.001382477205)
    assert total(losses).item() == pytest.approx(1.473993674418)
    plain = golden_head(weighting='none').loss((x,), samples([1]))
    assert plain['loss_center'].item() == pytest.approx(2.042665341520)
    assert head.loss((x,), samples([0]))['loss_center'].item() == (
        pytest.approx(0.527775003858)
    )
    scores = head((x,))[0]
    assert scores.tolist() == pytest.approx([0.397150735395, 0.794301470790])


def test_centers_come_from_the_training_data():
    head = make(MultiCenterHead, counts=[3, 3, 1], f=3, in_channels=12)
    assert head.frame.centers.tolist() == [4, 1, 4]
    head = make(MultiCenterHead, counts=[3, 3, 1], f=3, center_mode='average')
    assert head.frame.centers.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match=r'classes \[1\] have none'):
        make(MultiCenterHead, counts=[3, 0, 1], f=3)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_losses_and_predictions(cls, options):
    head = make(cls, **options)
    feats = (torch.randn(8, 16, requires_grad=True),)
    losses = head.loss(feats, samples([0, 1, 2, 3, 0, 1, 2, 3]))
    total(losses).backward()
    assert torch.isfinite(feats[0].grad).all()
    assert feats[0].grad.abs().sum() > 0
    assert all(
        value.ndim == 0 and torch.isfinite(value) for value in losses.values()
    )
    head.eval()
    predictions = head.predict(feats)
    scores = torch.stack([p.pred_score for p in predictions])
    assert torch.allclose(scores.sum(1), torch.ones(8), atol=1e-5)
    if not head.post_hoc_tau:
        assert torch.equal(scores.argmax(1), head(feats).argmax(1))


@pytest.mark.parametrize(('cls', 'options'), HEADS[:4])
def test_confidence_at_the_optimum(cls, options):
    """A feature at the optimum is predicted with probability 0.99."""
    head = make(
        cls, head_bn=False, in_channels=16, counts=[5, 5, 5, 5], **options
    ).eval()
    if cls is ETFHead:
        feature = head.class_vectors
    else:
        feature = head.frame.mean_centers()
        head.expansion = torch.nn.Identity()
    scores = torch.stack([p.pred_score for p in head.predict((feature,))])
    assert torch.allclose(
        scores.diagonal().mean(), torch.tensor(0.99), atol=2e-3
    )


@pytest.mark.parametrize(('cls', 'options'), HEADS)
@pytest.mark.parametrize('share', [0.0, 0.3, 0.5, 1.0])
def test_mixed_labels_are_mixed_losses(cls, options, share):
    head = make(cls, **options).eval()  # batch statistics must not differ
    feats = (torch.randn(6, 16),)
    first = torch.tensor([0, 1, 2, 3, 0, 1])
    second = torch.tensor([1, 2, 3, 0, 0, 1])
    got = head.loss(feats, mixed(first, second, share))
    a = head.loss(feats, samples(first))
    b = head.loss(feats, samples(second))
    for name in got:
        if name == 'loss_norm':
            assert torch.equal(got[name], a[name])
        else:
            expected = share * a[name] + (1 - share) * b[name]
            assert torch.allclose(got[name], expected, atol=1e-5)


def test_more_than_two_labels_are_refused():
    head = make(MultiCenterHead, f=3)
    soft = [DataSample().set_gt_score(torch.full((4,), 0.25))] * 2
    with pytest.raises(ValueError, match='at most two classes.*got one with'):
        head.loss((torch.randn(2, 16),), soft)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_autocast(cls, options):
    head = make(cls, **options)
    feats = torch.randn(8, 16)
    labels = samples([0, 1, 2, 3] * 2)
    full = head.eval().loss((feats,), labels)
    with torch.autocast('cpu', torch.bfloat16):
        half = head.loss((feats.bfloat16(),), labels)
        scores = head((feats.bfloat16(),))
    assert scores.dtype == torch.float32
    for name, value in half.items():
        assert value.dtype == torch.float32
        assert torch.allclose(value, full[name], rtol=0.1, atol=0.05)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
@pytest.mark.parametrize('counts', [[7, 1], [500, 1, 1]])
def test_few_classes_and_single_samples(cls, options, counts):
    head = make(cls, counts=counts, **options)
    feats = (torch.zeros(2, 16, requires_grad=True),)
    losses = head.loss(feats, samples([0, 1]))
    total(losses).backward()
    assert torch.isfinite(total(losses))
    assert torch.isfinite(feats[0].grad).all()


def test_right_angle_is_a_single_center_loss():
    head = make(
        MultiCenterHead, f=3, theta=math.pi / 2, head_bn=False, norm_reg=0
    )
    x = torch.randn(6, 16)
    labels = torch.tensor([0, 1, 2, 3, 3, 2])
    losses = head.loss((x,), samples(labels))
    assert 'loss_norm' not in losses
    score = head((x,)).gather(1, labels[:, None])[:, 0]
    expected = (head.frame.centers[labels] * (score - 1) ** 2).mean()
    assert torch.allclose(losses['loss_center'], expected)


def test_excess_is_zero_at_the_mean_centers():
    head = make(MultiCenterHead, f=3, head_bn=False, in_channels=16)
    losses = head.loss((head.frame.mean_centers(),), samples(range(4)))
    assert losses['excess'].abs() < 1e-5
    expected = head.frame.cos_alpha() * head.frame.loss_floor()
    assert losses['floor'].item() == pytest.approx(expected.mean().item())
    assert losses['loss_center'] > 0.1


@pytest.mark.parametrize('reduction', ['mean', 'sum'])
@pytest.mark.parametrize('where', ['post_bn', 'pre_bn'])
def test_norm_term(reduction, where):
    head = make(
        MultiCenterHead,
        f=3,
        norm_reg=0.5,
        norm_reg_on=where,
        norm_reg_reduction=reduction,
    )
    x = torch.randn(8, 16) * 3 + 1
    losses = head.loss((x,), samples([0, 1, 2, 3] * 2))
    seen = (
        x
        if where == 'pre_bn'
        else F.batch_norm(x, None, None, None, None, True)
    )
    penalty = (seen.norm(dim=1) - 1).square()
    expected = 0.5 * getattr(penalty, reduction)()
    assert torch.allclose(losses['loss_norm'], expected, rtol=1e-4)


def optimise(head, counts, steps=500):
    """Features as free parameters under the real head and loss."""
    labels = torch.repeat_interleave(
        torch.arange(len(counts)), torch.tensor(counts)
    )
    torch.manual_seed(1)
    x = torch.randn(len(labels), head.dim, dtype=torch.float64)
    x.requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x],
        max_iter=steps,
        tolerance_grad=1e-13,
        tolerance_change=1e-16,
        line_search_fn='strong_wolfe',
    )

    def closure():
        optimizer.zero_grad()
        loss = total(head.loss((x,), samples(labels)))
        loss.backward()
        return loss

    optimizer.step(closure)
    return x.detach(), labels, head.loss((x.detach(),), samples(labels))


def ufm_head(**options):
    head = make(
        MultiCenterHead,
        center_mode=[1, 2, 5, 20],
        frame='axis',
        head_bn=False,
        in_channels=32,
        **options,
    ).double()
    return head


def test_free_features_reach_the_predicted_optimum_of_objective_p():
    """Cor. 3.7: direction, norm, orthogonality, no variance."""
    decay, number = 5e-3, sum(COUNTS)
    head = ufm_head(loss='regression', norm_reg=number * decay)
    x, labels, _ = optimise(head, COUNTS)
    frame = head.frame
    scale = (frame.centers * torch.tensor(COUNTS)).sum()
    cos_alpha = frame.cos_alpha()
    expected = frame.centers * cos_alpha
    expected = expected / (frame.centers * cos_alpha**2 + decay * scale)
    assert scale == 180
    assert expected.tolist() == pytest.approx(
        [0.52631579, 0.74342630, 1.16922146, 2.23249919]
    )
    assert torch.allclose(x.norm(dim=1), expected[labels], atol=1e-5)
    means = F.normalize(frame.mean_centers().double(), dim=1)
    cosine = F.normalize(x, dim=1) @ means.T
    target = F.one_hot(labels, 4).double()
    assert torch.allclose(cosine, target, atol=1e-5)


def test_free_features_reach_the_floor_of_the_cosine_loss():
    head = ufm_head(norm_reg=0.5)
    x, labels, losses = optimise(head, COUNTS)
    assert losses['excess'].abs() < 1e-7
    assert torch.allclose(
        x.norm(dim=1), torch.ones(len(x)).double(), atol=1e-4
    )
    means = F.normalize(head.frame.mean_centers().double(), dim=1)
    gap = (F.normalize(x, dim=1) - means[labels]).square().sum(1)
    # The NCMC metric; around a single centre the loss is flat to the fourth
    # order, so that class arrives last.
    assert gap.max() < 1e-4 and gap[labels > 0].max() < 1e-10
    directions, _ = head.frame.dense_basis()
    cosine = (F.normalize(x, dim=1) * directions[labels].double()).sum(1)
    gap = (cosine - head.frame.cos_rho()[labels]).abs()
    assert gap.max() < 1e-2 and gap[labels > 0].max() < 1e-5


def test_etf_head_equals_the_formula():
    head = make(ETFHead, head_bn=False)
    x = torch.randn(5, 16)
    labels = torch.tensor([0, 1, 2, 3, 0])
    etf = simplex_etf(4, 16)
    cosine = (F.normalize(x, dim=1) * etf[labels]).sum(1)
    expected = ((cosine - 1) ** 2).sum() / (2 * 5)
    loss = head.loss((x,), samples(labels))['loss']
    assert torch.allclose(loss, expected)


def test_etf_gradient_on_the_sphere():
    head = make(ETFHead, head_bn=False).double()
    x = F.normalize(torch.randn(1, 16).double(), dim=1).requires_grad_()
    head.loss((x,), samples([2]))['loss'].backward()
    vector = head.class_vectors[2]
    cosine = (x[0] @ vector).item()
    pull = -(1 - cosine) * vector
    tangent = pull - (pull @ x[0]) * x[0]
    assert torch.allclose(x.grad[0], tangent, atol=1e-6)


def test_rotated_etf():
    head = make(RotatedETFHead).double()
    x = torch.randn(3, 16).double()
    rotation = head.rotation.weight
    eye = torch.eye(3).double()
    assert torch.allclose(rotation @ rotation.T, eye, atol=1e-6)
    directions = head.collapse_targets()['directions']
    gram = directions @ directions.T
    expected = (torch.eye(4).double() * 4 - 1) / 3
    assert torch.allclose(gram, expected, atol=1e-6)
    assert torch.allclose(head((x,)), x @ directions.T, atol=1e-6)
    predicted = torch.stack([p.pred_score for p in head.predict((x,))])
    prior = LabelDistribution(COUNTS).log_prior
    assert torch.allclose(
        predicted, (x @ directions.T - prior).softmax(1), atol=1e-6
    )


def test_published_etf_is_no_simplex_of_k_classes():
    head = make(
        RotatedETFHead, counts=[3, 2, 1], in_channels=8, etf='published'
    )
    unit = F.normalize(head.class_vectors, dim=1)
    off = (unit @ unit.T)[~torch.eye(3, dtype=bool)]
    assert torch.allclose(off, torch.full((6,), -1 / 7), atol=1e-6)


def test_rotation_stays_orthogonal_in_training():
    head = make(RotatedETFHead)
    # Weight decay too: it must not break the parametrisation.
    optimizer = torch.optim.SGD(
        head.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-2
    )
    before = head.rotation.weight.detach().clone()
    for _ in range(20):
        optimizer.zero_grad()
        total(
            head.loss((torch.randn(8, 16),), samples([0, 1, 2, 3] * 2))
        ).backward()
        optimizer.step()
    weight = head.rotation.weight.detach()
    assert torch.allclose(weight @ weight.T, torch.eye(3), atol=1e-5)
    assert not torch.allclose(weight, before, atol=1e-2)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_state_round_trip(cls, options):
    head = make(cls, **options).eval()
    torch.manual_seed(5)
    other = cls(4, 16, **options).eval()
    other.load_state_dict(head.state_dict())
    feats = (torch.randn(4, 16),)
    labels = samples([0, 1, 2, 3])
    for a, b in zip(
        head.loss(feats, labels).values(), other.loss(feats, labels).values()
    ):
        assert torch.equal(a, b)
    for a, b in zip(head.predict(feats), other.predict(feats)):
        assert torch.equal(a.pred_score, b.pred_score)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_built_by_the_registry_in_a_classifier(cls, options):
    model = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=dict(type='mmgeom.CIFARResNet', depth=8, base_channels=4),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(
                type=f'mmgeom.{cls.__name__}',
                num_classes=4,
                in_channels=16,
                **options,
            ),
            train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)),
            data_preprocessor=dict(num_classes=4),
        )
    )
    model.head.set_label_distribution(LabelDistribution(COUNTS))
    batch = dict(
        inputs=torch.randint(0, 255, (4, 3, 8, 8), dtype=torch.uint8),
        data_samples=samples(range(4)),
    )
    batch = model.data_preprocessor(batch, training=True)
    losses = model(**batch, mode='loss')
    total(losses).backward()
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    assert all(g is not None for g in gradients)
    feature = model.extract_feat(batch['inputs'], stage='pre_logits')
    assert feature.shape == (4, model.head.dim)


def test_automatic_expansion():
    assert make(MultiCenterHead, f=3, in_channels=16).dim == 16
    assert make(MultiCenterHead, f=3, in_channels=15).dim == 16
    head = make(MultiCenterHead, f=4, in_channels=15, frame='hadamard')
    assert head.dim == 32
    head = make(MultiCenterHead, f=4, in_channels=24, frame='hadamard')
    assert head.dim == 32
    assert make(ETFHead, in_channels=2).dim == 4
    with pytest.raises(ValueError, match='dimension 16 or more, got 12'):
        make(MultiCenterHead, f=3, feat_expand=12)


@pytest.mark.parametrize(('groups', 'out'), [(1, 9), (2, 8), (4, 10)])
def test_expansion_in_blocks(groups, out):
    layer = FeatureExpansion(8, out, groups)
    x = torch.randn(5, 8)
    parts = x.reshape(5, groups, -1)
    wide = torch.cat(
        [parts[:, g] @ layer.weight[g] for g in range(groups)], dim=1
    )
    expected = wide[:, :out] + layer.bias
    assert torch.allclose(layer(x), expected, atol=1e-6)
    with pytest.raises(ValueError, match='must divide in_channels=8, got 3'):
        FeatureExpansion(8, out, 3)


@pytest.mark.parametrize(
    ('cls', 'options', 'message'),
    [
        (MultiCenterHead, dict(infer='mean'), 'infer must be one of'),
        (MultiCenterHead, dict(weighting='f'), 'weighting must be one of'),
        (MultiCenterHead, dict(norm_reg=-1), 'norm_reg must not be negative'),
        (MultiCenterHead, dict(center_mode='x'), "center mode 'x' is unknown"),
        (MultiCenterHead, dict(theta=3), 'angle in radians'),
        (MultiCenterHead, dict(f=0), 'f must be at least 1|at least as many'),
        (RotatedETFHead, dict(etf='x'), "etf must be 'simplex'"),
        (RotatedETFHead, dict(in_channels=2), 'needs features of width 3'),
    ],
)
def test_errors(cls, options, message):
    options = {'in_channels': 16, **options}
    with pytest.raises(ValueError, match=message):
        make(cls, **options)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_kept_and_predicted_features(cls, options):
    head = make(cls, predict_feature=True, **options)
    feats = (torch.randn(4, 16),)
    head.loss(feats, samples(range(4)))
    assert head.kept_feature is None
    head.keep_features = True
    head.loss(feats, samples(range(4)))
    assert head.kept_label.tolist() == [0, 1, 2, 3]
    assert not head.kept_feature.requires_grad
    feature = head.eval().pre_logits(feats)
    for sample, row in zip(head.predict(feats), feature):
        assert torch.equal(sample.feature, row)


class _Scores(torch.nn.Module):
    """A head as a module of one tensor, for export."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, feature):
        return self.head((feature,))


@pytest.mark.parametrize('dynamo', [False, True])
@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_onnx_export(cls, options, dynamo, tmp_path):
    model = _Scores(make(cls, **options)).eval()
    x = torch.randn(5, 16)
    expected = model(x).detach()
    if cls is RotatedETFHead:
        model.head.fix_rotation()
    path = str(tmp_path / 'head.onnx')
    torch.onnx.export(
        model, (x,), path, input_names=['feature'], dynamo=dynamo
    )
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {'feature': x.numpy()})
    assert torch.allclose(torch.from_numpy(got), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_compiles_without_graph_breaks(cls, options):
    head = make(cls, **options)
    head.eval()
    feature = torch.randn(6, 16)
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    expected = head.feature_loss(feature, labels)  # checks are done once

    compiled = torch.compile(
        head.feature_loss, backend='eager', fullgraph=True
    )
    for name, value in compiled(feature, labels).items():
        assert torch.allclose(value, expected[name])


@pytest.mark.parametrize(
    ('backbone', 'width', 'size'),
    [
        (dict(type='LeNet5', num_classes=-1), 120, 32),
        (dict(type='VGG', depth=11, num_classes=-1), 512, 32),
        (dict(type='ResNet_CIFAR', depth=18), 512, 32),
    ],
)
def test_backbones_of_the_host(backbone, width, size):
    channels = 1 if backbone['type'] == 'LeNet5' else 3
    neck = None
    if backbone['type'] != 'LeNet5':
        neck = dict(type='GlobalAveragePooling')
    model = MODELS.build(
        dict(
            type='ImageClassifier',
            backbone=backbone,
            neck=neck,
            head=dict(
                type='mmgeom.MultiCenterHead',
                num_classes=4,
                in_channels=width,
                f=3,
            ),
        )
    )
    model.head.set_label_distribution(LabelDistribution(COUNTS))
    images = torch.randn(4, channels, size, size)
    losses = model(images, samples(range(4)), mode='loss')
    total(losses).backward()
    assert torch.isfinite(total(losses))
    assert model(images).shape == (4, 4)


def test_one_center_each_is_one_direction():
    """f = 1: every class has its own single centre."""
    head = make(MultiCenterHead, f=1, head_bn=False)
    assert head.frame.centers.tolist() == [1, 1, 1, 1]
    assert torch.equal(head.class_weight, torch.ones(4))
    x = torch.randn(4, 16)
    loss = head.loss((x,), samples(range(4)))['loss_center']
    cosine = (F.normalize(x, dim=1) * head.frame.dense_centers()).sum(1)
    assert torch.allclose(loss, (cosine - 1).square().mean(), atol=1e-6)


def test_no_option_is_ignored():
    given = dict(type='CrossEntropyLoss')
    for cls in (ETFHead, RotatedETFHead):
        with pytest.raises(ValueError, match='brings its own loss .*_delete_'):
            make(cls, loss=given)
    with pytest.raises(ValueError, match='loss must be one of'):
        make(MultiCenterHead, loss=given)
    for cls in (ETFHead, RotatedETFHead, MultiCenterHead):
        with pytest.raises(ValueError, match='expand_groups=2 divides'):
            make(
                cls,
                expand_groups=2,
                **(dict(f=3) if cls is MultiCenterHead else {}),
            )
    with pytest.raises(ValueError, match="use frame='hadamard'"):
        make(MultiCenterHead, frame='axis', expand_groups=2)


def test_every_class_sees_all_of_a_feature_expanded_in_blocks():
    head = make(MultiCenterHead, frame='hadamard', expand_groups=4)
    feature = torch.randn(1, 16, requires_grad=True)
    for score in head.eval()((feature,))[0]:
        (seen,) = torch.autograd.grad(score, feature, retain_graph=True)
        assert (seen.abs() > 1e-9).all()


def test_norm_before_batch_norm_needs_no_memory():
    head = make(MultiCenterHead, f=3, norm_reg_on='pre_bn', norm_reg=1)
    first, second = torch.randn(2, 4, 16) * 3
    labels = samples(range(4))
    head.loss((first,), labels)
    copy.deepcopy(head)
    head.eval()
    got = head.loss((second,), labels)['loss_norm']
    expected = (second.norm(dim=1) - 1).square().mean()
    assert torch.allclose(got, expected)


def test_confidence_is_that_of_the_mean_score():
    for infer in ('rcr', 'gcr'):
        head = make(MultiCenterHead, head_bn=False, infer=infer)
        head.expansion = torch.nn.Identity()
        scores = head((head.frame.mean_centers(),)).diagonal()
        mean = scores.mean()
        own = torch.exp(head.score_scale * mean)
        assert torch.allclose(own / (own + 3), torch.tensor(0.99), atol=1e-3)


def test_unallocated_heads_say_what_to_do():
    head = MultiCenterHead(4, 16, f=3)
    assert head.needs_label_distribution
    with pytest.raises(RuntimeError, match='LabelDistributionHook'):
        head.eval().predict((torch.randn(2, 16),))
    head.set_label_distribution(LabelDistribution(COUNTS))
    assert not head.needs_label_distribution


@pytest.mark.parametrize('frame', ['random', 'axis', 'hadamard'])
@pytest.mark.parametrize('other', ['random', 'axis', 'hadamard'])
def test_checkpoints_of_another_layout_are_refused(frame, other):
    head = make(MultiCenterHead, f=3, frame=frame)
    state = make(MultiCenterHead, f=3, frame=other).state_dict()
    if frame == other:
        head.load_state_dict(state)
        with pytest.raises(ValueError, match='theta=0.2, the config .* 0.5'):
            make(MultiCenterHead, f=3, frame=frame, theta=0.5).load_state_dict(
                state
            )
    else:
        with pytest.raises(ValueError, match=f"layout '{other}'"):
            head.load_state_dict(state, strict=False)


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_a_checkpoint_without_the_class_vectors_is_incomplete(cls, options):
    head = make(cls, **options)
    vectors = [
        name
        for name in head.state_dict()
        if name.split('.')[-1]
        in ('directions', 'class_vectors', 'signs', 'order', 'centers', 'base')
    ]
    assert vectors
    for name in vectors:
        state = head.state_dict()
        del state[name]
        assert compare_state(head, state)[0] == [name]


@pytest.mark.parametrize(('cls', 'options'), HEADS)
def test_a_batch_of_one_sample(cls, options):
    """The rest of an epoch may be a single sample, which has no variance."""
    head = make(cls, **options)
    head.loss((torch.randn(8, 16),), samples([0, 1, 2, 3] * 2))
    state = {name: v.clone() for name, v in head.state_dict().items()}
    feature = torch.randn(1, 16, requires_grad=True)
    losses = head.loss((feature,), samples([2]))
    total(losses).backward()
    assert torch.isfinite(feature.grad).all()
    expected = head.eval().loss((feature,), samples([2]))
    for name, value in losses.items():
        assert torch.allclose(value, expected[name])
    for name, value in head.state_dict().items():
        assert torch.equal(value, state[name])
