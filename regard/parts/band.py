"""Bands: attention within a window, block by block, so that it costs its window and not all pairs.

A block of queries needs no keys but its own and those that the window reaches on each side. Away from the ends all
blocks are alike, so they share one small table of who may look at whom; where pads or documents tell them apart, each
has its own.

Cost: time and memory O(n · window).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Neighbourhood:
    """A block of queries, and all the keys that one of them may see: places from where to where."""

    queries: slice
    keys: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many queries, how many keys before the first query, how many keys; equal shapes have equal distances."""
        first = self.queries.start
        return self.queries.stop - first, first - self.keys.start, self.keys.stop - self.keys.start

    def places(self, device: torch.device | str | None) -> tuple[Tensor, Tensor]:
        """Where queries and keys stand, counted from the first key: (1, queries) and (1, keys)."""
        queries, before, keys = self.shape
        index = torch.arange(max(before + queries, keys), device=device)[None]
        return index[:, before : before + queries], index[:, :keys]


def choose_block(window: int) -> int:
    """How many queries go together: half a window, between 64 and 256.

    Measured at 4,096 positions with windows of 16 to 1,024, forward and backward: larger blocks compute more pairs that
    no window holds, smaller ones are too many calls.
    """
    return min(max(window // 2, 64), 256)


def is_worth_it(time: int, window: int, causal: bool) -> bool:
    """Whether a sequence is so long that blocks are quicker than all pairs behind a table.

    Measured for windows of 4 to 1,024: they are from about 128 positions more than the keys that a block sees.
    """
    return time >= choose_block(window) + (1 if causal else 2) * window + 128


def cut_band(time: int, window: int, causal: bool, block: int) -> list[Neighbourhood]:
    """The blocks of a sequence, in order; the last one may be shorter."""
    reach, spans = window - 1, []
    for first in range(0, time, block):
        last = min(first + block, time)
        spans.append(
            Neighbourhood(slice(first, last), slice(max(0, first - reach), min(time, last + (0 if causal else reach))))
        )
    return spans


def make_tables(
    spans: list[Neighbourhood], alike: bool, allow: Callable[[Neighbourhood], Tensor], dtype: torch.dtype
) -> list[Tensor]:
    """For each block what is added to its scores, 0 or -inf: (1 or rows, 1, queries, keys).

    `alike`: blocks of one shape allow the same. The kernel would take truths too, but it makes numbers of them at each
    call, and keeps these for the backward pass, block by block and layer by layer.
    """
    made: dict[object, Tensor] = {}
    keys = [span.shape if alike else span.queries.start for span in spans]
    for key, span in zip(keys, spans, strict=True):
        if key not in made:
            allowed = allow(span)
            made[key] = torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, -math.inf)
    return [made[key] for key in keys]


def take(x: Tensor, places: slice) -> tuple[Tensor, Tensor]:
    """Some places of (batch, heads, time, size), and the whole to take the next ones from."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x[:, :, places], x
    part, rest = Take.apply(x, places)
    return part, rest


class Take(torch.autograd.Function):
    """Slices that overlap, one after the other.

    Autograd's own slices would each have a gradient as long as the sequence, which is O(n²) again. Here one gradient
    passes through all of them, the last one first, and each adds its part in place.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: slice) -> tuple[Tensor, Tensor]:
        ctx.shape, ctx.places = x.shape, places
        ctx.set_materialize_grads(False)  # nobody takes from what the last one leaves
        return x[:, :, places], x.view_as(x)

    @staticmethod
    def backward(ctx: Any, part: Tensor | None, whole: Tensor | None) -> tuple[Tensor | None, None]:
        if part is None:
            return whole, None
        whole = part.new_zeros(ctx.shape) if whole is None else whole
        whole[:, :, ctx.places] += part
        return whole, None
