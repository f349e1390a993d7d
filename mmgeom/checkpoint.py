# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Load checkpoints of mmengine without executing code from them.

A checkpoint is a pickle, and a pickle may name any function and have it
called. ``torch.load(weights_only=True)`` refuses everything that is not on
a list. mmengine's own checkpoints need a few entries more: the history of
logged values, and numpy arrays (see :mod:`mmgeom.checkpoint_arrays`). The
history also asks for ``builtins.getattr``; here that name is answered by a
function that gives nothing but the four statistics methods of the history.
"""

import os
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from mmengine.config import ConfigDict
from mmengine.dist import barrier, get_dist_info
from mmengine.logging import HistoryBuffer
from torch.hub import load_state_dict_from_url

from .checkpoint_arrays import (
    ArrayRecord,
    DTypeRecord,
    array_record,
    empty_bytes,
    numpy_scalar,
    resolve_records,
)

#: Environment variable with checkpoint files that may execute code,
#: separated as in ``PATH``.
TRUST_VARIABLE = 'MMGEOM_TRUSTED_CHECKPOINTS'

_STATISTICS = ('min', 'max', 'mean', 'current')


def load_from_local(filename: str, map_location: Any = None) -> dict:
    """Load a local checkpoint file without executing code from it.

    Args:
        filename (str): Path, ``~`` allowed.
        map_location (Any): As of :func:`torch.load`. Defaults to None.

    Returns:
        dict: The checkpoint.

    Raises:
        FileNotFoundError: When there is no such file.
        RuntimeError: When the file asks for anything that is not on the
            allow-list, or is no checkpoint.
    """
    path = os.path.expanduser(filename)
    if not os.path.isfile(path):
        problem = 'is a folder' if os.path.isdir(path) else 'does not exist'
        raise FileNotFoundError(
            f'checkpoint {filename} {problem}: check the path.'
        )
    if _is_trusted(path):
        return torch.load(path, map_location=map_location, weights_only=False)
    try:
        checkpoint = _restricted(
            lambda: torch.load(
                path, map_location=map_location, weights_only=True
            )
        )
    except Exception as error:
        raise RuntimeError(_refusal(filename, error)) from error
    if not isinstance(checkpoint, Mapping):
        raise RuntimeError(
            f'{filename} holds a {type(checkpoint).__name__} and no '
            'checkpoint: give a file that was saved by a training run.'
        )
    return checkpoint


def load_from_http(
    filename: str,
    map_location: Any = None,
    model_dir: str | None = None,
    progress: bool = False,
) -> dict:
    """Download a checkpoint and load it without executing code from it.

    Rank 0 downloads first, the others read its file.

    Args:
        filename (str): Address of the checkpoint.
        map_location (Any): As of :func:`torch.load`. Defaults to None.
        model_dir (str, optional): Folder to keep the file in. Defaults to
            None, which means torch's hub folder.
        progress (bool): Show a progress bar. Defaults to False.

    Returns:
        dict: The checkpoint.

    Raises:
        RuntimeError: As :func:`load_from_local`.
    """

    def load() -> dict:
        try:
            return _restricted(
                lambda: load_state_dict_from_url(
                    filename,
                    model_dir=model_dir,
                    map_location=map_location,
                    progress=progress,
                    weights_only=True,
                )
            )
        except pickle.UnpicklingError as error:
            raise RuntimeError(_refusal(filename, error)) from error

    rank, _ = get_dist_info()
    if rank == 0:
        checkpoint = load()
    barrier()
    if rank > 0:
        checkpoint = load()
    return checkpoint


def allowed_globals() -> list:
    """What a checkpoint of mmengine may name beyond torch's own list.

    Returns:
        list: Entries for :func:`torch.serialization.safe_globals`.
    """
    entries: list = [
        HistoryBuffer,
        ConfigDict,
        (history_statistic, 'builtins.getattr'),
        (empty_bytes, 'builtins.bytes'),
        (ArrayRecord, 'numpy.ndarray'),
        (DTypeRecord, 'numpy.dtype'),
    ]
    for module in ('numpy._core.multiarray', 'numpy.core.multiarray'):
        entries.append((array_record, f'{module}._reconstruct'))
        entries.append((numpy_scalar, f'{module}.scalar'))
    return entries


def history_statistic(owner: Any, name: str) -> Any:
    """The only attributes a checkpoint may ask for.

    Args:
        owner (Any): Must be mmengine's ``HistoryBuffer``.
        name (str): ``'min'``, ``'max'``, ``'mean'`` or ``'current'``.

    Returns:
        Any: The method.

    Raises:
        pickle.UnpicklingError: For anything else.
    """
    if owner is HistoryBuffer and name in _STATISTICS:
        return getattr(HistoryBuffer, name)
    raise pickle.UnpicklingError(
        f'builtins.getattr, for the attribute {name!r} of {owner!r}'
    )


def _restricted(load: Callable[[], Any]) -> Any:
    """Run a loader with our allow-list and undo what it may leave behind."""
    HistoryBuffer()  # fills in the statistics methods
    methods = dict(HistoryBuffer._statistics_methods)
    entries = allowed_globals()
    names = {_global_name(entry) for entry in entries}
    before = torch.serialization.get_safe_globals()
    # Somebody else may have allowed the real getattr or numpy.ndarray.
    others = [e for e in before if _global_name(e) not in names]
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(others + entries)
    try:
        return resolve_records(load())
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
        # A history's state may replace the methods of all histories.
        HistoryBuffer._statistics_methods.clear()
        HistoryBuffer._statistics_methods.update(methods)


def _global_name(entry: Any) -> str:
    """The name by which an entry of torch's list is asked for."""
    if isinstance(entry, tuple):
        return entry[1]
    return f'{entry.__module__}.{entry.__qualname__}'


def _is_trusted(path: str) -> bool:
    trusted = os.environ.get(TRUST_VARIABLE, '').split(os.pathsep)
    return any(
        os.path.isfile(entry) and os.path.samefile(entry, path)
        for entry in map(os.path.expanduser, trusted)
        if entry
    )


def _refusal(filename: str, error: Exception) -> str:
    """One sentence for whatever went wrong while a file was read."""
    reason = ' '.join(str(error).split()).split('WeightsUnpickler error: ')[-1]
    is_pickle = isinstance(error, pickle.UnpicklingError)
    if not is_pickle or 'Unsupported operand' in reason:
        return (
            f'{filename} cannot be read as a checkpoint '
            f'({type(error).__name__}: {reason[:200]}): check that the file '
            'is complete and was written by torch.save.'
        )
    plain = re.split(' Please | Check the documentation', reason)[0]
    asked = re.search(
        '(?:GLOBAL (\\S+)|unrecognized function (.+)|but got (.+))', plain
    )
    what = next(filter(None, asked.groups())) if asked else plain
    what = what.strip(' .')[:200]
    trust = f'set {TRUST_VARIABLE}={filename}'
    if not os.path.isfile(os.path.expanduser(filename)):  # an address
        trust = f'download it and set {TRUST_VARIABLE} to the path'
    return (
        f'checkpoint {filename} was refused and nothing in it was executed, '
        f'because it asks for {what}, which is not on the allow-list: if you '
        f'trust this file, {trust}.'
    )
