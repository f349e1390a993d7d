# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What the supervised contrastive loss does to class means, in closed form."""

import math
from typing import NamedTuple


class TwoLevelOptimum(NamedTuple):
    r"""Best arrangement of one class against all others.

    Attributes:
        x1 (float): Cosine of the first class's centre and any other centre.
        x2 (float): Cosine of two of the other centres.
        theta1 (float): Angle of ``x1`` in radians.
        theta2 (float): Angle of ``x2`` in radians.
        value (float): The loss, summed over all anchors.
    """

    x1: float
    x2: float
    theta1: float
    theta2: float
    value: float


def supervised_contrastive_bound(
    num_classes: int,
    num_samples: int,
    temperature: float = 1.0,
    reduction: str = 'sum',
) -> float:
    r"""Smallest supervised contrastive loss of balanced classes.

    .. math::
        \sum_i \ell_i \ge N \log\left(\frac{N}{K} - 1
        + \frac{N (K-1)}{K} \exp\frac{-K}{(K-1)\tau}\right)

    with equality exactly when every class has collapsed to a point and the K
    points form a regular simplex, which needs dimension :math:`K - 1`.

    Source: FeatRecon (ICLR 2025), Theorem 1, after *Dissecting Supervised
    Contrastive Learning* (ICML 2021), Theorem 2; printed for a sum over the
    anchors and :math:`\tau = 1`.

    Args:
        num_classes (int): K, at least 2.
        num_samples (int): N, a multiple of K and at least 2K.
        temperature (float): :math:`\tau > 0`. Defaults to 1.0.
        reduction (str): ``'sum'`` over anchors as in the theorem, or
            ``'mean'`` as in a training loss. Defaults to ``'sum'``.

    Returns:
        float: The bound.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_temperature(temperature)
    if num_classes < 2:
        raise ValueError(f'num_classes must be at least 2, got {num_classes}.')
    if num_samples % num_classes or num_samples < 2 * num_classes:
        raise ValueError(
            f'{num_samples} samples are not {num_classes} classes of equally '
            'many samples, at least 2 each: give a multiple of the number of '
            'classes.'
        )
    if reduction not in ('sum', 'mean'):
        raise ValueError(
            f"reduction must be 'sum' or 'mean', got {reduction!r}."
        )
    each = num_samples / num_classes
    others = num_samples - each
    exponent = -num_classes / ((num_classes - 1) * temperature)
    mean = math.log(each - 1 + others * math.exp(exponent))
    return mean if reduction == 'mean' else num_samples * mean


def two_level_bound(
    x1: float,
    x2: float,
    num_classes: int,
    ratio: float,
    count: float,
    temperature: float = 1.0,
) -> float:
    r"""Loss of collapsed classes when one class differs in size.

    With :math:`N_1 = \rho a_2` samples of the first class and :math:`a_2` of
    each other, :math:`x_1` the cosine of the first centre and any other, and
    :math:`x_2` that of two others,

    .. math::
        f(x_1, x_2) &= \rho a_2 \log\left(\rho a_2 - 1
        + (K-1) a_2 e^{(x_1 - 1)/\tau}\right) \\
        &+ (K-1) a_2 \log\left(a_2 - 1 + (K-2) a_2 e^{(x_2 - 1)/\tau}
        + \rho a_2 e^{(x_1 - 1)/\tau}\right),

    summed over anchors, a lower bound of the supervised contrastive loss.

    Source: FeatRecon (ICLR 2025), Theorem 2; printed for :math:`\tau = 1`.

    Args:
        x1 (float): In ``[-1, 1]``.
        x2 (float): In ``[-1, 1]``.
        num_classes (int): K, at least 3.
        ratio (float): :math:`\rho`, with :math:`\rho a_2 > 1`.
        count (float): :math:`a_2 > 1`.
        temperature (float): :math:`\tau > 0`. Defaults to 1.0.

    Returns:
        float: The loss.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_two_levels(num_classes, ratio, count, temperature)
    _check_cosine('x1', x1)
    _check_cosine('x2', x2)
    first = ratio * count
    others = (num_classes - 1) * count
    to_first = math.exp((x1 - 1) / temperature)
    to_others = math.exp((x2 - 1) / temperature)
    own = first * math.log(first - 1 + others * to_first)
    return own + others * math.log(
        count - 1 + (others - count) * to_others + first * to_first
    )


