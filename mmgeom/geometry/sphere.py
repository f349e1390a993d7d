# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Uniform points on the unit sphere, and what lies nearest to them."""

from typing import NamedTuple

import torch
from torch import Tensor

from .precision import at_least_float32, unit_vectors

#: Entries of the largest matrix of cosines that is held at once.
_MAX_ENTRIES = 1 << 22


class SpanSample(NamedTuple):
    """Uniform points on a sphere, seen from a few vectors only.

    Attributes:
        points (Tensor): What the points have in the span of the vectors, in
            an orthonormal basis of it: shape ``(N, m)``, norms of at most
            one, no gradient.
        vectors (Tensor): The vectors in the same basis, shape ``(K, m)``,
            with gradient.
    """

    points: Tensor
    vectors: Tensor


class Nearest(NamedTuple):
    """The nearest vector of each point.

    Attributes:
        cosine (Tensor): Inner product with it, shape ``(N,)``.
        index (Tensor): Its row, int64, shape ``(N,)``.
    """

    cosine: Tensor
    index: Tensor


def uniform_points(
    num_points: int,
    dim: int,
    generator: torch.Generator | int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Independent points, uniform on the unit sphere.

    Args:
        num_points (int): N.
        dim (int): n, the sphere being that in n dimensions.
        generator (torch.Generator | int): Draws the points, on its device. A
            number is the seed of a new one in main memory. Defaults to 0.
        dtype (torch.dtype): Of the result, float32 or wider. Defaults to
            float32.

    Returns:
        Tensor: Shape ``(N, n)``, unit rows.

    Raises:
        ValueError: When a number is not positive.
    """
    _check_positive(num_points=num_points, dim=dim)
    return unit_vectors(_normal(num_points, dim, generator, dtype))


def sample_span(
    vectors: Tensor,
    num_points: int,
    generator: torch.Generator | int = 0,
) -> SpanSample:
    r"""Draw uniform points by their projections on K vectors only.

    Inner products of a point p, uniform on the sphere in n dimensions, with
    the K rows of C have the law of

    .. math::
        p\,C^T \sim \frac{L g}{r}, \qquad L L^T = C C^T, \quad
        g \sim N(0, I_K), \quad r^2 = |g|^2 + \chi^2_{n-K}

    so that K normal numbers do for a point instead of n, and nothing else of
    it is needed. As the square root :math:`L = CQ` is taken, with an
    orthonormal basis Q of the rows of C held constant: it exists for linearly
    dependent rows too, and the gradient of a function of the products is the
    mean of that for whole points, given their part in the span. The gradient
    is therefore unbiased and varies less. For :math:`K \ge n` the points are
    drawn whole.

    Args:
        vectors (Tensor): C, shape ``(K, n)``; rows of zeros are allowed.
        num_points (int): N.
        generator (torch.Generator | int): As in :func:`uniform_points`; one
            of the device of the vectors saves a copy. Defaults to 0.

    Returns:
        SpanSample: ``points @ vectors.T`` are the inner products,
        ``m = min(K, n)``.

    Raises:
        ValueError: When a number is not positive.
    """
    dtype = at_least_float32(vectors).dtype
    points = span_points(num_points, *vectors.shape, generator, dtype)
    return in_span(vectors, points.to(vectors.device))


def span_points(
    num_points: int,
    num_vectors: int,
    dim: int,
    generator: torch.Generator | int = 0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The random part of :func:`sample_span`, which no vector decides.

    Args:
        num_points (int): N.
        num_vectors (int): K.
        dim (int): n.
        generator (torch.Generator | int): As in :func:`uniform_points`.
            Defaults to 0.
        dtype (torch.dtype): Of the result, float32 or wider. Defaults to
            float32.

    Returns:
        Tensor: On the device of the generator, shape ``(N, min(K, n))``.

    Raises:
        ValueError: When a number is not positive.
    """
    _check_positive(num_points=num_points, K=num_vectors, n=dim)
    if num_vectors >= dim:
        return uniform_points(num_points, dim, generator, dtype)
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    part = _normal(num_points, num_vectors, generator, dtype)
    # The only sampler of this law that takes a generator.
    rest = 2 * torch._standard_gamma(
        part.new_full((num_points, 1), (dim - num_vectors) / 2), generator
    )
    return part / (part.square().sum(1, keepdim=True) + rest).sqrt()


def in_span(vectors: Tensor, points: Tensor) -> SpanSample:
    """The rest of :func:`sample_span`: vectors in a basis of their span.

    Args:
        vectors (Tensor): C, shape ``(K, n)``; rows of zeros are allowed.
        points (Tensor): Of :func:`span_points`, on the same device.

    Returns:
        SpanSample: The points, and the vectors in their coordinates.
    """
    vectors = at_least_float32(vectors)
    number, dim = vectors.shape
    if number >= dim:
        return SpanSample(points, vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        basis = torch.linalg.qr(vectors.detach().T).Q
        return SpanSample(points, vectors @ basis)


@torch.no_grad()
def nearest_vectors(
    points: Tensor, vectors: Tensor, available: Tensor | None = None
) -> Nearest:
    """The row of largest inner product with each point.

    The matrix of all inner products never exists at once: 100,000 points and
    1,000 vectors take 16 MiB.

    Args:
        points (Tensor): Shape ``(N, n)``.
        vectors (Tensor): Shape ``(K, n)``.
        available (Tensor, optional): Which rows take part, bool, shape
            ``(K,)``; the values of the others do not matter. Defaults to
            None: all.

    Returns:
        Nearest: Without gradient. If no row takes part, the inner products
        are :math:`-\\infty`.

    Raises:
        ValueError: When there is no point, or shapes do not fit.
    """
    _check_shapes(points, vectors, available)
    vectors = at_least_float32(vectors)
    offset = vectors.new_zeros(len(vectors))
    if available is not None:
        offset.masked_fill_(~available, -torch.inf)
        vectors = torch.where(available[:, None], vectors, 0)
    size = min(len(points), max(1, _MAX_ENTRIES // len(vectors)))
    # One piece of memory for all parts: freeing and taking it again for each
    # one leaves holes that add up to the whole matrix.
    products = vectors.new_empty(size, len(vectors))
    cosine = vectors.new_empty(len(points))
    index = torch.empty_like(cosine, dtype=torch.int64)
    for start in range(0, len(points), size):
        part = points[start : start + size].to(vectors.dtype)
        some = slice(start, start + len(part))
        # Autocast does not touch operations with a given output.
        torch.addmm(offset, part, vectors.T, out=products[: len(part)])
        torch.max(products[: len(part)], 1, out=(cosine[some], index[some]))
    return Nearest(cosine, index)


def few_shot_share(
    points: Tensor,
    centroids: Tensor,
    few: Tensor,
    available: Tensor | None = None,
) -> Tensor:
    """Share of the sphere that is nearest to few-shot centroids.

    Estimated by uniform points. The share of the label range that the
    few-shot bins cover is what a trace of constant speed would give them.

    Source: SRL (CVPR 2025), Table 7.

    Args:
        points (Tensor): Uniform on the sphere, shape ``(N, n)``.
        centroids (Tensor): Of the label bins, or of classes, shape
            ``(K, n)``.
        few (Tensor): Which of them are few-shot, bool, shape ``(K,)``.
        available (Tensor, optional): As in :func:`nearest_vectors`. Defaults
            to None: all.

    Returns:
        Tensor: Scalar in ``[0, 1]``; zero if no centroid is available.

    Raises:
        ValueError: When there is no point, or shapes do not fit.
    """
    if few.shape != centroids.shape[:1]:
        raise ValueError(
            f'few must be a mask of shape ({len(centroids)},), one entry for '
            f'each centroid, got shape {tuple(few.shape)}.'
        )
    cosine, index = nearest_vectors(points, centroids, available)
    return (few[index] & (cosine != -torch.inf)).to(cosine.dtype).mean()


def _normal(
    number: int,
    dim: int,
    generator: torch.Generator | int,
    dtype: torch.dtype,
) -> Tensor:
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    return torch.randn(
        number, dim, generator=generator, device=generator.device, dtype=dtype
    )


def _check_positive(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(
                f'points on a sphere need a positive {name}, got {value}.'
            )


def _check_shapes(
    points: Tensor, vectors: Tensor, available: Tensor | None
) -> None:
    fits = (
        points.ndim == 2 == vectors.ndim
        and points.shape[1] == vectors.shape[1]
        and len(points) > 0
        and len(vectors) > 0
    )
    if not fits:
        raise ValueError(
            'points must have shape (N, n) and vectors (K, n) with N and K '
            f'positive, got {tuple(points.shape)} and '
            f'{tuple(vectors.shape)}.'
        )
    if available is not None and available.shape != vectors.shape[:1]:
        raise ValueError(
            f'available must be a mask of shape ({len(vectors)},), one entry '
            f'for each vector, got shape {tuple(available.shape)}.'
        )
