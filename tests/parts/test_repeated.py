"""A matrix that a loop uses at every step, and a cell that knows a part of its inputs ahead, against plain steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.parts.cell import Ahead, Cell, Kind
from regard.parts.repeated import Repeated


def test_the_gradient_is_that_of_every_step() -> None:
    torch.manual_seed(0)
    given, weight, x = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4, 5), (5, 2), (3, 4, 2))
    )
    repeated = Repeated(given, weight)
    found = torch.stack([repeated(one) for one in x.unbind(1)], 1)
    expected = given + x @ weight.mT
    torch.testing.assert_close(found, expected)
    for _ in range(2):  # and asking twice doesn't count twice
        slopes = torch.autograd.grad(found.sin().sum(), (given, weight, x), retain_graph=True)
        torch.testing.assert_close(
            slopes, torch.autograd.grad(expected.sin().sum(), (given, weight, x), retain_graph=True)
        )


def test_steps_that_are_not_taken_count_for_nothing() -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 5, 3, dtype=torch.float64)
    weight = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    repeated = Repeated(given, weight)
    found = torch.stack([repeated(x[:, time]) for time in range(2)], 1)
    (slope,) = torch.autograd.grad(found.square().sum(), weight)
    (expected,) = torch.autograd.grad((given + x @ weight.mT)[:, :2].square().sum(), weight)
    torch.testing.assert_close(slope, expected)


@pytest.mark.parametrize("kind", ["rnn", "relu", "lstm", "gru"])
def test_a_cell_that_knows_a_part_ahead_steps_as_it_would_without(kind: Kind) -> None:
    torch.manual_seed(0)
    cell = Cell(kind, 7 + 5, 6, 2).double()
    for weight in cell.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    known = torch.randn(3, 4, 7, dtype=torch.float64, requires_grad=True)
    rest = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)

    def run(way: Ahead | None) -> list[Tensor]:
        carry = tuple(torch.zeros(3, 2, 6, dtype=torch.float64) for _ in range(cell.pieces))
        outputs = []
        for time in range(4):
            if way is None:
                hidden, carry = cell.step(torch.cat((known[:, time], rest[:, time]), -1), carry)
            else:
                hidden, carry = way.step(rest[:, time], carry)
            outputs.append(hidden)
        y = torch.stack(outputs, 1)
        return [y, *torch.autograd.grad(y.sin().sum(), [known, rest, *cell.parameters()])]

    torch.testing.assert_close(run(Ahead(cell, known)), run(None))