def feasible_x2(x1: float, num_classes: int) -> float:
    r"""Smallest cosine of the other centres for a given :math:`x_1`.

    The centres' Gram matrix is positive semidefinite only when

    .. math:: x_2 \ge \frac{(K-1) x_1^2 - 1}{K - 2} .

    Args:
        x1 (float): In ``[-1, 1]``.
        num_classes (int): K, at least 3.

    Returns:
        float: In ``[-1/(K-2), 1]``.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_cosine('x1', x1)
    if num_classes < 3:
        raise ValueError(f'num_classes must be at least 3, got {num_classes}.')
    return ((num_classes - 1) * x1**2 - 1) / (num_classes - 2)


def two_level_optimum(
    num_classes: int, ratio: float, count: float, temperature: float = 1.0
) -> TwoLevelOptimum:
    r"""Arrangement that minimises :func:`two_level_bound`.

    Along the feasible curve :func:`feasible_x2` the loss is convex in
    :math:`x_1`, being a sum of logarithms of sums of exponentials of convex
    functions, so that bisection of its derivative over ``[-1, 0]`` finds the
    minimum to rounding. At :math:`\rho = 1` it is the simplex; from
    :math:`\rho =` :func:`collapse_threshold` on all other classes coincide.

    Args:
        num_classes (int): K, at least 3.
        ratio (float): :math:`\rho`, with :math:`\rho a_2 > 1`.
        count (float): :math:`a_2 > 1`.
        temperature (float): :math:`\tau > 0`. Defaults to 1.0.

    Returns:
        TwoLevelOptimum: Cosines, angles in radians, and the loss.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_two_levels(num_classes, ratio, count, temperature)
    arguments = (num_classes, ratio, count, temperature)
    low, high = -1.0, 0.0
    if _slope(low, *arguments) >= 0:
        high = low
    while (middle := (low + high) / 2) not in (low, high):
        if _slope(middle, *arguments) > 0:
            high = middle
        else:
            low = middle
    x1 = high
    x2 = feasible_x2(x1, num_classes)
    value = two_level_bound(x1, x2, *arguments)
    return TwoLevelOptimum(x1, x2, math.acos(x1), math.acos(x2), value)


def collapse_threshold(
    num_classes: int, count: float, temperature: float = 1.0
) -> float:
    r"""Imbalance from which all other classes fall onto one point.

    .. math::
        R &= \frac{-b_1 + \sqrt{b_1^2 + b_2}}{2 (1 + e^{-2/\tau}) a_2} \\
        b_1 &= (K-1)(1 + e^{-2/\tau} - 2 e^{2/\tau}) a_2 - 2 \\
        b_2 &= 8 (1 + e^{-2/\tau})(K-1) a_2 ((K-1) a_2 - e^{2/\tau})

    For :math:`\rho \ge R` the first centre is opposite to all others. The
    threshold grows like :math:`e^{2/\tau}`, so that at the temperatures used
    in training only the angles between rare classes shrink, while complete
    collapse is out of reach: it is no alarm for :math:`\tau = 0.1`.

    Source: FeatRecon (ICLR 2025), Theorem 2; printed for :math:`\tau = 1`.

    Args:
        num_classes (int): K, at least 3.
        count (float): :math:`a_2 > 1`.
        temperature (float): :math:`\tau > 0`. Defaults to 1.0.

    Returns:
        float: R; infinite where it exceeds the range of a float.

    Raises:
        ValueError: When an argument is out of its range.
    """
    _check_two_levels(num_classes, 1.0, count, temperature)
    if 2 / temperature > 700:
        return math.inf
    others = (num_classes - 1) * count
    large = math.exp(2 / temperature)
    small = 1 / large
    # b1 is always negative; factored out, its square cannot overflow.
    b1 = others * (1 + small - 2 * large) - 2
    b2 = 8 * (1 + small) * others * (others - large)
    root = 1 + math.sqrt(1 + b2 / b1 / b1)
    return -b1 * root / (2 * (1 + small) * count)


def _slope(
    x1: float,
    num_classes: int,
    ratio: float,
    count: float,
    temperature: float,
) -> float:
    """Sign of the derivative of the loss along the feasible curve.

    A common positive factor is left out: the larger of the exponentials of
    both cosines, so that no temperature makes all terms vanish.
    """
    x2 = feasible_x2(x1, num_classes)
    first, others = ratio * count, (num_classes - 1) * count
    largest = max(x1, x2)
    rise = 2 * (num_classes - 1) * x1 / (num_classes - 2)
    pull1 = first * math.exp((x1 - largest) / temperature)
    pull2 = (others - count) * math.exp((x2 - largest) / temperature) * rise
    to_first = math.exp((x1 - 1) / temperature)
    to_others = math.exp((x2 - 1) / temperature)
    own = first - 1 + others * to_first
    other = count - 1 + (others - count) * to_others + first * to_first
    return pull1 / own + (pull1 + pull2) / other


def _check_two_levels(
    num_classes: int, ratio: float, count: float, temperature: float
) -> None:
    _check_temperature(temperature)
    if num_classes < 3:
        raise ValueError(f'num_classes must be at least 3, got {num_classes}.')
    if not 1 < count < math.inf:
        raise ValueError(
            f'count must be finite and greater than 1, got {count}: a class '
            'of one sample has no positive pair.'
        )
    if not 1 < ratio * count < math.inf:
        raise ValueError(
            f'ratio * count must be finite and greater than 1, got {ratio} * '
            f'{count}: a class of one sample has no positive pair.'
        )


def _check_temperature(temperature: float) -> None:
    if not 0 < temperature < math.inf:
        raise ValueError(f'temperature must be positive, got {temperature}.')


def _check_cosine(name: str, value: float) -> None:
    if not -1 <= value <= 1:
        raise ValueError(
            f'{name} is a cosine and must lie in [-1, 1], got {value}.'
        )
