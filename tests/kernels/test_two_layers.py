"""A feed-forward that learns as one step, against its layers in double precision."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from regard.core.activation import Activation
from regard.core.matrix import TwoLayers, find_faster
from regard.core.probe import Probe
from regard.core.view import View
from regard.parts.feedforward import FeedForward

WIDTH, HIDDEN = 48, 112
NAME = f"{TwoLayers.__name__}Backward"


@pytest.fixture(autouse=True)
def faster(level: int) -> None:
    if find_faster() is None:
        pytest.skip("torch's products are the faster ones here")


def build(activation: Activation, bias: bool = True) -> torch.nn.Module:
    torch.manual_seed(1)
    return FeedForward(hidden=HIDDEN, activation=activation, bias=bias).build(WIDTH)


def draw() -> Tensor:
    return torch.randn(5, 40, WIDTH, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", sorted(set(get_args(Activation)) - {"relu"}))
def test_numbers_and_gradients_are_those_of_double_precision(activation: Activation, bias: bool) -> None:
    layer, x = build(activation, bias), draw()
    found = layer(x, View.of(x))
    assert type(found.grad_fn).__name__ == NAME
    slope = torch.randn(found.shape)
    learned = torch.autograd.grad(found, [x, *layer.parameters()], slope)
    y, exact = x.detach().double().requires_grad_(), layer.double()
    other = exact(y, View.of(y))
    torch.testing.assert_close(found.double(), other, rtol=0, atol=1e-5)
    wanted = torch.autograd.grad(other, [y, *exact.parameters()], slope.double())
    for one, two in zip(learned, wanted, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=0, atol=1e-5 * (1 + float(two.abs().max())))


@pytest.mark.parametrize("frozen", [("up", "down"), ("up",), ("down",)], ids=str)
@pytest.mark.parametrize("asks", [True, False])
def test_only_what_is_wanted_is_computed(frozen: tuple[str, ...], asks: bool) -> None:
    layer, x = build("gelu"), draw().detach().requires_grad_(asks)
    for name in frozen:
        layer.get_submodule(name).requires_grad_(False)
    found = layer(x, View.of(x))
    if not found.requires_grad:
        return
    found.square().sum().backward()
    assert (x.grad is not None) == asks
    for name, weight in layer.named_parameters():
        assert (weight.grad is None) == (name.partition(".")[0] in frozen)


def test_gradients_have_gradients() -> None:
    layer, x = build("gelu-tanh"), draw()
    total = torch.autograd.grad(layer(x, View.of(x)).pow(3).sum(), x, create_graph=True)[0].square().sum()
    found = torch.autograd.grad(total, [x, *layer.parameters()], allow_unused=True)
    y, exact = x.detach().double().requires_grad_(), layer.double()
    again = torch.autograd.grad(exact(y, View.of(y)).pow(3).sum(), y, create_graph=True)[0].square().sum()
    for one, two in zip(found, torch.autograd.grad(again, [y, *exact.parameters()], allow_unused=True), strict=True):
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            torch.testing.assert_close(one.double(), two, rtol=1e-3, atol=1e-4 * (1 + float(two.abs().max())))


def test_who_looks_between_the_layers_has_them_apart() -> None:
    class Look(Probe):
        def wants(self, name: str) -> bool:
            return name.endswith("hidden")

        def __call__(self, name: str, value: Tensor) -> Tensor:
            return value * 0

    layer, x = build("gelu"), draw()
    assert type(layer(x, View.of(x, probe=Look())).grad_fn).__name__ != NAME
    layer.get_submodule("up").register_forward_hook(lambda *_: None)
    assert type(layer(x, View.of(x)).grad_fn).__name__ != NAME
