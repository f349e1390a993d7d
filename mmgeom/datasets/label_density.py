# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Densities over a continuous label, up to a constant factor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mmengine.utils import get_object_from_string

Density = Callable[[np.ndarray], np.ndarray]


def label_density(spec: Mapping[str, Any] | Density) -> Density:
    r"""A density over labels from its description.

    Densities need not integrate to one. With the label :math:`y`, the types
    and their arguments are

    - ``'uniform'``: :math:`1`.
    - ``'normal'``, with ``mean`` and ``std``:
      :math:`e^{-(y - \mathrm{mean})^2 / 2\,\mathrm{std}^2}`.
    - ``'exponential'``, with ``scale``: :math:`e^{-y/\mathrm{scale}}`, which
      rises with the label for a negative scale.
    - ``'power'``, with ``exponent``, ``start`` (0) and ``scale`` (1):
      :math:`(1 + |y - \mathrm{start}| / \mathrm{scale})^{-\mathrm{exponent}}`.
    - ``'piecewise'``, with ``edges`` :math:`e_1 < \dots < e_{m-1}` and
      ``weights`` :math:`w_1, \dots, w_m`: :math:`w_k` for
      :math:`e_{k-1} \le y < e_k`, where :math:`e_0 = -\infty` and
      :math:`e_m = \infty`.
    - ``'function'``, with ``function``, the dotted name of a function of an
      array of labels, and its keyword arguments.

    Args:
        spec (Mapping | Callable): ``type`` and arguments as above, or a
            function itself.

    Returns:
        Callable: From labels of shape ``(N,)`` to non-negative float64
        weights of shape ``(N,)``.

    Raises:
        ValueError: When the type is unknown, or its arguments are missing,
            surplus or out of their range. The density itself raises it when
            a weight is negative or not finite.

    Examples:
        >>> label_density(dict(type='piecewise', edges=[1], weights=[3, 1]))(
        ...     np.array([0.0, 1.0, 2.0])
        ... )
        array([3., 1., 1.])
    """
    if callable(spec):
        return _checked('function', spec)
    types = dict(
        uniform=_uniform,
        normal=_normal,
        exponential=_exponential,
        power=_power,
        piecewise=_piecewise,
        function=_function,
    )
    if not isinstance(spec, Mapping) or spec.get('type') not in types:
        raise ValueError(
            f'label density {spec!r} is unknown: give a dict whose type is '
            f'one of {list(types)}, or a function.'
        )
    arguments = {key: spec[key] for key in spec if key != 'type'}
    try:
        density = types[spec['type']](**arguments)
    except TypeError as error:
        raise ValueError(
            f'label density {spec["type"]!r} does not take the arguments '
            f'{sorted(arguments)}: {error}.'
        ) from error
    return _checked(spec['type'], density)


def _uniform() -> Density:
    return np.ones_like


def _normal(mean: float, std: float) -> Density:
    _require_positive('normal', std=std)
    # Relative to the largest weight, so that not all of them become zero.
    return _from_log(lambda y: -0.5 * ((y - mean) / std) ** 2)


def _exponential(scale: float) -> Density:
    if scale == 0 or not np.isfinite(scale):
        raise ValueError(
            'scale of an exponential label density must be finite and not '
            f'0, got {scale}.'
        )
    return _from_log(lambda y: -y / scale)


def _power(exponent: float, start: float = 0.0, scale: float = 1.0) -> Density:
    _require_positive('power', exponent=exponent, scale=scale)
    return _from_log(lambda y: -exponent * np.log1p(abs(y - start) / scale))


def _piecewise(edges: Sequence[float], weights: Sequence[float]) -> Density:
    limits = np.asarray(edges, dtype=np.float64)
    values = np.asarray(weights, dtype=np.float64)
    if (
        limits.ndim != 1
        or values.shape != (len(limits) + 1,)
        or not (np.diff(limits) > 0).all()
        or not np.isfinite(limits).all()
    ):
        raise ValueError(
            'a piecewise label density needs increasing edges and one weight '
            f'more than edges, got edges={list(edges)} and '
            f'weights={list(weights)}.'
        )
    density = _checked('piecewise', lambda y: values[_place(limits, y)])
    density(np.append(limits, np.inf))  # the weights, each at least once
    density(np.append(-np.inf, limits))
    return density


def _place(limits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.searchsorted(limits, labels, side='right')


def _function(function: str | Density, **arguments: Any) -> Density:
    found = function
    if isinstance(function, str):
        found = get_object_from_string(function)
    if not callable(found):
        raise ValueError(
            f'label density function {function!r} cannot be imported: give '
            "its full name, such as 'package.module.name'."
        )
    return lambda labels: found(labels, **arguments)


def _from_log(log_density: Density) -> Density:
    def density(labels: np.ndarray) -> np.ndarray:
        exponents = log_density(labels)
        return np.exp(exponents - exponents.max(initial=-np.inf))

    return density


def _checked(name: str, density: Density) -> Density:
    def checked(labels: np.ndarray) -> np.ndarray:
        labels = np.asarray(labels, dtype=np.float64)
        weights = np.asarray(density(labels), dtype=np.float64)
        if weights.shape != labels.shape:
            raise ValueError(
                f'label density {name!r} gives weights of shape '
                f'{weights.shape} for labels of shape {labels.shape}: return '
                'one for each label.'
            )
        wrong = ~np.isfinite(weights) | (weights < 0)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f'label density {name!r} gives {weights[first]} for label '
                f'{labels[first]}: weights must be finite and not negative.'
            )
        return weights

    return checked


def _require_positive(name: str, **arguments: float) -> None:
    for argument, value in arguments.items():
        if not value > 0 or not np.isfinite(value):
            raise ValueError(
                f'{argument} of a {name} label density must be positive and '
                f'finite, got {value}.'
            )
