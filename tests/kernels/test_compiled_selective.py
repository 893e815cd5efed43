"""Mamba's short convolution and its gate by our own kernels, against torch's operations in double precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.view import View
from regard.mixers.mamba import Mamba
from regard.parts.selective import CompiledConvolution, CompiledGate, convolve, pass_gate


def compare(found: Tensor, exact: Tensor, leaves: list[Tensor], wanted: list[Tensor]) -> None:
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)
    slope = torch.randn_like(found)
    pairs = zip(
        torch.autograd.grad(found, leaves, slope), torch.autograd.grad(exact, wanted, slope.double()), strict=True
    )
    for one, other in pairs:
        torch.testing.assert_close(one.double(), other, rtol=0, atol=3e-6 * (1 + float(other.abs().max())))


@pytest.mark.parametrize("rows, time, inner, taps", [(1, 2, 1, 2), (2, 3, 16, 4), (3, 40, 150, 4), (2, 2, 7, 8)])
def test_convolution(level: int, rows: int, time: int, inner: int, taps: int) -> None:
    torch.manual_seed(0)
    shapes = (rows, time, inner), (rows, taps - 1, inner), (inner, taps), (inner,)
    leaves = x, tail, weight, bias = [torch.randn(shape, requires_grad=True) for shape in shapes]
    wanted = x64, tail64, weight64, bias64 = [leaf.detach().double().requires_grad_() for leaf in leaves]
    inputs = torch.cat((tail64, x64), 1).transpose(1, 2)
    exact = F.silu(F.conv1d(inputs, weight64[:, None], bias64, groups=inner).transpose(1, 2))
    found = convolve(x, tail, weight, bias)
    assert type(found.grad_fn).__name__ == f"{CompiledConvolution.__name__}Backward"
    compare(found, exact, leaves, wanted)


@pytest.mark.parametrize("rows, time, inner", [(1, 2, 1), (2, 5, 33), (3, 50, 64)])
def test_gate(level: int, rows: int, time: int, inner: int) -> None:
    torch.manual_seed(0)
    both = torch.randn(rows, time, 2 * inner, requires_grad=True)
    y, u = (torch.randn(rows, time, inner, requires_grad=True) for _ in range(2))
    skip = torch.randn(inner, requires_grad=True)
    leaves = [y, u, skip, both]
    wanted = y64, u64, skip64, both64 = [leaf.detach().double().requires_grad_() for leaf in leaves]
    found = pass_gate(y, u, skip, both.chunk(2, -1)[1])  # with steps of its own
    assert type(found.grad_fn).__name__ == f"{CompiledGate.__name__}Backward"
    compare(found, (y64 + skip64 * u64) * F.silu(both64.chunk(2, -1)[1]), leaves, wanted)


def test_numbers_of_another_kind_are_left_to_torch() -> None:
    x, tail, weight, bias = (torch.randn(shape).double() for shape in ((2, 5, 4), (2, 3, 4), (4, 4), (4,)))
    inputs = torch.cat((tail, x), 1).transpose(1, 2)
    exact = F.silu(F.conv1d(inputs, weight[:, None], bias, groups=4).transpose(1, 2))
    torch.testing.assert_close(convolve(x, tail, weight, bias), exact)


def test_a_mixer_learns_the_same_in_halves_of_their_own(level: int) -> None:
    torch.manual_seed(0)
    mixer = Mamba(bias=True).build(64)
    x = torch.randn(2, 40, 64, requires_grad=True)
    found = mixer(x, View.of(x))
    slope = torch.randn_like(found)
    learned = torch.autograd.grad(found, [x, *mixer.parameters()], slope)
    exact = mixer.double()
    y = x.detach().double().requires_grad_()
    wanted = torch.autograd.grad(exact(y, View.of(y)), [y, *exact.parameters()], slope.double())
    for one, other in zip(learned, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-5 * (1 + float(other.abs().max())))
