"""Messages along the edges of a graph, summed where they arrive: Σ w x, or Σ w relu(x + k) where edges are of kinds.

By torch's operations each edge's message is a row of its own, written and read several times over. Our own kernel,
where it can be had, adds a node's messages up while they are in the processor's nearest cache, in the same order.
"""

from __future__ import annotations

from ctypes import Array, c_int64
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.edges import Edges
from regard.core.view import View
from regard.kernels.library import Library, demand, load_unfollowed

PARTS = 16  # of the nodes, that several threads have work; gradients of kinds are added up part by part
MOST = 2**20  # numbers of those gradients; where each edge is of its own kind, the kernel isn't worth its memory


def pass_messages(x: Tensor, view: View, weights: Tensor | None = None, *, kinds: bool = True) -> Tensor:
    """What comes to each node: (nodes, width) to the same; `weights`: (edges,), of which no gradient is taken.

    `kinds`: whether messages hear of what kind their edge is, where edges are of several.
    """
    edges = view.edges if kinds and view.edges is not None else Edges(view.links)
    library = find_kernels(x, edges)
    if library is None:
        return add_messages(x, edges, weights)
    routes = view.once("routes", lambda: (EdgeOrder.along(edges, 0, len(x)), EdgeOrder.along(edges, 1, len(x))))
    weights = None if weights is None else weights.contiguous()
    found: Tensor = CompiledMessages.apply(x.contiguous(), edges.table, edges.sorts, weights, routes, library)
    return found


def add_messages(x: Tensor, edges: Edges, weights: Tensor | None) -> Tensor:
    """The same by torch's operations."""
    source, target = edges.links
    said = x.index_select(0, source)
    kinds = edges.vectors
    if kinds is not None:
        said = F.relu(said + kinds)
    if weights is not None:
        said = said * weights[:, None]
    return said.new_zeros(len(x), x.shape[1]).index_add(0, target, said)


def find_kernels(x: Tensor, edges: Edges) -> Library | None:
    """The kernels, where they serve: they have gradients of their own, so gradients may be kept."""
    table = edges.table
    plain = x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0
    small = table is None or (table.dtype == torch.float32 and table.numel() * PARTS <= MOST)
    return load_unfollowed() if plain and small and not torch.compiler.is_compiling() else None


@dataclass(frozen=True)
class EdgeOrder:
    """Edges in the order of the node at one of their ends."""

    starts: Tensor  # (nodes + 1,): where each node's edges begin
    others: Tensor  # (edges,): the node at the other end
    numbers: Tensor  # (edges,): which edge it is

    @classmethod
    def along(cls, edges: Edges, end: int, nodes: int) -> EdgeOrder:
        """`end`: 0 for the node where an edge begins, 1 for the one that it leads to."""
        numbers = edges.links[end].argsort(stable=True)
        counts = torch.bincount(edges.links[end], minlength=nodes)
        return cls(F.pad(counts.cumsum(0), (1, 0)), edges.links[1 - end][numbers], numbers)


class CompiledMessages(torch.autograd.Function):
    """The kernel, and its way back."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        sorts: Tensor | None,
        weights: Tensor | None,
        routes: tuple[EdgeOrder, EdgeOrder],
        library: Library,
    ) -> Tensor:
        ctx.save_for_backward(x, table, sorts, weights)
        ctx.back, there = routes
        found = torch.empty_like(x)
        library.functions.regard_hear(
            *point_to(x, table, weights, there.starts, there.others, there.numbers, sorts, found),
            *(describe_sizes(x, table), library.level),
        )
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, table, sorts, weights = ctx.saved_tensors
        library, back, grad = demand(), ctx.back, grad.contiguous()
        grad_x = torch.empty_like(x)
        grad_table = None if table is None else table.new_zeros(PARTS, *table.shape)
        library.functions.regard_hear_back(
            *point_to(x, table, weights, back.starts, back.others, back.numbers, sorts, grad, grad_x, grad_table),
            *(describe_sizes(x, table), library.level),
        )
        return grad_x, None if grad_table is None else grad_table.sum(0), None, None, None, None


def point_to(*tensors: Tensor | None) -> list[int | None]:
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def describe_sizes(x: Tensor, table: Tensor | None) -> Array[c_int64]:
    return (c_int64 * 4)(*x.shape, PARTS, 0 if table is None else len(table))
