# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Supervised contrastive loss with class temperatures and extra keys."""

import math

import torch
from torch import Tensor

from .collectives import reduce_sum_, remote_rows, row_counts, world_size
from .contrast_dense import KeyWeights, dense_log_partition
from .contrast_tiled import tiled_log_partition
from .precision import at_least_float32
from .value_checks import values_are_at_hand

#: From how many pairs of anchor and key on tiles are used: where they become
#: faster on a CPU, and where the matrices become large elsewhere.
PAIRS_ON_CPU, PAIRS_ELSEWHERE = 2**19, 2**24


def supervised_contrastive_loss(
    features: Tensor,
    labels: Tensor,
    temperature: float | Tensor,
    extra_keys: Tensor | None = None,
    extra_labels: Tensor | None = None,
    reduction: str = 'mean',
    form: str = 'sample',
    implementation: str = 'auto',
    tile: int | None = None,
    across_ranks: bool = False,
) -> Tensor:
    r"""Supervised contrastive loss.

    .. math::
        \ell_i = -\frac{1}{|P(i)|} \sum_{p \in P(i)} \left[
        \frac{z_i \cdot z_p}{\tau_i} - \log \sum_{l \ne i} \omega_{il}
        \exp \frac{z_i \cdot z_l}{\tau_i} \right]

    Every feature is an anchor i and a key; extra keys, for instance
    synthetic features or class prototypes, are keys only. :math:`P(i)` holds
    the other keys of the anchor's class. An anchor without any is left out
    of the mean, and has a loss of zero.

    In the form ``'sample'`` :math:`\omega = 1`. In the form
    ``'class_averaged'`` each class counts with the average of its
    exponentials, :math:`\omega_{il} = 1 / |B_{y_l} \setminus \{i\}|`, where
    :math:`B_k` are all keys of class k; with one prototype for each class as
    extra keys, every class takes part in every batch.

    Two exact implementations: ``'dense'`` holds matrices of all pairs,
    ``'tiled'`` computes them tile by tile, forwards and again backwards, in
    memory :math:`O((M + G) h)`; ``'auto'`` chooses by the number of pairs.
    Both compute in fp32 or wider, and differ by rounding only.

    With several processes and ``across_ranks`` the features of all ranks are
    keys of each other, with gradient. Every rank computes the losses of its
    own anchors, scaled so that the mean of the ranks' results is the loss of
    one process on all features; so is the gradient, which
    ``DistributedDataParallel`` averages. The extra keys must be the same on
    all ranks.

    Source: *Supervised Contrastive Learning* (NeurIPS 2020), Eq. 2;
    temperatures of FeatRecon (ICLR 2025), Eq. 11, which act on all logits of
    an anchor; class averages of *Balanced Contrastive Learning for
    Long-Tailed Visual Recognition* (CVPR 2022). FeatRecon prints a sum over
    anchors; the default here is their mean, for which published loss weights
    are meant.

    Args:
        features (Tensor): Unit rows :math:`z`, shape ``(M, h)``. Rows of any
            other length, also zero, are allowed.
        labels (Tensor): Integer classes, shape ``(M,)``.
        temperature (float | Tensor): :math:`\tau > 0`: a number; or one for
            each class, of which an anchor takes its own, shape ``(K,)``; or
            one for each anchor, shape ``(M, 1)``. A constant: it gets no
            gradient.
        extra_keys (Tensor | None): Shape ``(G, h)``. Defaults to None.
        extra_labels (Tensor | None): Integer classes of the extra keys,
            shape ``(G,)``. Defaults to None.
        reduction (str): ``'mean'`` over the anchors that have positives,
            ``'sum'``, or ``'none'`` for shape ``(M,)``. Defaults to
            ``'mean'``.
        form (str): ``'sample'`` or ``'class_averaged'``. Defaults to
            ``'sample'``.
        implementation (str): ``'auto'``, ``'dense'`` or ``'tiled'``; the
            latter is differentiable once. Defaults to ``'auto'``.
        tile (int | None): Edge of the tiles. Defaults to None, a length
            suited to the device.
        across_ranks (bool): Take the features of all ranks as keys, and the
            mean or sum over the anchors of all ranks. Defaults to False.

    Returns:
        Tensor: The loss; zero, with a graph, when no anchor has positives.

    Raises:
        ValueError: When shapes, labels, temperatures or options do not fit.
    """
    _check_options(reduction, form, implementation, tile)
    _check_keys('features', features, 'labels', labels)
    if (extra_keys is None) != (extra_labels is None):
        raise ValueError(
            'extra_keys and extra_labels belong together, but one of them is '
            'None: give both or neither.'
        )
    if extra_keys is None:
        extra_keys, extra_labels = features[:0].detach(), labels[:0]
    _check_keys('extra_keys', extra_keys, 'extra_labels', extra_labels)
    if extra_keys.shape[1] != features.shape[1]:
        raise ValueError(
            f'extra_keys have {extra_keys.shape[1]} dimensions and features '
            f'{features.shape[1]}: give keys of the same space.'
        )
    with torch.autocast(features.device.type, enabled=False):
        features = at_least_float32(features)
        extra_keys = extra_keys.to(features.dtype)
        if across_ranks:
            extra_keys, extra_labels = _join_remote(
                features, labels, extra_keys, extra_labels
            )
        losses, has_positives = _losses(
            features,
            labels,
            _inverse_temperature(temperature, features, labels),
            extra_keys,
            extra_labels,
            form,
            implementation,
            tile,
        )
        if reduction == 'none':
            return losses
        total, anchors = losses.sum(), has_positives.sum()
        if across_ranks:
            total = total * world_size()
            reduce_sum_(anchors)
        return total if reduction == 'sum' else total / anchors.clamp(min=1)


