# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""How many samples each class of a long-tailed dataset gets."""

import numpy as np

PROFILES = ('exp', 'step', 'pareto')


def long_tailed_counts(
    num_classes: int,
    max_count: float,
    imbalance_factor: float,
    profile: str = 'exp',
    step_fraction: float = 0.5,
    pareto_alpha: float = 6.0,
) -> np.ndarray:
    r"""Class sizes from the largest class, index 0, to the smallest.

    With :math:`\rho = 1/\mathrm{IF}` and :math:`r = c/(K-1) \in [0, 1]`:

    .. math::
        \text{exp:}\quad & n_c = \lfloor n_{\max}\, \rho^{\,r} \rfloor \\
        \text{step:}\quad & n_c = n_{\max} \text{ for the first classes, }
            \lfloor n_{\max}\, \rho \rfloor \text{ for the others} \\
        \text{pareto:}\quad & n_c = \lfloor n_{\max}
            \bigl(1 + (\rho^{-1/\alpha} - 1)\, r\bigr)^{-\alpha} \rfloor

    The exponential and the step profile are those of *LDAM* (NeurIPS 2019);
    the Pareto profile has the shape of ImageNet-LT (:math:`\alpha = 6`,
    *OLTR*, CVPR 2019) and approaches ``exp`` for large :math:`\alpha`.

    Args:
        num_classes (int): K, positive.
        max_count (float): :math:`n_{\max}`, at least 1.
        imbalance_factor (float): :math:`n_{\max}/n_{\min}`, at least 1.
        profile (str): ``'exp'``, ``'step'`` or ``'pareto'``. Defaults to
            ``'exp'``.
        step_fraction (float): Share of large classes of ``step``, in
            ``(0, 1)``; at least one class is large. Defaults to 0.5.
        pareto_alpha (float): Power of ``pareto``, positive. Defaults to 6.0.

    Returns:
        np.ndarray: int64, shape ``(K,)``, non-increasing.

    Raises:
        ValueError: When an argument is out of its range.
    """
    if num_classes < 1:
        raise ValueError(f'num_classes must be positive, got {num_classes}.')
    if not imbalance_factor >= 1:
        raise ValueError(
            'imbalance_factor is the largest class divided by the smallest '
            f'and must be at least 1, got {imbalance_factor}; a ratio such '
            'as 0.01 is written as its inverse, 100.'
        )
    if not max_count >= 1:
        raise ValueError(f'max_count must be at least 1, got {max_count}.')
    ratio = 1 / imbalance_factor
    # Python floats and int(), term by term: the published splits depend on
    # the last bit of this product.
    position = (
        [c / (num_classes - 1.0) for c in range(num_classes)]
        if (num_classes > 1)
        else [0.0]
    )
    if profile == 'exp':
        sizes = [max_count * ratio**r for r in position]
    elif profile == 'step':
        if not 0 < step_fraction < 1:
            raise ValueError(
                f'step_fraction must lie in (0, 1), got {step_fraction}.'
            )
        head = max(int(round(num_classes * step_fraction, 9)), 1)
        small = max_count * ratio
        sizes = [max_count if c < head else small for c in range(num_classes)]
    elif profile == 'pareto':
        if not pareto_alpha > 0:
            raise ValueError(
                f'pareto_alpha must be positive, got {pareto_alpha}.'
            )
        stretch = imbalance_factor ** (1 / pareto_alpha) - 1
        # No published split depends on the last bit of these, and the last
        # class should not lose a sample to it.
        sizes = [
            max_count * (1 + stretch * r) ** -pareto_alpha + 1e-9
            for r in position
        ]
    else:
        raise ValueError(
            f'profile {profile!r} is unknown: use one of {list(PROFILES)}.'
        )
    return np.array([int(size) for size in sizes], dtype=np.int64)
