"""Norms of maps by our own kernel, against torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.parts import groupnorm
from regard.parts.groupnorm import CompiledGroupNorm, GroupNorm


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupnorm, "SMALL", 0)


@pytest.mark.parametrize("bends", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 5, 3), (3, 32, 24, 24), (40, 136, 6, 6)], ids=str)
def test_norms_and_gradients_are_those_of_double_precision(level: int, shape: tuple[int, ...], bends: bool) -> None:
    torch.manual_seed(0)
    layer = GroupNorm(4, shape[1])
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    x = (3 * torch.randn(shape) + 1).to(memory_format=torch.channels_last).requires_grad_()
    found = layer(x, bends=bends)
    assert type(found.grad_fn).__name__ == f"{CompiledGroupNorm.__name__}Backward"
    slope = torch.randn(shape)
    learned = torch.autograd.grad(found, [x, *layer.parameters()], slope)
    y, exact = x.detach().double().requires_grad_(), layer.double()
    other = exact(y, bends=bends)
    assert type(other.grad_fn).__name__ != f"{CompiledGroupNorm.__name__}Backward"
    torch.testing.assert_close(found.double(), other, rtol=0, atol=2e-5)
    wanted = torch.autograd.grad(other, [y, *exact.parameters()], slope.double())
    for one, two in zip(learned, wanted, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=0, atol=1e-5 * (1 + float(two.abs().max())))


def test_half_precision_is_rounded_once(level: int) -> None:
    torch.manual_seed(0)
    layer = GroupNorm(4, 24)
    x = torch.randn(3, 24, 9, 7, dtype=torch.bfloat16).to(memory_format=torch.channels_last).requires_grad_()
    found, exact = layer(x, bends=True), F.relu(F.group_norm(x.detach().double(), 4))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-5)
    slope = torch.randn(x.shape)
    y = x.detach().double().requires_grad_()
    wanted = torch.autograd.grad(F.relu(F.group_norm(y, 4)), y, slope.bfloat16().double())[0]
    torch.testing.assert_close(torch.autograd.grad(found, x, slope)[0].double(), wanted, rtol=2**-7, atol=1e-2)


def test_gradients_have_gradients() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last).requires_grad_()
    layer = GroupNorm(2, 4)

    def turn(dtype: torch.dtype) -> Tensor:
        found = layer.to(dtype)(x.to(dtype), bends=True)
        slope = torch.autograd.grad(found.pow(3).sum(), x, create_graph=True)[0]
        return torch.autograd.grad(slope.square().sum(), x)[0]

    torch.testing.assert_close(turn(torch.float32), turn(torch.float64), rtol=1e-3, atol=1e-3)
