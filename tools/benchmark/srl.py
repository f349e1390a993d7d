# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The geometric losses of SRL against a plain loop over label bins.

A step takes a batch of features, makes the centroids of its bins, fills in
the others from the surrogate, and computes the enveloping, homogeneity and
contrastive losses with the gradient of the features. The loop does so bin by
bin, as the formulas are written, with the nearest centroid of each point by
autograd. Both are checked to agree before they are timed. A third column
draws new points in each step, in the span of the centroids.
"""

import argparse
from collections.abc import Callable

import torch
from harness import add_arguments, paired_times, peak_memory, report
from torch import Tensor
from torch.nn import functional as F

from mmgeom.geometry.precision import unit_vectors
from mmgeom.geometry.sphere import sample_span, uniform_points
from mmgeom.geometry.surrogate import Surrogate
from mmgeom.geometry.trace import (
    batch_centroids,
    centroid_contrast,
    enveloping_loss,
    homogeneity_loss,
)

BATCH, TEMPERATURE, WEIGHTS = 64, 0.3, (0.1, 0.1, 1.0)


def make_batch(num_bins: int, dim: int, num_points: int, device: str) -> tuple:
    """Features with gradient, bins, a full surrogate, labels and points."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(BATCH, dim, generator=generator).to(device)
    bins = torch.randint(0, num_bins, (BATCH,), generator=generator)
    surrogate = Surrogate(num_bins, dim)
    surrogate.accumulate(
        uniform_points(num_bins, dim, generator), torch.arange(num_bins)
    )
    surrogate.update()
    labels = torch.arange(num_bins, dtype=torch.float64)
    points = uniform_points(num_points, dim, generator)
    return (
        features.requires_grad_(),
        bins.to(device),
        surrogate.to(device),
        labels.to(device),
        points.to(device),
    )


def combine(env: Tensor, homo: Tensor, con: Tensor) -> Tensor:
    """The weighted sum of the losses."""
    return WEIGHTS[0] * env + WEIGHTS[1] * homo + WEIGHTS[2] * con


def mmgeom_step(
    num_bins: int,
    dim: int,
    num_points: int,
    device: str,
    sampled: bool = False,
) -> Callable[[], Tensor]:
    """Loss and gradient with the functions of this package."""
    batch = make_batch(num_bins, dim, num_points, device)
    features, bins, surrogate, labels, points = batch
    generator = torch.Generator(device).manual_seed(0)

    def step() -> Tensor:
        z = unit_vectors(features)
        rows, available = surrogate.refill(*batch_centroids(z, bins, num_bins))
        if sampled:
            span = sample_span(rows, num_points, generator)
            env = enveloping_loss(span.vectors, span.points, available)
        else:
            env = enveloping_loss(rows, points, available)
        homo = homogeneity_loss(rows, labels, available)
        con = centroid_contrast(z, bins, rows, available, TEMPERATURE)
        return _differentiate(combine(env, homo, con), features)

    return step


def loop_step(
    num_bins: int, dim: int, num_points: int, device: str
) -> Callable[[], Tensor]:
    """Loss and gradient with a loop over the bins."""
    batch = make_batch(num_bins, dim, num_points, device)
    features, bins, surrogate, labels, points = batch
    stored = surrogate.centroids

    def step() -> Tensor:
        z = F.normalize(features, dim=1)
        rows = []
        for k in range(num_bins):
            own = bins == k
            if own.any():
                rows.append(F.normalize(z[own].mean(0), dim=0))
            else:
                rows.append(stored[k])
        trace = torch.stack(rows)
        env = -(points @ trace.T).max(1).values.mean()
        homo = sum(
            (rows[k + 1] - rows[k]).square().sum()
            / (labels[k + 1] - labels[k])
            for k in range(num_bins - 1)
        )
        con = F.cross_entropy(z @ trace.detach().T / TEMPERATURE, bins)
        return _differentiate(combine(env, homo, con), features)

    return step


def _differentiate(loss: Tensor, features: Tensor) -> Tensor:
    loss.backward()
    grad, features.grad = features.grad, None
    return grad


def measure(
    num_bins: int, dim: int, num_points: int, args: argparse.Namespace
) -> dict:
    """A row of the table."""
    sizes = (num_bins, dim, num_points, args.device)
    makers = dict(
        mmgeom=(mmgeom_step, sizes),
        sampled=(mmgeom_step, (*sizes, True)),
        loop=(loop_step, sizes),
    )
    steps = {name: make(*values) for name, (make, values) in makers.items()}
    difference = (steps['mmgeom']() - steps['loop']()).abs().max()
    scale = steps['loop']().abs().max()
    if difference > 1e-4 * scale:
        raise RuntimeError(f'gradients differ by {difference} of {scale}.')
    times = paired_times(steps, args.repeats, args.device)
    del steps
    row = dict(K=num_bins, d=dim, N=num_points, B=BATCH)
    for name, (make, values) in makers.items():
        row[f'{name}_ms'] = 1000 * times[name]
        row[f'{name}_mb'] = peak_memory(make, values, args.device)
    row['time_ratio'] = times['loop'] / times['mmgeom']
    row['sampled_ratio'] = times['loop'] / times['sampled']
    row['difference'] = f'{float(difference / scale):.1e}'
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.set_defaults(repeats=51)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    sizes = [(102, 128, 2000), (187, 128, 2000), (102, 2048, 2000)]
    sizes.append((1000, 128, 100_000))
    if args.smoke:
        sizes = [(10, 16, 100)]
    rows = [measure(*size, args) for size in sizes]
    report(f'Losses of SRL, batch {BATCH}, {args.device}', rows, args)


if __name__ == '__main__':
    main()
