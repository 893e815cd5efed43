"""Norms that learn by our own kernel, against torch's in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.parts import norm
from regard.parts.norm import CompiledNorm, LayerNormLayer, RMSNormLayer


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm, "SMALL", 0)


@pytest.mark.parametrize("kind", ["centred", "without a bias", "by the root"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 33), (40, 128), (3, 50, 7)], ids=str)
def test_numbers_and_gradients_are_those_of_double_precision(level: int, shape: tuple[int, ...], kind: str) -> None:
    torch.manual_seed(0)
    width = shape[-1]
    layer: nn.Module = (
        RMSNormLayer(width, 1e-5) if kind == "by the root" else LayerNormLayer(width, bias=kind == "centred")
    )
    for weight in layer.parameters():
        nn.init.normal_(weight)
    x = (3 * torch.randn(shape) + 1).requires_grad_()
    found = layer(x)
    assert type(found.grad_fn).__name__ == f"{CompiledNorm.__name__}Backward"
    slope = torch.randn(shape)
    learned = torch.autograd.grad(found, [x, *layer.parameters()], slope)
    y, exact = x.detach().double().requires_grad_(), layer.double()
    other = exact(y)
    assert type(other.grad_fn).__name__ != f"{CompiledNorm.__name__}Backward"
    torch.testing.assert_close(found.double(), other, rtol=0, atol=2e-5)
    wanted = torch.autograd.grad(other, [y, *exact.parameters()], slope.double())
    for one, two in zip(learned, wanted, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=0, atol=1e-5 * (1 + float(two.abs().max())))


@pytest.mark.parametrize("kind", [LayerNormLayer, RMSNormLayer])
def test_gradients_have_gradients(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    layer = kind(5, 1e-5)
    x = torch.randn(4, 5, requires_grad=True)
    total = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)[0].square().sum()
    found = torch.autograd.grad(total, x)[0]
    y, exact = x.detach().double().requires_grad_(), layer.double()
    again = torch.autograd.grad(exact(y).pow(3).sum(), y, create_graph=True)[0].square().sum()
    torch.testing.assert_close(found.double(), torch.autograd.grad(again, y)[0], rtol=1e-3, atol=1e-4)
