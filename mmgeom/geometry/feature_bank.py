# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""All features of an epoch, in half precision."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

#: Entries of the largest float32 copy of stored features.
_MAX_ENTRIES = 1 << 22

#: The same in main memory, so that all steps on a piece find it in the cache.
_CACHE_ENTRIES = 1 << 18


class FeatureBank:
    """Features with their classes, and their sums by class.

    Sums are of the stored features, normalised again after they were
    rounded, so that the mean of a class of one is that one. They are made
    batch by batch, while the rows are at hand.
    """

    def __init__(self) -> None:
        # Rows in half precision, and the label and the norm of each.
        self._batches: list[tuple[Tensor, Tensor]] = []
        self._totals: tuple[Tensor, Tensor] | None = None

    def clear(self) -> None:
        """Forget all features."""
        self._batches.clear()
        self._totals = None

    def add(
        self, rows: Tensor, labels: Tensor, keep: Tensor, like: Tensor
    ) -> None:
        """Store a batch. Does not wait for the device.

        Args:
            rows (Tensor): Unit features, shape ``(B, h)``.
            labels (Tensor): Classes in ``[0, K)``, shape ``(B,)``.
            keep (Tensor): Which rows are features, bool, shape ``(B,)``.
            like (Tensor): As of :meth:`totals`.
        """
        sums, counts = self._totals = self.totals(like)
        rows = rows.half().masked_fill_(~keep[:, None], 0)
        wide = rows.to(sums.dtype)
        norm = wide.norm(dim=1).masked_fill(~keep, 1)
        # Labels are exact in float32 up to 16 million classes.
        columns = labels.masked_fill(~keep, -1), norm
        table = torch.stack([column.float() for column in columns], 1)
        self._batches.append((rows, table))
        label = labels.masked_fill(~keep, 0)
        sums.index_add_(0, label, wide.div_(norm[:, None]))
        counts.index_add_(0, label, keep.to(counts.dtype))

    def totals(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of the stored features by class, and their numbers.

        Args:
            like (Tensor): Of the shape ``(K, h)`` and on the device of the
                sums, which are in its type or in float32 if that is wider.

        Returns:
            tuple[Tensor, Tensor]: Shapes ``(K, h)`` and ``(K,)``.
        """
        if self._totals is None:
            dtype = torch.promote_types(like.dtype, torch.float32)
            sums = torch.zeros_like(like, dtype=dtype)
            return sums, sums.new_zeros(len(sums))
        sums, counts = self._totals
        return sums.to(like.device), counts.to(like.device)

    def angles(self, direction: Tensor) -> Tensor:
        r"""Angle of each feature to the direction of its class.

        .. math:: \theta = 2 \arcsin(\|z - \hat\mu\| / 2)

        exact to rounding but for angles near :math:`\pi`, where the error
        grows to that of half precision.

        Args:
            direction (Tensor): Unit rows, float32, shape ``(K, h)``.

        Returns:
            Tensor: Angle and label of each feature, shape ``(M, 2)``.
        """
        tables = [direction.new_zeros(0, 2)]
        own = direction.new_empty(0)
        for rows, labels in self.pieces(direction.shape[1], direction.device):
            if len(own) < len(rows):
                own = torch.empty_like(rows)
            mean = own[: len(rows)]
            torch.index_select(direction, 0, labels.clamp(min=0), out=mean)
            chord = rows.sub_(mean).norm(dim=1)
            tables.append(torch.stack([chord, labels.float()], 1))
        table = torch.cat(tables)
        table[:, 0] = 2 * (table[:, 0] / 2).clamp(max=1).asin()
        return table[table[:, 1] >= 0]

    def pieces(
        self, dim: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Stored unit features, a few at a time, in float32.

        Args:
            dim (int): Width h of the features.
            device (torch.device): Where they are wanted.

        Yields:
            tuple[Tensor, Tensor]: Rows, in memory that the next piece takes
            over, and their classes; -1 for a row that is no feature.
        """
        entries = _MAX_ENTRIES
        if device.type == 'cpu':
            entries = min(entries, _CACHE_ENTRIES * torch.get_num_threads())
        size = max(1, entries // dim)
        wide = torch.empty(size, dim, device=device)
        tables: list[Tensor] = []
        number = 0
        for batch in self._batches:
            parts = (tensor.split(size) for tensor in batch)
            for rows, table in zip(*parts, strict=True):
                if number + len(rows) > size:
                    yield _unit_piece(wide[:number], tables)
                    tables, number = [], 0
                wide[number : number + len(rows)].copy_(rows)
                tables.append(table)
                number += len(rows)
        if number:
            yield _unit_piece(wide[:number], tables)


def _unit_piece(
    rows: Tensor, tables: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Normalise rows in place by the norms of tables, and read labels."""
    label, norm = torch.cat(tuple(tables)).to(rows.device).unbind(1)
    return rows.div_(norm[:, None]), label.long()
