# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Errors of regression, over all samples or over a group of them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics.functional.regression import pearson_corrcoef

from .bins import to_double

#: Added to an error of exactly 0, whose logarithm is infinite.
ZERO_ERROR = 1e-10


def regression_errors(
    pred: Tensor,
    target: Tensor,
    items: Sequence[str],
    labels: Tensor,
) -> dict[str, float]:
    r"""Errors of predictions, each named as in ``REGRESSION_ERRORS``.

    With :math:`e_{id} = \hat y_{id} - y_{id}` for N samples of D targets,

    .. math::
        \mathrm{mae} = \frac{1}{ND} \sum_{i,d} |e_{id}|, \quad
        \mathrm{mse} = \frac{1}{ND} \sum_{i,d} e_{id}^2, \quad
        \mathrm{rmse} = \sqrt{\mathrm{mse}}, \quad
        \mathrm{gm} = \frac{1}{D} \sum_d \Bigl( \prod_i |e_{id}|
        \Bigr)^{1/N},

    ``pearson`` and ``spearman`` as :func:`correlation`, ``bmae`` and
    ``bmse`` as :func:`balanced_error` of the absolute and squared errors.

    Args:
        pred (Tensor): Predictions, float, shape ``(N, D)``.
        target (Tensor): True values, float, shape ``(N, D)``.
        items (Sequence[str]): Which errors.
        labels (Tensor): Number of the distinct label or bin of each sample,
            int64, shape ``(N,)``, for the balanced errors.

    Returns:
        dict[str, float]: The errors; NaN without samples.
    """
    if len(target) == 0:
        return dict.fromkeys(items, float('nan'))
    return {
        name: float(REGRESSION_ERRORS[name](pred, target, labels))
        for name in items
    }


def geometric_mean_error(pred: Tensor, target: Tensor) -> Tensor:
    r"""Geometric mean of the absolute errors.

    An error of exactly 0 counts as :math:`10^{-10}`, as in *Delving into
    Deep Imbalanced Regression* (ICML 2021).

    Args:
        pred (Tensor): Predictions, float, shape ``(N, D)``.
        target (Tensor): True values, float, shape ``(N, D)``.

    Returns:
        Tensor: Mean over the D targets, a scalar.
    """
    error = (pred - target).abs()
    error = torch.where(error == 0, ZERO_ERROR, error)
    return error.log().mean(dim=0).exp().mean()


def balanced_error(error: Tensor, labels: Tensor) -> Tensor:
    r"""Mean over the distinct labels of the mean error of each.

    .. math::
        \frac{1}{|\mathcal{T}|} \sum_{k \in \mathcal{T}} \frac{1}{m_k}
        \sum_{i: y_i = k} e_i

    over the labels :math:`\mathcal{T}` that have a sample, :math:`m_k` of
    them each. From *Balanced MSE for Imbalanced Visual Regression* (CVPR
    2022).

    Args:
        error (Tensor): Error of each sample, float, shape ``(N,)`` with N
            of at least 1.
        labels (Tensor): Number of the label or bin of each sample, int64,
            shape ``(N,)``.

    Returns:
        Tensor: A scalar.
    """
    _, index, support = labels.unique(return_inverse=True, return_counts=True)
    total = torch.zeros(len(support), dtype=error.dtype)
    return (total.index_add_(0, index, error) / support).mean()


def correlation(pred: Tensor, target: Tensor, ranked: bool = False) -> Tensor:
    """Correlation of Pearson, or of Spearman, in ``[-1, 1]``.

    Args:
        pred (Tensor): Predictions, float, shape ``(N, D)``.
        target (Tensor): True values, float, shape ``(N, D)``.
        ranked (bool): Correlate :func:`mean_ranks`, which is Spearman's.
            Defaults to False, Pearson's.

    Returns:
        Tensor: Mean over the D targets, a scalar; NaN when one of them has
        fewer than two distinct predictions or true values, or a prediction
        that is not finite.
    """
    values = [
        _column_correlation(x, y, ranked)
        for x, y in zip(pred.T, target.T, strict=True)
    ]
    return torch.stack(values).mean()


