# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Functions that ``torch.compile`` takes as they are."""

from collections.abc import Callable
from typing import Any

import torch


def opaque_operation(name: str, fake: Callable) -> Callable:
    """Make a function one operation of a compiled graph.

    Its loops and its choices by shape stay out of the graph, which then
    serves other shapes too. Before torch 2.4, which has no public way to do
    so, the function stays what it was, and compiled graphs look into it.

    Args:
        name (str): ``'namespace::name'``.
        fake (Callable): Takes the same arguments and returns tensors of the
            shape and type of the results, of any values.

    Returns:
        Callable: Decorator of a function of tensors and numbers with type
        hints, which returns tensors and changes no argument.
    """

    def decorate(function: Callable) -> Callable:
        if not hasattr(torch.library, 'custom_op'):
            return function
        operation: Any = torch.library.custom_op(
            name, function, mutates_args=()
        )
        operation.register_fake(fake)
        return operation

    return decorate
