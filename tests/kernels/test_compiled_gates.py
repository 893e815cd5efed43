"""A step of an LSTM past its products by our own kernel, against torch's cell in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.parts.gates import CompiledGates, pass_gates


def draw(rows: int, size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """What gates are told, some of it far beyond where they are open or shut, and a cell."""
    torch.manual_seed(0)
    given, before = 3 * torch.randn(rows, 4 * size), torch.randn(rows, size)
    given[0, ::3] *= 100
    return given.to(dtype).requires_grad_(), before.to(dtype).requires_grad_()


@pytest.mark.parametrize("sizes", [(1, 1), (3, 7), (64, 128), (2, 50)], ids=str)
def test_a_step_and_its_gradients_are_those_of_double_precision(level: int, sizes: tuple[int, int]) -> None:
    given, exact = draw(*sizes), draw(*sizes, torch.float64)
    found = pass_gates(*given)
    assert type(found[0].grad_fn).__name__ == f"{CompiledGates.__name__}Backward"
    size = sizes[1]
    nothing, one = torch.zeros(4 * size, dtype=torch.float64), torch.eye(4 * size, dtype=torch.float64)
    hidden = torch.zeros(sizes, dtype=torch.float64)
    wanted = torch.lstm_cell(exact[0], (hidden, exact[1]), one, nothing.expand(size, -1).mT, nothing, nothing)
    slopes = [torch.randn(sizes) for _ in range(2)]
    for ours, torchs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.double(), torchs, rtol=0, atol=1e-5)
    learned = torch.autograd.grad(found, given, slopes)
    theirs = torch.autograd.grad(wanted, exact, [slope.double() for slope in slopes])
    for ours, torchs in zip(learned, theirs, strict=True):
        torch.testing.assert_close(ours.double(), torchs, rtol=0, atol=1e-5)


def test_only_one_of_both_may_be_learned_from(level: int) -> None:
    given, before = draw(3, 5)
    for which in range(2):
        found = torch.autograd.grad(pass_gates(given, before)[which].sum(), given)[0]
        exact = [part.detach().double().requires_grad_() for part in (given, before)]
        wanted = torch.autograd.grad(pass_gates(*exact)[which].sum(), exact[0])[0]
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)


def test_gradients_have_gradients() -> None:
    def turn(dtype: torch.dtype) -> Tensor:
        given, before = draw(2, 3, dtype)
        slope = torch.autograd.grad(pass_gates(given, before)[0].pow(3).sum(), given, create_graph=True)[0]
        return torch.autograd.grad(slope.square().sum(), given)[0].double()

    torch.testing.assert_close(turn(torch.float32), turn(torch.float64), rtol=1e-3, atol=1e-4)
