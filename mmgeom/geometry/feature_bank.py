# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""All features of an epoch, in half precision."""

import warnings
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

#: Entries of the largest float32 copy of stored features.
_MAX_ENTRIES = 1 << 22

#: The same in main memory, so that all steps on a piece find it in the cache.
_CACHE_ENTRIES = 1 << 19

#: Norm up to which a feature counts as zero.
_MIN_LENGTH = 1e-12

#: Cosine from which the angle is not told by its cosine, but by the chord.
_NEAR = 0.999


class FeatureBank:
    """Features with their classes, and their sums by class.

    Sums are of the stored features, normalised again after they were
    rounded, so that the mean of a class of one is that one. They are made
    batch by batch, while the rows are at hand.
    """

    def __init__(self) -> None:
        # Rows in half precision, and the label and the norm of each.
        self._batches: list[tuple[Tensor, Tensor]] = []
        # One row more than classes, for rows that are no features.
        self._totals: tuple[Tensor, Tensor] | None = None
        # New memory for each batch takes longer than all that is done there.
        self._wide = torch.empty(0)

    def clear(self) -> None:
        """Forget all features."""
        self._batches.clear()
        self._totals = None
        self._wide = torch.empty(0)

    def add(self, features: Tensor, labels: Tensor, like: Tensor) -> None:
        """Store a batch. Does not wait for the device.

        Args:
            features (Tensor): Of any length, shape ``(B, h)``. Rows that are
                not finite or are zero are left out.
            labels (Tensor): Classes in ``[0, K)``, shape ``(B,)``.
            like (Tensor): As of :meth:`totals`.
        """
        sums, counts = self._totals = self._running(like)
        wide = self._wide_copy(features, like.device)
        keep = _normalize(wide)
        rows = wide.half()
        norm = wide.copy_(rows).norm(dim=1)
        # Labels are exact in float32 up to 16 million classes.
        columns = labels.masked_fill(~keep, -1), norm
        table = torch.stack([column.float() for column in columns], 1)
        self._batches.append((rows, table))
        # Taking rows out would need their number, and so the device.
        label = labels.masked_fill(~keep, len(like))
        wide.div_(norm[:, None])
        sums.index_add_(0, label, wide.to(sums.dtype))
        counts.index_add_(0, label, torch.ones_like(label).to(counts.dtype))

    def totals(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of the stored features by class, and their numbers.

        Args:
            like (Tensor): Of the shape ``(K, h)`` and on the device of the
                sums, which are in its type or in float32 if that is wider.

        Returns:
            tuple[Tensor, Tensor]: Shapes ``(K, h)`` and ``(K,)``.
        """
        sums, counts = self._running(like)
        return sums[:-1], counts[:-1]

    def angles(self, mean: Tensor, counts: Tensor) -> Tensor:
        r"""Angle of each feature to the mean of its class.

        .. math:: \theta = 2 \arcsin(\|z - \hat\mu\| / 2)

        exact to rounding but for angles near :math:`\pi`, where the error
        grows to that of half precision. In main memory, where that takes
        longer than an inner product, angles above 0.05 are the arc cosine of
        one, which errs by up to :math:`10^{-5}`. The only feature of
        a class has the angle 0; to a mean of zeros no angle has a meaning.

        Args:
            mean (Tensor): Of any length, float32, shape ``(K, h)``.
            counts (Tensor): Features of each class over all processes,
                shape ``(K,)``.

        Returns:
            Tensor: Angle and label of each feature, shape ``(M, 2)``.
        """
        label, norm = self._columns(mean.device)
        batches = [rows for rows, _ in self._batches]
        own = label.clamp(min=0)
        lone = counts[own] == 1
        if mean.device.type == 'cpu':
            angle = _angles_by_products(batches, mean, own, norm, ~lone)
        else:
            angle = _angles_by_chords(batches, mean, own, norm)
        angle.masked_fill_(lone, 0)
        table = torch.stack([angle, label.to(angle.dtype)], 1)
        known = label >= 0
        return table if known.all() else table[known]

    def _wide_copy(self, features: Tensor, device: torch.device) -> Tensor:
        """A copy in float32 or wider that the next batch takes over."""
        dtype = torch.promote_types(features.dtype, torch.float32)
        wide = self._wide
        fits = wide.dtype == dtype and wide.shape[1:] == features.shape[1:]
        if not fits or wide.device != device or len(wide) < len(features):
            wide = torch.empty(features.shape, dtype=dtype, device=device)
            self._wide = wide
        return wide[: len(features)].copy_(features)

    def _running(self, like: Tensor) -> tuple[Tensor, Tensor]:
        if self._totals is None:
            dtype = torch.promote_types(like.dtype, torch.float32)
            sums = like.new_zeros(len(like) + 1, like.shape[1], dtype=dtype)
            return sums, sums.new_zeros(len(sums))
        sums, counts = self._totals
        return sums.to(like.device), counts.to(like.device)

    def _columns(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Classes and norms of all stored rows."""
        tables = [table for _, table in self._batches]
        tables = tables or [torch.zeros(0, 2)]
        label, norm = torch.cat(tables).to(device).unbind(1)
        return label.long(), norm


def _normalize(rows: Tensor) -> Tensor:
    """Divide rows by their norms in place, and tell which have a direction.

    The others are not finite or are zero, and hold anything afterwards.
    """
    norm = rows.norm(dim=1)
    rows.div_(norm[:, None])
    return (norm > _MIN_LENGTH) & (norm < torch.inf)


def _select(batches: Sequence[Tensor], index: Tensor) -> Iterator[Tensor]:
    """Rows of the concatenation of batches, for an index in order."""
    size = torch.tensor([len(rows) for rows in batches])
    stop = size.cumsum(0)
    batch = torch.searchsorted(stop, index, right=True)
    index = index - (stop - size)[batch]
    numbers = torch.bincount(batch, minlength=len(batches)).tolist()
    for rows, own in zip(batches, index.split(numbers), strict=True):
        if len(own):
            yield rows if len(own) == len(rows) else rows[own]


def pieces(
    batches: Iterable[Tensor], dim: int, device: torch.device
) -> Iterator[Tensor]:
    """Features in float32, a few at a time.

    Args:
        batches (Iterable[Tensor]): In half precision, each of shape
            ``(B, h)``.
        dim (int): Width h of the features.
        device (torch.device): Where they are wanted.

    Yields:
        Tensor: Rows, in memory that the next piece takes over.
    """
    entries = _MAX_ENTRIES
    if device.type == 'cpu':
        entries = min(entries, _CACHE_ENTRIES * torch.get_num_threads())
    size = max(1, entries // dim)
    wide = torch.empty(size, dim, dtype=torch.float32, device=device)
    number = 0
    for batch in batches:
        for rows in batch.split(size):
            if number + len(rows) > size:
                yield wide[:number]
                number = 0
            wide[number : number + len(rows)].copy_(rows)
            number += len(rows)
    if number:
        yield wide[:number]


def _angles_by_products(
    batches: Sequence[Tensor],
    mean: Tensor,
    label: Tensor,
    norm: Tensor,
    wanted: Tensor,
) -> Tensor:
    scale = norm * mean.norm(dim=1)[label]
    scale.clamp_(min=torch.finfo(scale.dtype).tiny)
    cosine = _products(batches, mean, label).div_(scale)
    near = ((cosine > _NEAR) & wanted).nonzero()[:, 0]
    angle = cosine.clamp_(-1, 1).acos_()
    if len(near):
        chosen = _select(batches, near)
        angle[near] = _angles_by_chords(chosen, mean, label[near], norm[near])
    return angle


def _angles_by_chords(
    batches: Iterable[Tensor], mean: Tensor, label: Tensor, norm: Tensor
) -> Tensor:
    length = mean.norm(dim=1).clamp_(min=torch.finfo(mean.dtype).tiny)
    # Means as long as the features.
    scale = norm / length[label]
    chord = torch.empty_like(scale)
    own = mean.new_empty(0)
    start = 0
    for rows in pieces(batches, mean.shape[1], mean.device):
        if len(own) < len(rows):
            own = torch.empty_like(rows)
        part = slice(start, start + len(rows))
        target = torch.index_select(mean, 0, label[part], out=own[: len(rows)])
        target.mul_(scale[part, None])
        torch.norm(rows.sub_(target), dim=1, out=chord[part])
        start = part.stop
    return 2 * chord.div_(norm).div_(2).clamp_(max=1).asin_()


def _products(
    batches: Iterable[Tensor], table: Tensor, index: Tensor
) -> Tensor:
    r"""Inner product of each row with a row of a table in main memory.

    .. math:: p_i = z_i \cdot t_{j_i}

    As the entries of :math:`Z T^\top` that a sparse matrix with one of them
    in each row selects, which needs no copy of the selected rows.
    """
    # Zeros, as what is there counts, if zero times: not a number remains one.
    result = table.new_zeros(len(index))
    bounds = torch.arange(len(index) + 1)
    start = 0
    with warnings.catch_warnings():
        # Of sparse matrices in general, which may change.
        warnings.simplefilter('ignore', UserWarning)
        for rows in pieces(batches, table.shape[1], table.device):
            stop = start + len(rows)
            chosen = torch.sparse_csr_tensor(
                bounds[: len(rows) + 1],
                index[start:stop],
                result[start:stop],
                (len(rows), len(table)),
                check_invariants=False,
            )
            torch.sparse.sampled_addmm(
                chosen, rows, table.t(), beta=0, out=chosen
            )
            result[start:stop] = chosen.values()
            start = stop
    return result
