# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Which samples of each class a long-tailed dataset keeps."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def select_ldam(
    labels: np.ndarray, counts: Sequence[int], seed: int = 0
) -> np.ndarray:
    """The standard selection of the long-tail literature.

    For each class in ascending order its indices are shuffled by one
    continuing legacy numpy generator and the first ``n_c`` are kept. The
    result is class-major, in the shuffled order, as in LDAM (NeurIPS 2019)
    and all that reuse its split. The generator is private, but its stream is
    that of ``numpy.random.seed(seed)``.

    Args:
        labels (np.ndarray): Labels of the whole dataset, shape ``(N,)``.
        counts (Sequence[int]): Samples wanted of each class; a class that
            has fewer keeps all.
        seed (int): Of the generator. Defaults to 0, the standard split.

    Returns:
        np.ndarray: Indices to keep.
    """
    generator = np.random.RandomState(seed)
    kept = []
    for label, count in enumerate(counts):
        members = np.where(labels == label)[0]
        generator.shuffle(members)
        kept.append(members[:count])
    return np.concatenate(kept)


def select_nested(
    labels: np.ndarray, counts: Sequence[int], seed: int = 0
) -> np.ndarray:
    """A selection in which smaller wishes are subsets of larger ones.

    Every class has a generator of its own, so what is kept of one class does
    not depend on the others, and a stronger imbalance keeps a subset of what
    a weaker one keeps. Order as in the dataset.

    Args:
        labels (np.ndarray): Labels of the whole dataset, shape ``(N,)``.
        counts (Sequence[int]): Samples wanted of each class; a class that
            has fewer keeps all.
        seed (int): Of the generators. Defaults to 0.

    Returns:
        np.ndarray: Ascending indices to keep.
    """
    kept = []
    for label, count in enumerate(counts):
        members = np.flatnonzero(labels == label)
        order = np.random.default_rng([seed, label]).permutation(len(members))
        kept.append(members[order[:count]])
    return np.sort(np.concatenate(kept))


def load_indices(path: str, size: int) -> np.ndarray:
    """Read an index file.

    Args:
        path (str): ``.npy``, ``.json`` (a list) or text (an index a line).
        size (int): Length of the dataset the indices refer to.

    Returns:
        np.ndarray: int64 indices in the order of the file.

    Raises:
        FileNotFoundError: When there is no such file.
        ValueError: When it does not hold distinct indices in
            ``[0, size)``.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(
            f'index file {path} does not exist: give the path of a .npy, '
            '.json or text file with the sample indices to keep.'
        )
    try:
        if file.suffix == '.npy':
            raw = np.load(file, allow_pickle=False)
        elif file.suffix == '.json':
            raw = np.array(json.loads(file.read_text()))
        else:
            raw = np.array(file.read_text().split(), dtype=np.int64)
        whole = raw.ndim == 1 and np.issubdtype(raw.dtype, np.integer)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f'index file {path} cannot be read: {error}.'
        ) from error
    if not whole or raw.size == 0:
        raise ValueError(
            f'index file {path} must hold one list of whole numbers, got '
            f'{raw.dtype} of shape {raw.shape}.'
        )
    outside = (raw < 0) | (raw >= size)
    if outside.any():
        raise ValueError(
            f'index {raw[outside][0]} of index file {path} lies outside '
            f'[0, {size}): it was made for another dataset.'
        )
    if len(np.unique(raw)) != len(raw):
        values, repeats = np.unique(raw, return_counts=True)
        raise ValueError(
            f'index {values[repeats > 1][0]} occurs twice in index file '
            f'{path}: name each sample once.'
        )
    return raw.astype(np.int64)
