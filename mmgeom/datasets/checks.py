# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Checks shared by the dataset readers: each failure is one sentence."""

import importlib
from collections.abc import Sequence
from types import ModuleType

from mmengine.fileio import LocalBackend, get_file_backend


def require_path(path: str, remedy: str) -> None:
    """Check that a local file or folder exists.

    Paths of remote storage are not probed, since some backends cannot tell;
    their own read error comes instead.

    Args:
        path (str): Path of a file or folder.
        remedy (str): How to get it, the second half of the sentence.

    Raises:
        FileNotFoundError: When nothing lies at the path.
    """
    backend = get_file_backend(path, enable_singleton=True)
    if isinstance(backend, LocalBackend) and not backend.exists(path):
        raise FileNotFoundError(f"'{path}' does not exist: {remedy}.")


def require_samples(count: int, source: str) -> None:
    """Check that a source of samples is not empty.

    Args:
        count (int): Number of samples found.
        source (str): Name of the file or dataset, for the message.

    Raises:
        ValueError: When there are none.
    """
    if count == 0:
        raise ValueError(
            f'{source} holds no samples: give a file with at least one.'
        )


def require_split(dataset: str, split: str, allowed: Sequence[str]) -> None:
    """Check the name of a split.

    Args:
        dataset (str): Name of the dataset, for the message.
        split (str): Name received.
        allowed (Sequence[str]): Names the dataset has.

    Raises:
        ValueError: When the dataset has no such split.
    """
    if split not in allowed:
        names = ', '.join(repr(name) for name in allowed)
        raise ValueError(
            f'{dataset} has no split {split!r}: choose one of {names}.'
        )


def require_module(module: str, package: str, purpose: str) -> ModuleType:
    """Import a module of a package that only some readers need.

    Args:
        module (str): Module to import.
        package (str): Name under which the package is installed.
        purpose (str): What needs it, for the message.

    Returns:
        ModuleType: The module.

    Raises:
        ImportError: When the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{purpose} needs the package {package}, which cannot be '
            f'imported ({error}): run `pip install {package}`.'
        ) from error


def declared_num_classes(
    dataset: str, metainfo: dict, num_classes: int | None = None
) -> int | None:
    """Number of classes, from all places that may declare it.

    Args:
        dataset (str): Name of the dataset, for the message.
        metainfo (dict): Meta information; the keys ``classes`` (names) and
            ``num_classes`` are read.
        num_classes (int, optional): Number given as an argument. Defaults
            to None.

    Returns:
        int | None: The number, ``None`` when nothing declares it.

    Raises:
        ValueError: When a number is not a positive integer, or two
            declarations differ.
    """
    classes = metainfo.get('classes')
    names = None if classes is None else len(classes)
    found = [names, metainfo.get('num_classes'), num_classes]
    found = [number for number in found if number is not None]
    for number in found:
        if not isinstance(number, int) or number < 1:
            raise ValueError(
                f'{dataset} is given num_classes={number!r}: it must be a '
                'positive integer.'
            )
    if len(set(found)) > 1:
        raise ValueError(
            f'{dataset} is given different numbers of classes, '
            f'{sorted(set(found))}: let the class names and num_classes '
            'agree.'
        )
    return found[0] if found else None