def mean_ranks(values: Tensor) -> Tensor:
    """Places 1..N in ascending order; equal values share their mean place.

    torchmetrics ranks in single precision and adds the places of equal
    values as 32-bit integers, which overflow from some 65,000 of them on.

    Args:
        values (Tensor): Shape ``(N,)``.

    Returns:
        Tensor: float64, shape ``(N,)``.
    """
    _, index, support = values.unique(return_inverse=True, return_counts=True)
    last = support.cumsum(0).double()
    return (last - (support - 1) / 2)[index]


def checked_values(
    pred: Tensor | np.ndarray | Sequence,
    target: Tensor | np.ndarray | Sequence,
) -> tuple[Tensor, Tensor]:
    """Predictions and true values, known to fit each other.

    Args:
        pred (Tensor | np.ndarray | Sequence): Shape ``(N,)`` or ``(N, D)``.
        target (Tensor | np.ndarray | Sequence): Shape ``(N,)`` or
            ``(N, D)``.

    Returns:
        tuple[Tensor, Tensor]: float64 on the CPU, shape ``(N, D)``.

    Raises:
        ValueError: When there is no sample, a shape is another or does not
            fit the other, or a true value is not finite.
    """
    pred, target = _columns(pred, 'predictions'), _columns(target, 'targets')
    if len(target) == 0:
        raise ValueError(
            'there is no test sample to evaluate: check the dataset and the '
            'dataloader of the evaluation.'
        )
    if pred.shape != target.shape:
        raise ValueError(
            f'predictions of shape {tuple(pred.shape)} do not fit targets of '
            f'shape {tuple(target.shape)}: give one prediction for each.'
        )
    wrong = ~target.isfinite().all(dim=1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f'target {target[row].tolist()} of test sample {row} is not '
            f'finite ({int(wrong.sum())} such samples): remove or fill them.'
        )
    return pred, target


def _columns(values: Tensor | np.ndarray | Sequence, name: str) -> Tensor:
    values = to_double(values)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f'{name} must have shape (N,) or (N, D), got shape '
            f'{tuple(values.shape)}.'
        )
    return values


def _column_correlation(x: Tensor, y: Tensor, ranked: bool) -> Tensor:
    constant = any(v.min() == v.max() for v in (x, y))
    if constant or not (x.isfinite().all() and y.isfinite().all()):
        return x.new_tensor(float('nan'))
    if ranked:
        x, y = mean_ranks(x), mean_ranks(y)
    return pearson_corrcoef(x, y).clamp(-1, 1)


def _absolute(pred: Tensor, target: Tensor) -> Tensor:
    """Absolute error of each sample, mean over its targets."""
    return (pred - target).abs().mean(dim=1)


def _squared(pred: Tensor, target: Tensor) -> Tensor:
    """Squared error of each sample, mean over its targets."""
    return (pred - target).square().mean(dim=1)


#: Functions of predictions, true values and distinct labels.
REGRESSION_ERRORS: dict[str, Callable[..., Tensor]] = {
    'mae': lambda pred, target, labels: _absolute(pred, target).mean(),
    'mse': lambda pred, target, labels: _squared(pred, target).mean(),
    'rmse': lambda pred, target, labels: _squared(pred, target).mean().sqrt(),
    'gm': lambda pred, target, labels: geometric_mean_error(pred, target),
    'pearson': lambda pred, target, labels: correlation(pred, target),
    'spearman': lambda pred, target, labels: correlation(pred, target, True),
    'bmae': lambda pred, target, labels: balanced_error(
        _absolute(pred, target), labels
    ),
    'bmse': lambda pred, target, labels: balanced_error(
        _squared(pred, target), labels
    ),
}
