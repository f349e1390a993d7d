# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Rebuild the numpy arrays of a checkpoint without numpy's own unpickling.

``numpy.ndarray`` and ``numpy.dtype`` are not safe to hand to a file: a
crafted one makes an array of objects from bytes of its choice, which numpy
then follows as addresses. The names are answered by the small classes here
instead. They take numbers and text only and copy the bytes;
:func:`resolve_records` then puts plain arrays in their place.
"""

import pickle
from typing import Any

import numpy as np
from mmengine.logging import HistoryBuffer

#: Kinds of numpy types whose bytes are nothing but values.
_PLAIN_KINDS = 'biufcSU'


class DTypeRecord:
    """Answers ``numpy.dtype`` in a checkpoint.

    Args:
        name (str): Name of a type of numbers or text, such as ``'f8'``.
        *flags (Any): What numpy writes beside the name; not needed.

    Raises:
        pickle.UnpicklingError: For any other type.
    """

    def __init__(self, name: str, *flags: Any) -> None:
        try:
            self.dtype = np.dtype(str(name))
        except (TypeError, ValueError, SyntaxError) as error:
            raise _refused(name) from error
        if self.dtype.kind not in _PLAIN_KINDS:
            raise _refused(name)

    def __setstate__(self, state: tuple) -> None:
        """Take the byte order; everything else follows from the name."""
        try:
            self.dtype = self.dtype.newbyteorder(state[1])
        except (TypeError, ValueError, LookupError) as error:
            raise _refused(state) from error


class ArrayRecord:
    """Answers ``numpy.ndarray`` in a checkpoint."""

    def __setstate__(self, state: tuple) -> None:
        """Copy the values out of the bytes of numpy's own format."""
        try:
            _, shape, record, is_fortran, data = state
            flat = np.frombuffer(data, _dtype_of(record))
            order = 'F' if is_fortran else 'C'
            # A copy in the machine's byte order, as numpy makes it.
            native = flat.dtype.newbyteorder('=')
            self.array = flat.reshape(shape, order=order).astype(native, order)
        except (TypeError, ValueError, AttributeError) as error:
            raise pickle.UnpicklingError(
                'a numpy array of other than numbers or text'
            ) from error


def array_record(*arguments: Any) -> ArrayRecord:
    """Answers numpy's ``_reconstruct``: an array yet without values."""
    return ArrayRecord()


def numpy_scalar(record: DTypeRecord, data: bytes) -> np.generic:
    """Answers numpy's ``scalar``.

    Args:
        record (DTypeRecord): Its type.
        data (bytes): Its bytes.

    Returns:
        np.generic: The number or text.

    Raises:
        pickle.UnpicklingError: When it is neither.
    """
    try:
        (value,) = np.frombuffer(data, _dtype_of(record))
    except (TypeError, ValueError, AttributeError) as error:
        raise pickle.UnpicklingError(
            'a numpy scalar of other than a number or text'
        ) from error
    return value


def empty_bytes() -> bytes:
    """Answers ``builtins.bytes``, by which pickle writes no bytes."""
    return b''


def resolve_records(item: Any) -> Any:
    """Put arrays in the place of their records, however deep.

    Args:
        item (Any): A loaded checkpoint; containers are changed in place.

    Returns:
        Any: The item, or what takes its place.
    """
    return _resolve(item, set())


def _resolve(item: Any, seen: set[int]) -> Any:
    if isinstance(item, ArrayRecord):
        return item.array
    if isinstance(item, DTypeRecord):
        return item.dtype
    if type(item) is tuple:
        return tuple(_resolve(part, seen) for part in item)
    if id(item) in seen:
        return item
    if isinstance(item, HistoryBuffer):
        _resolve(vars(item), seen)
    elif isinstance(item, dict):
        seen.add(id(item))
        for key, value in list(dict.items(item)):
            dict.__setitem__(item, key, _resolve(value, seen))
    elif type(item) is list:
        seen.add(id(item))
        item[:] = [_resolve(part, seen) for part in item]
    return item


def _dtype_of(record: Any) -> np.dtype:
    if not isinstance(record, DTypeRecord):
        raise TypeError(f'expected a numpy type, got {record!r}')
    return record.dtype


def _refused(what: Any) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f'the numpy type {what!r}')
