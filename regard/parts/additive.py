"""The sum behind an additive score, Σ v tanh(q + k) for each query and key (Bahdanau et al. 2015).

By torch's operations, a table of (queries, keys, hidden) is written and read several times over; by our own kernel, a
pair's tanh is made where it is used, and a second time on the way back.
"""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import torch
from torch import Tensor

from regard.kernels.library import demand, load_unfollowed

SMALL = 2**10  # pairs of numbers below which asking costs more than computing
PARTS = 16  # of the rows, whose gradients are added up part by part


def score_pairs(query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    """(batch, queries, hidden) and (batch, keys, hidden) to (batch, queries, keys), by `weight` of (1, hidden)."""
    if serves(query, keys, weight):
        found: Tensor = CompiledScore.apply(query, keys, weight)
        return found
    summed = query[:, :, None] + keys[:, None]  # (batch, queries, keys, hidden)
    return torch.tanh(summed) @ weight[0]


def serves(query: Tensor, keys: Tensor, weight: Tensor) -> bool:
    """Whether our kernel can be had, and reads these."""
    # sizes aren't known while a graph is drawn
    if torch.compiler.is_compiling() or query.numel() * keys.shape[1] < SMALL or len(query) != len(keys):
        return False
    if query.dtype != keys.dtype or query.dtype not in (torch.float32, torch.bfloat16) or weight.dtype != torch.float32:
        return False
    return query.is_cpu and keys.is_cpu and weight.is_cpu and load_unfollowed() is not None


class CompiledScore(torch.autograd.Function):
    """The sum by our own kernel."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
        library = demand()
        query, keys, weight = query.contiguous(), keys.contiguous(), weight.contiguous()
        (rows, queries, hidden), count = query.shape, keys.shape[1]
        found = query.new_empty(rows, queries, count, dtype=torch.float32)
        ctx.sizes = (c_int64 * 6)(rows, queries, count, hidden, query.dtype == torch.bfloat16, PARTS)
        library.functions.regard_score(
            *(tensor.data_ptr() for tensor in (query, keys, weight, found)), ctx.sizes, library.level
        )
        ctx.save_for_backward(query, keys, weight)
        return found

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        given = query, keys, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            again = torch.tanh(query[:, :, None] + keys[:, None]) @ weight[0]
            wanted = [part for part in given if part.requires_grad]
            grads = iter(torch.autograd.grad(again, wanted, slope, create_graph=True))
            return tuple(next(grads) if part.requires_grad else None for part in given)
        library, slope = demand(), slope.float().contiguous()
        to_query, to_keys = (torch.zeros_like(part, dtype=torch.float32) for part in (query, keys))
        each = weight.new_zeros(PARTS, weight.shape[1])
        library.functions.regard_score_back(
            *(tensor.data_ptr() for tensor in (*given, slope, to_query, to_keys, each)), ctx.sizes, library.level
        )
        return to_query.to(query.dtype), to_keys.to(keys.dtype), each.sum(0, keepdim=True)
