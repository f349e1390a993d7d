# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
import torch.nn.functional as F

from mmgeom.geometry.precision import at_least_float32, unit_vectors


def vectors(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 3, 5, generator=generator).to(dtype)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype):
    tensor = vectors(dtype)
    assert at_least_float32(tensor).dtype == torch.float32
    assert unit_vectors(tensor).dtype == torch.float32
    torch.testing.assert_close(
        unit_vectors(tensor).norm(dim=-1), torch.ones(4, 3)
    )


def test_wide_precision_is_kept():
    for dtype in (torch.float32, torch.float64):
        tensor = torch.ones(2, 3, dtype=dtype)
        assert at_least_float32(tensor) is tensor
        assert unit_vectors(tensor).dtype == dtype


def test_value_and_gradient_are_those_of_torch():
    one, two = (vectors().requires_grad_() for _ in range(2))
    weight = vectors().flip(0)
    ours, theirs = unit_vectors(one), F.normalize(two, dim=-1)
    torch.testing.assert_close(ours, theirs, atol=1e-15, rtol=1e-14)
    (ours * weight).sum().backward()
    (theirs * weight).sum().backward()
    torch.testing.assert_close(one.grad, two.grad, atol=1e-14, rtol=1e-12)


@pytest.mark.parametrize(
    'dtype', [torch.float64, torch.float32, torch.bfloat16, torch.float16]
)
def test_zero_vectors_stay_and_get_no_gradient(dtype):
    tensor = vectors(dtype)
    tensor[1] = 0
    tensor.requires_grad_()
    unit = unit_vectors(tensor)
    assert (unit[1] == 0).all()
    (unit * 7).sum().backward()
    assert torch.isfinite(tensor.grad).all()
    assert (tensor.grad[1] == 0).all()
    assert (tensor.grad[0] != 0).any()


def test_large_values_of_half_precision_do_not_overflow():
    tensor = torch.full((2, 100), 65504.0, dtype=torch.float16)
    torch.testing.assert_close(unit_vectors(tensor), torch.full((2, 100), 0.1))
