# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Supervised contrastive loss against pytorch-metric-learning's.

A step is the loss of N unit features of width 128 with its gradient. All
losses of a row take turns in one run, so that ratios stay comparable on a
machine with other work; ``time_ratio`` and ``memory_ratio`` say how much
faster our loss is and how much less extra memory it takes with the
implementation that it chooses by size. ``classwise`` has a temperature for
each class, ``averaged`` is the class-averaged form with a prototype for each
class.
"""

import argparse
import importlib.util
from collections.abc import Callable

import torch
from harness import add_arguments, paired_times, peak_memory, report
from torch import Tensor

from mmgeom.geometry.contrast import supervised_contrastive_loss
from mmgeom.geometry.precision import unit_vectors

WIDTH, NUM_CLASSES, TEMPERATURE = 128, 100, 0.1
PEER = 'pytorch_metric_learning'


def make_batch(number: int, device: str) -> tuple[Tensor, Tensor]:
    """Unit features with gradient and long-tailed labels."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(number, WIDTH, generator=generator)
    shares = 100 ** -(torch.arange(NUM_CLASSES) / (NUM_CLASSES - 1))
    labels = shares.multinomial(number, True, generator=generator)
    features = unit_vectors(features).to(device)
    return features.requires_grad_(), labels.to(device)


def our_step(
    implementation: str, variant: str, number: int, device: str
) -> Callable[[], Tensor]:
    """Loss and gradient of ours."""
    features, labels = make_batch(number, device)
    options: dict = dict(
        temperature=TEMPERATURE, implementation=implementation
    )
    if variant == 'classwise':
        options['temperature'] = torch.linspace(
            TEMPERATURE, 1, NUM_CLASSES, device=device
        )
    if variant == 'averaged':
        prototypes, _ = make_batch(NUM_CLASSES, device)
        options |= dict(
            form='class_averaged',
            extra_keys=prototypes,
            extra_labels=torch.arange(NUM_CLASSES, device=device),
        )

    def step() -> Tensor:
        features.grad = None
        loss = supervised_contrastive_loss(features, labels, **options)
        loss.backward()
        return loss.detach()

    return step


def peer_step(number: int, device: str) -> Callable[[], Tensor]:
    """Loss and gradient of pytorch-metric-learning."""
    from pytorch_metric_learning.losses import SupConLoss

    features, labels = make_batch(number, device)
    peer = SupConLoss(temperature=TEMPERATURE)

    def step() -> Tensor:
        features.grad = None
        loss = peer(features, labels)
        loss.backward()
        return loss.detach()

    return step


def measure(number: int, with_peer: bool, args: argparse.Namespace) -> dict:
    """A row of the table."""
    device = args.device
    makers: dict = {
        name: (our_step, (implementation, variant, number, device))
        for name, implementation, variant in (
            ('ours', 'auto', 'plain'),
            ('dense', 'dense', 'plain'),
            ('tiled', 'tiled', 'plain'),
            ('classwise', 'auto', 'classwise'),
            ('averaged', 'auto', 'averaged'),
        )
    }
    if with_peer:
        makers['peer'] = (peer_step, (number, device))
    steps = {name: make(*values) for name, (make, values) in makers.items()}
    times = paired_times(steps, args.repeats, device)
    row = dict(N=number)
    row |= {f'{name}_ms': 1000 * seconds for name, seconds in times.items()}
    difference = 0.0
    if with_peer:
        difference = (steps['ours']() / steps['peer']() - 1).abs().item()
    del steps
    memory = {
        name: peak_memory(make, values, device)
        for name, (make, values) in makers.items()
    }
    row |= {f'{name}_mb': value for name, value in memory.items()}
    if with_peer:
        row['time_ratio'] = times['peer'] / times['ours']
        row['memory_ratio'] = memory['peer'] / max(memory['ours'], 1e-3)
        row['difference'] = difference
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    with_peer = importlib.util.find_spec(PEER) is not None
    if not with_peer:
        print(
            f'{PEER} is not installed, so that only our loss is measured: '
            'pip install pytorch-metric-learning to compare with it.'
        )
    sizes = (64,) if args.smoke else (256, 512, 1024, 2048, 4096, 8192)
    rows = [measure(number, with_peer, args) for number in sizes]
    report(
        f'Supervised contrastive loss, h = {WIDTH}, {args.device}', rows, args
    )


if __name__ == '__main__':
    main()
