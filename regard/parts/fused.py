"""Attention of whole sequences by our own kernel, forward and back: scores are never written to memory.

Torch's fused attention is made for long sequences and many cores; at the lengths of sentences it is slower, and a
second thread brings it nothing. Ours gives a thread one head of one row, and its scores stay in the nearest cache.
"""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.matrix import find_faster
from regard.kernels.library import load_unfollowed

REGISTER = 16  # numbers that an instruction takes at once, with AVX-512
MOST = 2**13  # keys up to which the scores of some queries stay near
SIZES, STEPS = c_int64 * 6, c_int64 * 16


def attend_whole(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, causal: bool
) -> Tensor | None:
    """softmax(q kᵀ · scale) v, (rows, heads, queries, size); None where the kernel can't serve, or is the slower.

    key, value: (rows, heads that share keys, keys, size). allowed: (rows or 1, 1, queries or 1, keys). causal: nobody
    sees a later position.
    """
    keys = key.shape[2]
    # what costs least is asked first
    if query.shape[3] % REGISTER or not 0 < keys <= MOST or not query.numel():
        return None
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    if load_unfollowed() is None or find_faster() is None:
        return None
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in (query, key, value)):
        return None
    if allowed is not None and (allowed.dtype != torch.bool or allowed.shape[1] != 1):
        return None
    found: Tensor
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        found = WholeAttention.apply(query, key, value, allowed, scale, causal)
    else:
        found, _ = run(query, key, value, allowed, scale, causal)
    return found


class WholeAttention(torch.autograd.Function):
    """The kernel, and its way back."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, causal: bool
    ) -> Tensor:
        found, logs = run(query, key, value, allowed, scale, causal)
        ctx.save_for_backward(query, key, value, allowed, found, logs)
        ctx.scale, ctx.causal = scale, causal
        return found

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, allowed, found, logs = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            again = attend_openly(query, key, value, allowed, ctx.scale, ctx.causal)
            wanted = [part for part in (query, key, value) if part.requires_grad]
            grads = iter(torch.autograd.grad(again, wanted, slope, create_graph=True))
            return *(next(grads) if part.requires_grad else None for part in (query, key, value)), None, None, None
        return *run_back(query, key, value, allowed, found, logs, slope, ctx.scale, ctx.causal), None, None, None


def attend_openly(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, causal: bool
) -> Tensor:
    """The same by torch's plain operations, whose gradients have gradients."""
    grouped = key.shape[1] < query.shape[1]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(
            query, key, value, allowed, is_causal=causal, scale=scale, enable_gqa=grouped
        )


def run(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """What is seen, and the log of each query's sum: (rows, heads, queries)."""
    query, key, value = (lay_near(part) for part in (query, key, value))
    rows, heads, queries, size = query.shape
    found = query.new_empty(rows, queries, heads, size)
    logs = query.new_empty(rows, heads, queries)
    call_kernel("regard_attend", (query, key, value, allowed, found, logs), None, scale, causal)
    return found.transpose(1, 2), logs


def run_back(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None,
    found: Tensor,
    logs: Tensor,
    slope: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values, laid out as the projections have them."""
    query, key, value, slope = (lay_near(part) for part in (query, key, value, slope))
    rows, heads, queries, size = query.shape
    to_query = query.new_empty(rows, queries, heads, size)
    to_key, to_value = (query.new_zeros(rows, key.shape[2], key.shape[1], size) for _ in range(2))
    tensors = (query, key, value, allowed, found, logs, slope, to_query, to_key, to_value)
    call_kernel("regard_attend_back", tensors, slope, scale, causal)
    return to_query.transpose(1, 2), to_key.transpose(1, 2), to_value.transpose(1, 2)


def lay_near(x: Tensor) -> Tensor:
    """The same with the numbers of a head side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


def call_kernel(
    name: str, tensors: tuple[Tensor | None, ...], slope: Tensor | None, scale: float, causal: bool
) -> None:
    query, key, value, allowed = tensors[:4]
    assert query is not None and key is not None and value is not None
    library = find_faster()
    assert library is not None
    rows, heads, queries, size = query.shape
    keys = key.shape[2]
    over = (0, 0, 0, 0) if allowed is None else allowed.expand(rows, 1, queries, keys).stride()
    steps = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3], over[0], over[2], over[3], 0)
    getattr(library.functions, name)(
        *(None if tensor is None else tensor.data_ptr() for tensor in tensors),
        SIZES(rows, heads, key.shape[1], queries, keys, size),
        STEPS(*steps, *((0, 0, 0) if slope is None else slope.stride()[:3])),
        *(scale, causal),
    )
