# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""A training step with a geometric head against one with a linear head.

A step takes a batch of 32x32 images through ResNet-32, computes the loss and
all gradients, and lets SGD take a step. ``linear`` is mmpretrain's
``LinearClsHead`` with cross-entropy on the same backbone; each head has the
backbone width of its config for CIFAR-100-LT. ``ratio`` compares whole
steps, and ``ratio_by_head`` computes the same from the times of the heads
alone, which other work on the machine disturbs less.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from harness import add_arguments, paired_times, report
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample
from torch import nn

import mmgeom.models  # noqa: F401
from mmgeom.datasets.long_tailed_profile import long_tailed_counts
from mmgeom.distribution import LabelDistribution
from mmgeom.registry import MODELS

BATCH, NUM_CLASSES, DEPTH = 128, 100, 32
#: Heads, and the channels of the backbone's first stage.
HEADS: dict[str, tuple[dict, int]] = dict(
    NCMC=(dict(type='mmgeom.MultiCenterHead', f=20, theta=0.2), 16),
    SETF=(dict(type='mmgeom.ETFHead'), 32),
    RBL=(dict(type='mmgeom.RotatedETFHead'), 32),
)
LINEAR = dict(
    type='mmpretrain.LinearClsHead', loss=dict(type='CrossEntropyLoss')
)


def class_counts() -> torch.Tensor:
    """Numbers of training images of CIFAR-100-LT."""
    return torch.from_numpy(long_tailed_counts(NUM_CLASSES, 500, 100))


def make_samples() -> list[DataSample]:
    """Labels of a batch."""
    generator = torch.Generator().manual_seed(0)
    shares = class_counts().double()
    labels = shares.multinomial(BATCH, True, generator=generator)
    return [DataSample().set_gt_label(int(label)) for label in labels]


def make_model(
    head: dict, channels: int, depth: int, device: str
) -> nn.Module:
    """A classifier of CIFAR's images."""
    torch.manual_seed(0)
    width = 4 * channels
    config = dict(
        type='ImageClassifier',
        backbone=dict(
            type='mmgeom.CIFARResNet', depth=depth, base_channels=channels
        ),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(num_classes=NUM_CLASSES, in_channels=width, **head),
    )
    model = MODELS.build(config).to(device)
    if hasattr(model.head, 'set_label_distribution'):
        distribution = LabelDistribution(class_counts())
        model.head.set_label_distribution(distribution)
    return model.train()


def sgd_step(
    module: nn.Module, losses: Callable[[], Any], total: Callable
) -> Callable[[], None]:
    """Loss, gradient, and a step of SGD with momentum."""
    # A fixed classifier alone has nothing to train.
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(
        parameters or [nn.Parameter(torch.zeros(1))],
        lr=1e-3,
        momentum=0.9,
        weight_decay=5e-4,
    )

    def step() -> None:
        optimizer.zero_grad()
        total(losses())[0].backward()
        optimizer.step()

    return step


def model_step(model: nn.Module, device: str) -> Callable[[], None]:
    """A whole step."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(BATCH, 3, 32, 32, generator=generator).to(device)
    samples = [sample.to(device) for sample in make_samples()]

    def losses() -> dict:
        return model(images, samples, mode='loss')

    return sgd_step(model, losses, model.parse_losses)


def head_step(model: nn.Module, device: str) -> Callable[[], None]:
    """A step of the head alone, with the gradient of the features."""
    generator = torch.Generator().manual_seed(1)
    width = model.head.in_channels
    feature = torch.randn(BATCH, width, generator=generator).to(device)
    feature.requires_grad_()
    samples = [sample.to(device) for sample in make_samples()]

    def losses() -> dict:
        feature.grad = None
        return model.head.loss((feature,), samples)

    return sgd_step(model.head, losses, model.parse_losses)


def measure(
    name: str, head: dict, channels: int, depth: int, args: argparse.Namespace
) -> dict:
    """A row of the table."""
    device = args.device
    steps = {}
    for key, config in (('linear', LINEAR), ('own', head)):
        model = make_model(config, channels, depth, device)
        steps[key] = model_step(model, device)
        steps[f'{key}_head'] = head_step(model, device)
    times = paired_times(steps, args.repeats, device)
    row = dict(head=name, width=4 * channels)
    row |= {f'{key}_ms': 1000 * value for key, value in times.items()}
    row['ratio'] = times['own'] / times['linear']
    extra = times['own_head'] - times['linear_head']
    row['ratio_by_head'] = 1 + extra / times['linear']
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    DefaultScope.get_instance('head_step', scope_name='mmpretrain')
    depth = 8 if args.smoke else DEPTH
    rows = []
    for name, (head, channels) in HEADS.items():
        rows.append(measure(name, head, channels, depth, args))
    report(
        f'Training step, ResNet-{depth}, batch {BATCH}, {args.device}',
        rows,
        args,
    )


if __name__ == '__main__':
    main()
