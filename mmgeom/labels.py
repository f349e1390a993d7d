# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Read the labels of a dataset, whatever it is wrapped in.

Works by duck typing, so that this floor needs neither mmengine nor
mmpretrain: datasets of mmengine, mmpretrain, torchvision and torch, and any
nesting of their concatenating, repeating, balancing and subset wrappers.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_CACHE: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def dataset_labels(dataset: Any) -> np.ndarray | list[np.ndarray]:
    """Integer labels of all samples of a dataset.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        np.ndarray | list[np.ndarray]: Shape ``(N,)``, int64. For multi-label
        datasets a list of N arrays, the labels of each sample.

    Raises:
        TypeError: When the labels are not integers, or the dataset offers
            none of the interfaces that are known here.
    """
    return _copied(_cached(dataset, _leaf_labels))


def dataset_values(dataset: Any) -> np.ndarray:
    """Float regression targets of all samples of a dataset.

    A dataset offers them by ``get_gt_values()``, or sample by sample as
    ``get_data_info(i)['gt_score']``.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        np.ndarray: Shape ``(N,)`` for one target a sample, ``(N, D)`` for
        more, float64.

    Raises:
        TypeError: When the dataset offers no targets.
    """
    return _copied(_cached(dataset, _leaf_values))


def has_several_targets(dataset: Any) -> bool:
    """Whether each sample has several regression targets.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        bool: False for a dataset of classes, too.
    """
    try:
        return dataset_values(dataset).ndim > 1
    except TypeError:
        return False


def dataset_inputs(dataset: Any) -> np.ndarray:
    """Input rows of all samples of a tabular dataset.

    A dataset offers them by ``get_inputs()``.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        np.ndarray: Shape ``(N, d)``, float64.

    Raises:
        TypeError: When the dataset offers no rows.
        ValueError: When they are no table.
    """
    return _copied(_cached(dataset, _leaf_inputs))


def flat_labels(labels: np.ndarray | list[np.ndarray]) -> np.ndarray:
    """All labels in one array; a multi-label sample counts once for each.

    Args:
        labels (np.ndarray | list[np.ndarray]): What :func:`dataset_labels`
            returns.

    Returns:
        np.ndarray: One-dimensional, int64.
    """
    if isinstance(labels, np.ndarray):
        return labels
    if len(labels) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([np.asarray(item) for item in labels])


def dataset_class_names(dataset: Any) -> tuple[str, ...] | None:
    """Class names of a dataset's meta information, if it has any.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        tuple[str, ...] | None: The names in label order.
    """
    names = _metainfo(dataset).get('classes')
    while names is None and dataset is not None:  # torchvision
        names = getattr(dataset, 'classes', None)
        dataset = _inner(dataset)
    if names is None or isinstance(names, str):
        return None
    return tuple(str(name) for name in names)


def dataset_num_classes(dataset: Any) -> int | None:
    """Number of classes a dataset declares, ``None`` if it does not.

    Args:
        dataset (Any): A dataset or a wrapper of datasets.

    Returns:
        int | None: From the class names, else from ``num_classes`` in the
        meta information.
    """
    names = dataset_class_names(dataset)
    if names is not None:
        return len(names)
    declared = _metainfo(dataset).get('num_classes')
    return None if declared is None else int(declared)


def _metainfo(dataset: Any) -> dict:
    """Meta information of a dataset or of what it wraps."""
    while dataset is not None:
        metainfo = getattr(dataset, 'metainfo', None)
        if metainfo:
            return dict(metainfo)
        dataset = _inner(dataset)
    return {}


def _inner(dataset: Any) -> Any:
    """The dataset, or the first of several, that a wrapper holds."""
    inner = getattr(dataset, 'datasets', None)
    return inner[0] if inner else getattr(dataset, 'dataset', None)


def _cached(dataset: Any, leaf: Callable) -> Any:
    """Read once per dataset object; a changed length reads anew."""
    if callable(getattr(dataset, 'full_init', None)):
        dataset.full_init()
    size = len(dataset)
    try:
        store = _CACHE.setdefault(dataset, {})
    except TypeError:  # lists and arrays have no weak references
        return _read(dataset, leaf)
    if store.get(leaf, (None, None))[0] != size:
        store[leaf] = (size, _read(dataset, leaf))
    return store[leaf][1]


def _copied(labels: np.ndarray | list[np.ndarray]) -> Any:
    """So that a caller who changes its labels leaves the cache alone."""
    if isinstance(labels, np.ndarray):
        return labels.copy()
    return [item.copy() for item in labels]


def _read(dataset: Any, leaf: Callable) -> Any:
    found = leaf(dataset)
    if found is not None:
        return found
    if getattr(dataset, 'datasets', None):
        parts = [_cached(d, leaf) for d in dataset.datasets]
        return _join(parts)
    inner = getattr(dataset, 'dataset', None)
    if inner is not None:
        labels = _cached(inner, leaf)
        if hasattr(dataset, '_ori_indices'):  # mmpretrain's KFoldDataset
            return labels  # holds only its fold
        return _take(labels, _inner_indices(dataset))
    raise TypeError(
        f'cannot read labels from {type(dataset).__name__}: give it '
        '`get_gt_labels()` (classes) or `get_gt_values()` (regression).'
    )