def _join_remote(
    features: Tensor, labels: Tensor, extra_keys: Tensor, extra_labels: Tensor
) -> tuple[Tensor, Tensor]:
    """The features of other ranks are extra keys, too."""
    if world_size() == 1:
        return extra_keys, extra_labels
    sizes = row_counts(features)
    keys = torch.cat([remote_rows(features, sizes), extra_keys])
    return keys, torch.cat([remote_rows(labels, sizes), extra_labels])


def _losses(
    features: Tensor,
    labels: Tensor,
    inverse_temperature: float | Tensor,
    extra_keys: Tensor,
    extra_labels: Tensor,
    form: str,
    implementation: str,
    tile: int | None,
) -> tuple[Tensor, Tensor]:
    """Loss of each anchor, and whether it has positives."""
    number = len(features)
    classes, sizes = _group(torch.cat([labels, extra_labels]))
    # Sums over classes, which are numbered below the number of keys.
    sums = features.new_zeros(len(classes), features.shape[1])
    sums = sums.index_add(0, classes[:number], features)
    if len(extra_keys):
        sums = sums.index_add(0, classes[number:], extra_keys)
    others = sums.index_select(0, classes[:number]) - features
    positives = sizes[:number] - 1
    attraction = (features * others).sum(1) * inverse_temperature
    attraction = attraction / positives.clamp(min=1)
    if len(classes) < 2:
        return attraction * 0, positives > 0
    weights = None
    if form == 'class_averaged':
        dtype = features.dtype
        sizes = sizes.to(dtype)
        weights = KeyWeights(
            1 / sizes, 1 / (sizes - 1).clamp(min=1), classes.to(dtype)
        )
    arguments = (features, extra_keys, inverse_temperature, weights)
    if _use_tiles(implementation, number * len(classes), features.device.type):
        partition = tiled_log_partition(*arguments, tile)
    else:
        partition = dense_log_partition(*arguments)
    losses = partition - attraction
    return losses.where(positives > 0, 0), positives > 0


def _use_tiles(implementation: str, pairs: int, device: str) -> bool:
    if implementation == 'auto':
        return pairs >= (PAIRS_ON_CPU if device == 'cpu' else PAIRS_ELSEWHERE)
    return implementation == 'tiled'


def _group(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Number the classes that occur, and count their members.

    Args:
        labels (Tensor): Integer classes, shape ``(N,)``.

    Returns:
        tuple[Tensor, Tensor]: Of each label its class as a number below N,
        and how many labels are the same; shape ``(N,)`` each.
    """
    ordered, order = labels.sort()
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    classes = torch.empty_like(order)
    classes.scatter_(0, order, starts.cumsum(0) - 1)
    counts = torch.zeros_like(classes)
    counts.scatter_add_(0, classes, torch.ones_like(classes))
    return classes, counts[classes]


def _inverse_temperature(
    temperature: float | Tensor, features: Tensor, labels: Tensor
) -> float | Tensor:
    """One number, or one for each anchor, shape ``(M,)``."""
    if not isinstance(temperature, Tensor):
        if not 0 < temperature < math.inf:
            raise ValueError(
                f'temperature must be positive and finite, got {temperature}.'
            )
        return 1 / temperature
    if temperature.requires_grad:
        raise ValueError(
            'temperature requires a gradient, which this loss does not give: '
            'detach it.'
        )
    number = len(features)
    if temperature.ndim == 1:
        _check_classes(labels, len(temperature))
        temperature = temperature[labels.long()]
    elif temperature.ndim == 0 or temperature.shape == (number, 1):
        temperature = temperature.expand(number, 1)[:, 0]
    else:
        raise ValueError(
            f'temperature has shape {tuple(temperature.shape)}: give one '
            f'number, one for each class (K,), or one for each of {number} '
            f'anchors, ({number}, 1).'
        )
    if values_are_at_hand(temperature):
        wrong = ~((temperature > 0) & temperature.isfinite())
        if wrong.any():
            raise ValueError(
                'temperatures must be positive and finite, got '
                f'{temperature[wrong][0].item()}.'
            )
    return 1 / temperature.to(features)


def _check_classes(labels: Tensor, num_classes: int) -> None:
    if len(labels) == 0 or not values_are_at_hand(labels):
        return
    low, high = labels.aminmax()
    if low < 0 or high >= num_classes:
        raise ValueError(
            f'labels lie in [{low.item()}, {high.item()}], but there are '
            f'temperatures for {num_classes} classes: give one for each class.'
        )


def _check_options(
    reduction: str, form: str, implementation: str, tile: int | None
) -> None:
    for name, value, known in (
        ('reduction', reduction, ('mean', 'sum', 'none')),
        ('form', form, ('sample', 'class_averaged')),
        ('implementation', implementation, ('auto', 'dense', 'tiled')),
    ):
        if value not in known:
            raise ValueError(
                f'{name} must be one of {", ".join(map(repr, known))}, got '
                f'{value!r}.'
            )
    if tile is not None and tile < 1:
        raise ValueError(f'tile must be at least 1, got {tile}.')


def _check_keys(
    name: str, keys: Tensor, labels_name: str, labels: Tensor
) -> None:
    if keys.ndim != 2 or not keys.is_floating_point():
        raise ValueError(
            f'{name} must be floating-point rows of shape (N, h), got '
            f'{keys.dtype} of shape {tuple(keys.shape)}.'
        )
    if labels.shape != keys.shape[:1] or labels.is_floating_point():
        raise ValueError(
            f'{labels_name} must be {len(keys)} integer classes, one for each '
            f'row of {name}, got {labels.dtype} of shape '
            f'{tuple(labels.shape)}; soft and mixed labels have no positives.'
        )
