# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import torch

from mmgeom.distribution import LabelDistribution

STRATEGIES = (
    'class_balanced',
    'square_root',
    'effective_number',
    'progressive',
)


def check_strategy(strategy: str, beta: float = 0.9999) -> None:
    """Refuse an unknown strategy or a parameter outside its range.

    Args:
        strategy (str): One of :data:`STRATEGIES`.
        beta (float): Parameter of ``'effective_number'``. Defaults to 0.9999.

    Raises:
        ValueError: If ``strategy`` is unknown or ``beta`` is not in [0, 1).
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            f'strategy must be one of {", ".join(STRATEGIES)}, '
            f'got {strategy!r}.'
        )
    if not 0 <= beta < 1:
        raise ValueError(
            f'beta must be in [0, 1), got {beta!r}; values near 1, such as '
            '0.9999, balance the classes.'
        )


def class_probability(
    distribution: LabelDistribution,
    strategy: str,
    beta: float = 0.9999,
    progress: float = 0.0,
) -> torch.Tensor:
    r"""Probability with which a re-balancing sampler draws each class.

    With :math:`n_k` samples of class :math:`k`, :math:`N` in all and
    :math:`K` classes that hold samples,

    .. math::
        \text{class\_balanced:}\quad & p_k = 1 / K \\
        \text{square\_root:}\quad & p_k \propto \sqrt{n_k} \\
        \text{effective\_number:}\quad & p_k \propto n_k / E_k,
            \quad E_k = (1 - \beta^{n_k}) / (1 - \beta) \\
        \text{progressive:}\quad & p_k = (1 - r)\, n_k / N + r / K

    ``'effective_number'`` turns the loss weight :math:`1 / E_k` of a sample
    into the weight of drawing that sample, so that the expected gradient is
    that of the re-weighted loss. It is instance-balanced at
    :math:`\beta = 0` and tends to class-balanced as :math:`\beta \to 1`.

    Source: Kang et al., Decoupling Representation and Classifier for
    Long-Tailed Recognition, ICLR 2020, Eq. 1 and 2; Cui et al.,
    Class-Balanced Loss Based on Effective Number of Samples, CVPR 2019.

    Args:
        distribution (LabelDistribution): The label distribution.
        strategy (str): One of :data:`STRATEGIES`.
        beta (float): :math:`\beta` in [0, 1), used by
            ``'effective_number'`` only. Defaults to 0.9999.
        progress (float): :math:`r` in [0, 1], used by ``'progressive'``
            only. Defaults to 0.0.

    Returns:
        torch.Tensor: Probabilities of shape (K,), float64, of sum 1. Classes
        without samples have probability 0.

    Raises:
        ValueError: If ``strategy`` is unknown or ``beta`` is not in [0, 1).
    """
    check_strategy(strategy, beta)
    counts = distribution.counts.double()
    present = (counts > 0).double()
    if strategy == 'class_balanced':
        weights = present
    elif strategy == 'square_root':
        weights = counts.sqrt()
    elif strategy == 'effective_number':
        effective = distribution.effective_numbers(beta)
        # An empty class has effective number 0: give it 0, not 0 / 0.
        weights = torch.where(counts > 0, counts / effective, 0.0)
    else:
        instance_balanced = counts / counts.sum()
        class_balanced = present / present.sum()
        weights = torch.lerp(instance_balanced, class_balanced, progress)
    return weights / weights.sum()