def _inner_indices(wrapper: Any) -> Sequence[int]:
    """Index into the wrapped dataset for each sample of a wrapper."""
    indices = getattr(wrapper, 'indices', None)  # torch's Subset
    if indices is not None:
        return indices
    mapping = getattr(wrapper, '_get_ori_dataset_idx', None)  # mmengine
    if mapping is None:
        raise TypeError(
            f'{type(wrapper).__name__} wraps a dataset but does not tell '
            'which of its samples it uses: give it `get_gt_labels()`.'
        )
    return [mapping(i) for i in range(len(wrapper))]


def _leaf_labels(dataset: Any) -> np.ndarray | list[np.ndarray] | None:
    if isinstance(dataset, (np.ndarray, list, tuple)):
        return _as_labels(dataset)
    wraps = hasattr(dataset, 'dataset') or hasattr(dataset, 'datasets')
    try:
        if callable(getattr(dataset, 'get_gt_labels', None)):
            return _as_labels(_gt_labels(dataset))
        if not wraps and callable(getattr(dataset, 'get_cat_ids', None)):
            return _as_labels(_cat_ids(dataset))
    except KeyError as error:
        raise TypeError(
            f'the samples of {type(dataset).__name__} hold no {error}: for '
            'regression targets give the bins, e.g. '
            '`bins=dict(width=1.0)`.'
        ) from error
    for name in ('targets', 'labels'):  # torchvision
        if not wraps and getattr(dataset, name, None) is not None:
            return _as_labels(getattr(dataset, name))
    return None


def _gt_labels(dataset: Any) -> Any:
    """All labels at once; several a sample only one by one.

    mmpretrain's ``get_gt_labels`` makes one array of the label lists of a
    multi-label dataset, which fails or looks like one-hot rows.
    """
    try:
        labels = dataset.get_gt_labels()
    except ValueError:
        labels = None
    if labels is not None and getattr(labels, 'ndim', 1) < 2:
        return labels
    try:
        return _cat_ids(dataset)
    except (AttributeError, NotImplementedError, TypeError):
        if labels is None:
            raise
        return labels


def _cat_ids(dataset: Any) -> list:
    size = range(len(dataset))
    try:
        return [dataset.get_cat_ids(i) for i in size]
    except NotImplementedError:  # mmengine's base class offers no ids
        return [dataset.get_data_info(i)['gt_label'] for i in size]


def _leaf_values(dataset: Any) -> np.ndarray | None:
    if isinstance(dataset, (np.ndarray, list, tuple)):
        return np.asarray(dataset, dtype=np.float64)
    if callable(getattr(dataset, 'get_gt_values', None)):
        return np.array(dataset.get_gt_values(), dtype=np.float64)
    wraps = hasattr(dataset, 'dataset') or hasattr(dataset, 'datasets')
    if wraps or not callable(getattr(dataset, 'get_data_info', None)):
        return None
    infos = (dataset.get_data_info(i) for i in range(len(dataset)))
    values = [info.get('gt_score') for info in infos]
    if any(value is None for value in values):
        raise TypeError(
            f'{type(dataset).__name__} holds no regression targets: '
            'give it `get_gt_values()`, or `gt_score` in its data infos.'
        )
    values = np.asarray(values, dtype=np.float64)
    return (
        values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    )


def _leaf_inputs(dataset: Any) -> np.ndarray | None:
    if callable(getattr(dataset, 'get_inputs', None)):
        rows = np.array(dataset.get_inputs(), dtype=np.float64)
    elif isinstance(dataset, np.ndarray | list | tuple):
        rows = np.asarray(dataset, dtype=np.float64)
    elif hasattr(dataset, 'dataset') or hasattr(dataset, 'datasets'):
        return None
    else:
        raise TypeError(
            f'cannot read input rows from {type(dataset).__name__}: give it '
            '`get_inputs()`, which returns an array of shape (N, d).'
        )
    if rows.ndim != 2:
        raise ValueError(
            f'the input rows of {type(dataset).__name__} must have shape '
            f'(N, d), got {rows.shape}: give one row of numbers a sample.'
        )
    return rows


def _as_labels(raw: Any) -> np.ndarray | list[np.ndarray]:
    """Single labels as one array; one-hot rows and id lists as a list."""
    if not isinstance(raw, np.ndarray) and len(raw) and np.ndim(raw[0]) > 0:
        rows = [_integers(item).reshape(-1) for item in raw]
        if all(len(row) == 1 for row in rows):
            return np.concatenate(rows)
        return rows
    labels = _integers(raw)
    if labels.ndim == 2:
        return [np.flatnonzero(row) for row in labels]
    return labels


def _integers(raw: Any) -> np.ndarray:
    labels = np.asarray(raw)
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        whole = np.issubdtype(labels.dtype, np.bool_)
        if not whole:
            raise TypeError(
                f'class labels must be integers, got {labels.dtype} values '
                f'such as {labels.reshape(-1)[0]!r}; for regression targets '
                'give the bins, e.g. `bins=dict(width=1.0)`.'
            )
    return labels.astype(np.int64)


def _join(parts: list) -> np.ndarray | list[np.ndarray]:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [np.atleast_1d(item) for part in parts for item in part]


def _take(labels: Any, indices: Sequence[int]) -> Any:
    if isinstance(labels, np.ndarray):
        return labels[np.asarray(indices, dtype=np.int64)]
    return [labels[i] for i in indices]
