# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What metrics of regression read from data samples."""

from collections.abc import Sequence

import torch
from torch import Tensor


def stacked_values(data_samples: Sequence[dict], key: str) -> Tensor:
    """The numbers of each sample of a batch.

    Args:
        data_samples (Sequence[dict]): Model outputs.
        key (str): ``'pred_score'`` or ``'gt_score'``.

    Returns:
        Tensor: float64 on the CPU, shape ``(N, D)``.

    Raises:
        ValueError: When a sample has none, or not as many as the others.
    """
    for sample in data_samples:
        if sample.get(key) is None:
            raise ValueError(
                f'a data sample has no {key!r}, only {sorted(sample)}: '
                'regression needs `gt_score` from the dataset and a head '
                'whose predict() sets `pred_score`.'
            )
    rows = [
        torch.as_tensor(sample[key]).reshape(-1) for sample in data_samples
    ]
    sizes = sorted({len(row) for row in rows})
    if len(sizes) > 1:
        raise ValueError(
            f'the numbers in {key!r} of a batch vary between samples, '
            f'{sizes}: all samples need as many.'
        )
    return torch.stack(rows).detach().cpu().double()


def single_number(sample: dict, key: str) -> float:
    """A finite number of a sample.

    Args:
        sample (dict): A model output.
        key (str): Name of the number.

    Returns:
        float: The number.

    Raises:
        ValueError: When there is none, or more than one, or it is not
            finite.
    """
    if sample.get(key) is None:
        raise ValueError(
            f'a data sample has no {key!r} to group by, only '
            f'{sorted(sample)}: add it to the results of the dataset and to '
            'the keys that PackInputs packs.'
        )
    value = torch.as_tensor(sample[key]).reshape(-1)
    if len(value) != 1 or not value.isfinite().all():
        raise ValueError(
            f'{key!r} must be one finite number a sample to group by, got '
            f'{sample[key]}.'
        )
    return value.item()
