# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Numbers that are infinite or NaN are found."""

import pytest
import torch

from mmgeom.geometry.finite import all_finite

_INF, _NAN, _LARGE = float('inf'), float('nan'), 3e38


@pytest.mark.parametrize(
    ('values', 'finite'),
    [
        ([1.0, -2.0], True),
        ([], True),
        ([[1.0, 2.0], [_NAN, 4.0]], False),
        ([1.0, _INF], False),
        # Their sum is no number, and not infinite.
        ([_INF, -_INF], False),
        # Their sum is infinite.
        ([_LARGE, _LARGE], True),
        ([_LARGE, _LARGE, _NAN], False),
    ],
)
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_all_finite(values, finite, dtype):
    assert all_finite(torch.tensor(values, dtype=dtype)) is finite


def test_sum_is_too_large_in_half_precision():
    assert all_finite(torch.full((9,), 6e4, dtype=torch.float16))


def test_whole_numbers():
    assert all_finite(torch.arange(5))
