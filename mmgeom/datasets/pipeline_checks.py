# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Whether a pipeline gives the same sample every time."""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import torch


def require_deterministic(dataset: Any) -> None:
    """Check that the first sample is always the same.

    A transform counts as random when it takes numbers from a global random
    generator of Python, numpy or torch, whether or not it then changes this
    sample; or when two runs give different arrays. The generators are left
    as they were.

    Args:
        dataset (Any): A dataset of mmengine, or a wrapper of some.

    Raises:
        ValueError: When something random is found; names the transform, or
            the dataset when its pipeline cannot be seen.
    """
    pipeline = getattr(dataset, 'pipeline', None)
    transforms = getattr(pipeline, 'transforms', None)
    if transforms is None or not hasattr(dataset, 'get_data_info'):
        with deterministic(f'the pipeline of {type(dataset).__name__}'):
            dataset[0]
        return
    results = dataset.get_data_info(0)
    for transform in transforms:
        name = type(transform).__name__
        with deterministic(name):
            again = transform(copy.deepcopy(results))
            results = transform(results)
        if not isinstance(results, dict):
            return
        for key, value in results.items():
            if not _same_array(value, again.get(key)):
                _refuse(name)


@contextmanager
def deterministic(name: str) -> Iterator[None]:
    """Refuse that a global random generator is used, and restore it.

    Args:
        name (str): Of what runs inside.

    Raises:
        ValueError: At the end, when numbers were drawn.
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    now = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    # Position and cached number of numpy's generator follow its array.
    same = (
        states[0] == now[0]
        and np.array_equal(states[1][1], now[1][1])
        and states[1][2:] == now[1][2:]
        and torch.equal(states[2], now[2])
    )
    if not same:
        _refuse(name)


def _same_array(value: Any, other: Any) -> bool:
    """Whether arrays are equal; anything else is not looked at."""
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other, equal_nan=value.dtype.kind == 'f')
    if isinstance(value, torch.Tensor):
        return torch.equal(value.nan_to_num(), other.nan_to_num())
    return True


def _refuse(name: str) -> NoReturn:
    raise ValueError(
        f'{name} is random, but BatchedDataset runs the pipeline once for '
        'each sample and keeps what it gives: move random transforms to '
        '`augmentations` or `views` of mmgeom.BatchedDataPreprocessor, as '
        'mmgeom.apis.batched_data.batched does with a whole config, or leave '
        'BatchedDataset out for those that have no such form.'
    )
