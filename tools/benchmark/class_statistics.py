# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Statistics of an epoch's features against one read of them.

``memory`` looks at every byte of a bank of half-precision features once, and
``convert`` makes float32 of them, in pieces that stay in the cache, as does
all that computes with them. ``read`` is what any pass over the bank has to
do: the float32 sum of such pieces; ``sum`` is torch's own such sum in one
call, which is slower on a CPU. ``means`` adds rows that are at hand to the
sums of their classes, which the exact store does with each batch; ``update``
is the end of the epoch: the angles of all features to the means of their
classes, with exact 0.99 quantiles. ``ratio`` is that of both to a read,
``memory_ratio`` and ``sum_ratio`` those to ``memory`` and to torch's sum.
``accumulate`` is all that the batches of an epoch pay, from raw features, and
``stream`` and ``stream_update`` the same with the store of fixed size.
"""

import argparse
from collections.abc import Callable, Sequence

import torch
from harness import add_arguments, paired_times, report
from torch import Tensor

from mmgeom.geometry import ClassStatistics, unit_vectors

BATCH, ALPHA = 256, 0.99
#: Rows that differ; more are copies, which take as long.
DISTINCT = 1 << 16
#: Entries of a float32 piece, by device; on a CPU for each thread.
PIECE = dict(cpu=1 << 19, cuda=1 << 22)


def make_bank(
    number: int, dim: int, num_classes: int, device: str
) -> tuple[Tensor, Tensor]:
    """Unit features in half precision, and long-tailed labels."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randn(min(number, DISTINCT), dim, generator=generator)
    some = unit_vectors(some).half()
    bank = torch.empty(number, dim, dtype=torch.half, device=device)
    for piece in bank.split(DISTINCT):
        piece.copy_(some[: len(piece)])
    shares = 500 ** -(torch.arange(num_classes) / (num_classes - 1))
    labels = shares.multinomial(number, True, generator=generator)
    return bank, labels.to(device)


def memory_step(bank: Tensor) -> Callable[[], Tensor]:
    """Look at all bytes, in the widest numbers."""
    return bank.view(torch.int64).max


def read_steps(
    bank: Tensor,
) -> tuple[Callable[[], None], Callable[[], Tensor]]:
    """Everything in float32, and the sum of that."""
    entries = PIECE[bank.device.type]
    if bank.device.type == 'cpu':
        entries *= torch.get_num_threads()
    size = max(1, entries // bank.shape[1])
    wide = torch.empty(size, bank.shape[1], device=bank.device)

    def convert() -> None:
        for rows in bank.split(size):
            wide[: len(rows)].copy_(rows)

    def read() -> Tensor:
        total = wide.new_zeros(())
        for rows in bank.split(size):
            total += wide[: len(rows)].copy_(rows).sum()
        return total

    return convert, read


def means_step(
    bank: Tensor, labels: Tensor, num_classes: int
) -> Callable[[], Tensor]:
    """Add rows that are in the cache to the sums of their classes."""
    rows = bank[:BATCH].float()
    sums = rows.new_zeros(num_classes, bank.shape[1])

    def step() -> Tensor:
        for label in labels.split(BATCH):
            sums.index_add_(0, label, rows[: len(label)])
        return sums

    return step


def epoch_steps(
    bank: Tensor, labels: Tensor, num_classes: int, store: str
) -> tuple[Callable[[], None], Callable[[], None]]:
    """The batches of an epoch, and its end."""
    statistics = ClassStatistics(num_classes, bank.shape[1], ALPHA, store)
    statistics.to(bank.device)

    def accumulate() -> None:
        parts = bank.split(BATCH), labels.split(BATCH)
        for rows, label in zip(*parts, strict=True):
            statistics.accumulate(rows, label)

    return accumulate, statistics.update


def measure(sizes: Sequence[int], args: argparse.Namespace) -> dict:
    """A row of the table."""
    number, dim, num_classes = sizes
    bank, labels = make_bank(*sizes, args.device)
    # In turns, so that each update finds a full bank.
    convert, read = read_steps(bank)
    steps = dict(
        memory=memory_step(bank),
        convert=convert,
        read=read,
        sum=lambda: bank.sum(dtype=torch.float32),
        means=means_step(bank, labels, num_classes),
    )
    for store, names in (
        ('exact', ('accumulate', 'update')),
        ('stream', ('stream', 'stream_update')),
    ):
        made = epoch_steps(bank, labels, num_classes, store)
        steps |= dict(zip(names, made, strict=True))
    times = paired_times(steps, args.repeats, args.device)
    row = dict(N=number, h=dim, K=num_classes)
    row |= {f'{name}_ms': 1000 * value for name, value in times.items()}
    row['update_ratio'] = times['update'] / times['read']
    total = times['means'] + times['update']
    row['ratio'] = total / times['read']
    row['memory_ratio'] = total / times['memory']
    row['sum_ratio'] = total / times['sum']
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.set_defaults(repeats=3)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    # CIFAR-100-LT, ImageNet-LT and iNaturalist 2018.
    sizes = [(10_847, 128, 100), (115_846, 1024, 1000), (437_513, 1024, 8142)]
    if args.smoke:
        sizes = [(600, 16, 10)]
    rows = [measure(size, args) for size in sizes]
    report(f'Statistics of an epoch, {args.device}', rows, args)


if __name__ == '__main__':
    main()
