"""What an LSTM's step does past its products, c = σ(f) c' + σ(i) tanh(g) and h = σ(o) tanh(c), in one pass.

By torch's operations that is a dozen small ones, and as many on the way back, each step of a loop.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.kernels.library import demand, serves

Pair = tuple[Tensor, Tensor]


def pass_gates(given: Tensor, before: Tensor) -> Pair:
    """Hidden and cell, (rows, size) each, from what the gates are told, (rows, 4 * size), and the cell before."""
    if serves(given, before):
        hidden, cell = CompiledGates.apply(given, before)
        return hidden, cell
    return compute(given, before)


def compute(given: Tensor, before: Tensor) -> Pair:
    """The same by torch's operations."""
    enter, forget, new, leave = given.chunk(4, -1)
    cell = forget.sigmoid() * before + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


class CompiledGates(torch.autograd.Function):
    """The step by our own kernel."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, before: Tensor) -> Pair:
        library, given, before = demand(), given.contiguous(), before.contiguous()
        hidden, cell = torch.empty_like(before), torch.empty_like(before)
        library.functions.regard_gates(
            *(given.data_ptr(), before.data_ptr(), *before.shape, hidden.data_ptr(), cell.data_ptr(), library.level)
        )
        ctx.save_for_backward(given, before, cell)
        return hidden, cell

    @staticmethod
    def backward(ctx: Any, to_hidden: Tensor, to_cell: Tensor) -> tuple[Tensor | None, ...]:
        given, before, cell = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            wanted = [part for part in (given, before) if part.requires_grad]
            grads = iter(torch.autograd.grad(compute(given, before), wanted, (to_hidden, to_cell), create_graph=True))
            return tuple(next(grads) if part.requires_grad else None for part in (given, before))
        library, slopes = demand(), (to_hidden.contiguous(), to_cell.contiguous())
        to_given, to_before = torch.empty_like(given), torch.empty_like(before)
        library.functions.regard_gates_back(
            *(tensor.data_ptr() for tensor in (given, before, cell, *slopes)),
            *(*before.shape, to_given.data_ptr(), to_before.data_ptr(), library.level),
        )
        return to_given, to_before
