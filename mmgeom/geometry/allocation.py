# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""How many centres each class of a multi-centre classifier gets."""

from collections.abc import Sequence

import torch
from torch import Tensor

MODES = ('class_aware', 'average', 'inverse')


def allocate_centers(
    counts: Tensor,
    f: int,
    mode: str = 'class_aware',
    surplus: str = 'tail',
) -> Tensor:
    r"""Numbers of centres :math:`f_k` with :math:`\sum_k f_k = fK`.

    - ``'class_aware'``, the Class-Aware Strategy: with the classes in
      ascending order of their counts,
      :math:`a_r = \lfloor (f-1) K n_r / N \rfloor + 1`, the list is
      reversed, so that the smallest class receives the largest number, and
      what is missing to :math:`fK` is given out one by one.
      ``surplus='tail'`` gives it to the smallest classes first, which makes
      :math:`f_k` non-increasing in :math:`n_k` and reproduces the worked
      example of the paper; ``'head'`` is the text of the paper read on a
      descending list, where the largest classes come first.
    - ``'average'``: :math:`f_k = f`.
    - ``'inverse'``: :math:`f_k \propto 1/n_k`, at least 1, rounded by
      largest remainders. An extension of this package, for profiles that
      are not exponential.

    Source: NCMC (NeurIPS 2024), Section 3.5.

    Args:
        counts (Tensor): Training samples of each class, shape ``(K,)``,
            positive integers.
        f (int): Mean number of centres of a class, at least 1.
        mode (str): As above. Defaults to ``'class_aware'``.
        surplus (str): ``'tail'`` or ``'head'``. Defaults to ``'tail'``.

    Returns:
        Tensor: int64, shape ``(K,)``, at least 1 each.

    Raises:
        ValueError: When an argument is out of its range, or a class has no
            sample and the mode divides by it.
    """
    if f < 1:
        raise ValueError(f'f must be at least 1, got {f}.')
    if mode not in MODES:
        raise ValueError(
            f'center mode {mode!r} is unknown: use one of {list(MODES)} or a '
            'list of numbers.'
        )
    if surplus not in ('tail', 'head'):
        raise ValueError(f"surplus must be 'tail' or 'head', got {surplus!r}.")
    counts = torch.as_tensor(counts, dtype=torch.int64)
    if mode == 'average':
        return torch.full_like(counts, f)
    if (counts < 1).any():
        empty = torch.nonzero(counts < 1).flatten()[:8].tolist()
        raise ValueError(
            f'class-aware numbers of centres need a training sample of every '
            f"class, but classes {empty} have none: use center_mode='average' "
            'or remove the classes.'
        )
    if mode == 'inverse':
        return _inverse(counts, f)
    return _class_aware(counts, f, descending=surplus == 'head')


def checked_centers(
    centers: Sequence[int] | Tensor, num_classes: int
) -> Tensor:
    """Check an explicit list of numbers of centres.

    Args:
        centers (Sequence[int] | Tensor): One for each class.
        num_classes (int): K.

    Returns:
        Tensor: int64, shape ``(K,)``.

    Raises:
        ValueError: Unless there are K whole numbers of at least 1.
    """
    numbers = torch.as_tensor(centers)
    whole = numbers.to(torch.int64)
    if (
        numbers.shape != (num_classes,)
        or (whole != numbers).any()
        or ((whole < 1).any())
    ):
        raise ValueError(
            f'numbers of centres must be {num_classes} whole numbers of at '
            f'least 1, one for each class, got {numbers.tolist()[:8]} '
            f'({numbers.numel()} numbers).'
        )
    return whole


def _class_aware(counts: Tensor, f: int, descending: bool) -> Tensor:
    num_classes = len(counts)
    order = torch.argsort(counts, stable=True, descending=descending)
    ordered = counts[order]
    share = (f - 1) * num_classes * ordered // counts.sum() + 1
    numbers = share.flip(0)
    missing = f * num_classes - int(numbers.sum())
    numbers[:missing] += 1
    result = torch.empty_like(counts)
    result[order] = numbers
    return result


def _inverse(counts: Tensor, f: int) -> Tensor:
    """One centre each, the others in proportion to 1/n_k."""
    num_classes = len(counts)
    weight = 1 / counts.double()
    exact = weight / weight.sum() * (f - 1) * num_classes
    numbers = exact.floor().to(torch.int64)
    missing = (f - 1) * num_classes - int(numbers.sum())
    rank = torch.argsort(exact - numbers, descending=True, stable=True)
    numbers[rank[:missing]] += 1
    return numbers + 1
