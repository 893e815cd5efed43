"""Operations between two positions, counted on the graph that autograd kept of a real computation.

A node of that graph is one operation. Nodes that only move, repeat or convert numbers (MOVES) count for nothing. An
operation over all positions at once, such as a product of matrices, a cumulative sum or a Fourier transform, is one.

Two counts. The *path* is the least number of operations that a signal passes on its way from one position to another.
It is looked for among single numbers and not among tensors: `linear(x)[:, 9]` comes from the tensor x, and yet not from
its first position. Which numbers of a node's input a number of its output depends on, the node's own backward says:
whatever isn't 0 there. The *chain* is the greatest number of operations of which each waits for the one before it.
That is between tensors, as an operation starts when all of its input is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from regard.errors import InputError

# nodes that change no number, without the word Backward
MOVES = {
    "AccumulateGrad", "Alias", "AsStrided", "Cat", "Clone", "ConstantPadNd", "Copy", "CopySlices", "Expand", "Flip",
    "Gather", "Index", "IndexSelect", "Permute", "Real", "Repeat", "Reshape", "ReshapeAlias", "Roll", "Select", "Slice",
    "Split", "SplitWithSizes", "Squeeze", "Stack", "T", "Take", "ToCopy", "Transpose", "Unbind", "UnsafeSplit",
    "UnsafeView", "Unsqueeze", "View", "ViewAsComplex", "ViewAsReal",
}  # fmt: skip
Place = tuple[Node, int]  # an output of a node


def count_path(end: Tensor, leaf: Tensor, position: int) -> int | None:
    """The operations on the shortest way from a position of a leaf, (rows, time, …), to `end`; None: there is none.

    The search goes backward in rings: all numbers that one operation leads to, then two, and so on.
    """
    found: dict[Place, Tensor] = {}  # the numbers that were reached so far
    ring = {_enter(end): torch.ones_like(end, dtype=torch.bool)}
    generator, count = torch.Generator().manual_seed(0), 0
    while ring:
        following: dict[Place, Tensor] = {}
        while ring:
            place, mask = ring.popitem()
            new = mask & ~found[place] if place in found else mask
            if not bool(new.any()):
                continue
            found[place] = new | found[place] if place in found else new
            node = place[0]
            if getattr(node, "variable", None) is leaf and bool(new[:, position].any()):
                return count
            reach = ring if moves(node) else following
            for deeper, reached in look_through(node, place[1], new, generator):
                reach[deeper] = reached | reach[deeper] if deeper in reach else reached
        ring, count = following, count + 1
    return None


def look_through(node: Node, output: int, mask: Tensor, generator: torch.Generator) -> Iterator[tuple[Place, Tensor]]:
    """Which numbers of a node's inputs some numbers of one of its outputs depend on.

    The gradient that it is handed is random, so that two ways hardly cancel each other.
    """
    if not node.next_functions:
        return
    given = [torch.zeros(shape, dtype=dtype) for shape, dtype in _list_outputs(node)]
    given[output] = torch.randn(mask.shape, dtype=given[output].dtype, generator=generator) * mask
    backward: Any = node if callable(node) else node.apply  # type: ignore[attr-defined]  # of a Function in Python
    found = backward(*given)
    gradients = found if isinstance(found, tuple) else (found,)
    for (deeper, entry), gradient in zip(node.next_functions, gradients, strict=True):
        if deeper is not None and gradient is not None:
            shape = _list_outputs(deeper)[entry][0]
            # what was broadcast on its way into this node has the smaller shape before it
            yield (deeper, entry), (gradient != 0).int().sum_to_size(shape) > 0


def count_chain(end: Tensor, leaf: Tensor) -> int:
    """The most operations from a leaf to `end` of which each waits for the one before it."""
    longest: dict[Node, int | None] = {}  # None: no way leads to the leaf
    todo = [_enter(end)[0]]
    while todo:  # a recursion would be as deep as the sequence is long
        node = todo[-1]
        below = [deeper for deeper, _ in node.next_functions if deeper is not None]
        waiting = [deeper for deeper in below if deeper not in longest]
        if waiting:
            todo += waiting
            continue
        todo.pop()
        ways = [way for way in (longest[deeper] for deeper in below) if way is not None]
        if getattr(node, "variable", None) is leaf:
            longest[node] = 0
        else:
            longest[node] = max(ways) + (not moves(node)) if ways else None
    found = longest[_enter(end)[0]]
    if found is None:
        raise InputError("this result doesn't depend on that leaf at all")
    return found


def moves(node: Node) -> bool:
    """Whether a node only moves, repeats or converts numbers."""
    return re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2]) in MOVES


def _list_outputs(node: Node) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of what a node's operation gave, and so of what its backward is handed."""
    return [(tuple(told.shape), told.dtype) for told in node._input_metadata]


def _enter(end: Tensor) -> Place:
    if end.grad_fn is None:
        raise InputError("this result has no graph", "inputs that require a gradient, and no torch.no_grad()")
    return end.grad_fn, end.output_nr
