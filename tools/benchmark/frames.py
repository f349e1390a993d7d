# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Multi-centre loss without matrices against the dense form.

A step is the loss of a batch of features against their own centres, with its
gradient. The dense form multiplies with the matrix of all F centres. The
last column counts a step of the axis layout in elementwise passes over the
batch, a pass being ``y = 2 * x`` with a new result.
"""

import argparse
import math
from collections.abc import Callable

import torch
from harness import add_arguments, paired_times, peak_memory, report
from torch import Tensor
from torch.nn import functional as F

from mmgeom.geometry import (
    MultiCenterFrame,
    allocate_centers,
    cosine_center_loss,
    norm_penalty,
)

F_MEAN, THETA, BATCH = 20, 0.2, 128


def make_batch(num_classes: int, dim: int, device: str) -> tuple:
    """Features with gradient, labels, and a long-tailed allocation."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, dim, generator=generator).to(device)
    y = torch.randint(0, num_classes, (BATCH,), generator=generator)
    rank = torch.arange(num_classes) / (num_classes - 1)
    counts = (1280 * 256**-rank).long()
    centers = allocate_centers(counts, F_MEAN)
    return x.requires_grad_(), y.to(device), centers


def frame_step(
    layout: str, num_classes: int, device: str
) -> Callable[[], None]:
    """Loss and gradient with a frame."""
    rank = (F_MEAN + 1) * num_classes
    dim = 1 << (rank - 1).bit_length() if layout == 'hadamard' else rank
    x, y, centers = make_batch(num_classes, dim, device)
    frame = MultiCenterFrame(
        num_classes, F_MEAN * num_classes, dim, THETA, layout
    )
    frame.set_centers(centers)
    frame.to(device)

    def step() -> None:
        terms = frame.own_terms(x, y)
        loss = cosine_center_loss(terms, frame.centers[y], THETA).mean()
        (loss + 6e-4 * norm_penalty(terms.norm).mean()).backward()
        x.grad = None

    return step


def dense_step(num_classes: int, device: str) -> Callable[[], None]:
    """Loss and gradient with the matrix of all centres."""
    dim = (F_MEAN + 1) * num_classes
    x, y, centers = make_batch(num_classes, dim, device)
    own = torch.arange(num_classes).repeat_interleave(centers).to(device)
    # The values of the matrix do not matter for time and memory.
    matrix = torch.full(
        (F_MEAN * num_classes, dim), math.sqrt(1 / dim), device=device
    )

    def step() -> None:
        cosine = F.normalize(x, dim=1) @ matrix.T
        mask = own[None] == y[:, None]
        loss = ((cosine - 1).square() * mask).sum(1).mean()
        norm: Tensor = x.norm(dim=1)
        (loss + 6e-4 * (norm - 1).square().mean()).backward()
        x.grad = None

    return step


def pass_step(num_classes: int, device: str) -> Callable[[], Tensor]:
    """One elementwise pass over the batch."""
    x, _, _ = make_batch(num_classes, (F_MEAN + 1) * num_classes, device)
    x = x.detach()
    return lambda: torch.mul(x, 2)


def measure(num_classes: int, dense: bool, args: argparse.Namespace) -> dict:
    """A row of the table."""
    device = args.device
    makers = dict(
        axis=(frame_step, ('axis', num_classes, device)),
        hadamard=(frame_step, ('hadamard', num_classes, device)),
        one_pass=(pass_step, (num_classes, device)),
    )
    if dense:
        makers['dense'] = (dense_step, (num_classes, device))
    steps = {name: make(*values) for name, (make, values) in makers.items()}
    times = paired_times(steps, args.repeats, device)
    del steps
    memory = {
        name: peak_memory(make, values, device)
        for name, (make, values) in makers.items()
        if name != 'one_pass'
    }
    dim = (F_MEAN + 1) * num_classes
    matrix = F_MEAN * num_classes * dim * 4
    row = dict(K=num_classes, d=dim, batch_mb=BATCH * dim * 4 / 2**20)
    for name in ('axis', 'hadamard'):
        row[f'{name}_ms'] = 1000 * times[name]
        row[f'{name}_mb'] = memory[name]
    if dense:
        row['dense_ms'] = 1000 * times['dense']
        row['dense_mb'] = memory['dense'] + matrix / 2**20
        row['time_ratio'] = times['dense'] / times['axis']
        row['memory_ratio'] = row['dense_mb'] / max(memory['axis'], 1e-3)
    else:
        row |= dict(dense_ms='-', dense_mb=f'{matrix / 1e9:.1f} GB')
        row |= dict(time_ratio='-', memory_ratio='-')
    row['axis_passes'] = times['axis'] / times['one_pass']
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    sizes = {10: True} if args.smoke else {10: True, 100: True, 500: True}
    if not args.smoke:
        sizes |= {1000: False, 8142: False}
    rows = [measure(k, dense, args) for k, dense in sizes.items()]
    report(f'Frames, f = {F_MEAN}, batch {BATCH}, {args.device}', rows, args)


if __name__ == '__main__':
    main()
