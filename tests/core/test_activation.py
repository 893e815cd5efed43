"""Activations by our own kernel are torch's, and so are their slopes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.core import activation
from regard.core.activation import ACTIVATIONS, PLAIN
from regard.kernels import library as kernels
from regard.kernels.library import Library

OURS = ["gelu", "gelu-tanh", "silu"]


@pytest.fixture(params=[1, 2], ids=["AVX2", "AVX-512"], autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    if request.param > found.level:
        pytest.skip(f"this machine has {kernels.LEVELS[found.level]}")
    monkeypatch.setattr(found, "level", request.param)
    monkeypatch.setattr(activation, "SMALL", 0)
    return int(request.param)


def draw() -> Tensor:
    """Numbers of all sizes, and those where formulas break."""
    torch.manual_seed(1)
    odd = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 1e4, -1e4, 20.0, -20.0, 5.0, -5.0, 1.0, -1.0, 0.5])
    return torch.cat((torch.randn(5000) * 3, odd)).view(5, -1)


@pytest.mark.parametrize("name", OURS)
def test_it_is_what_torch_computes_in_double_precision(name: str) -> None:
    x = draw()
    exact = PLAIN[name](x.double())
    torch.testing.assert_close(ACTIVATIONS[name](x).double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OURS)
def test_slopes_are_those_of_double_precision(name: str) -> None:
    x, slope = draw().requires_grad_(), torch.randn_like(draw())
    (found,) = torch.autograd.grad(ACTIVATIONS[name](x), x, slope)
    wide = x.detach().double().requires_grad_()
    (exact,) = torch.autograd.grad(PLAIN[name](wide), wide, slope.double())
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("name", OURS)
def test_what_is_no_number_stays_none_and_steps_do_not_matter(name: str) -> None:
    x = draw()
    x[2, 7] = torch.nan
    found = ACTIVATIONS[name](x)
    assert found.isnan().sum() == 1 and bool(found[2, 7].isnan())
    assert torch.equal(ACTIVATIONS[name](x.T).T[0], found[0])


@pytest.mark.parametrize("name", OURS)
def test_gradients_of_gradients_can_be_had(name: str) -> None:
    x = torch.randn(64, requires_grad=True)
    twice = []
    for way in (ACTIVATIONS, PLAIN):
        (slope,) = torch.autograd.grad(way[name](x).square().sum(), x, create_graph=True)
        twice.append(torch.autograd.grad(slope.square().sum(), x)[0])
    torch.testing.assert_close(*twice, rtol=1e-4, atol=1e-4)
