"""A look of few queries at many keys, by our own kernel: what a model does when it writes token by token.

Torch's fused attention is made for whole sequences, and takes two to three times as long for one query a row.
"""

from __future__ import annotations

from ctypes import c_int64

import torch
from torch import Tensor

from regard.kernels.library import REGISTER, ready

FEW = 8  # queries of a row up to which it is worth while
SIZES, STEPS = c_int64 * 6, c_int64 * 13


def look(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, moved: Tensor | None = None
) -> Tensor | None:
    """softmax(q kᵀ · scale) v, (rows, heads, queries, size); None where the kernel can't serve, or gradients are kept.

    key, value: (rows, heads that share keys, keys, size). allowed: (rows or 1, 1, queries or 1, keys). moved: (rows,
    keys), the row in which each key and value stands, where that isn't its own.
    """
    rows, heads, queries, size = query.shape
    if queries > FEW or (library := ready()) is None:
        return None
    keys = key.shape[2]
    if not query.numel() or not keys or size % REGISTER[library.level]:
        return None
    for part in (query, key, value):
        if part.dtype != torch.float32 or part.stride(3) != 1 or part.device.type != "cpu":
            return None
    steps = (0, 0, 0)
    if allowed is not None:
        if allowed.dtype != torch.bool or allowed.shape[1] != 1:
            return None
        over = allowed.expand(rows, 1, queries, keys).stride()
        steps = (over[0], over[2], over[3])
    found = query.new_empty(rows, queries, heads, size)
    library.functions.regard_look(
        *(query.data_ptr(), key.data_ptr(), value.data_ptr(), None if allowed is None else allowed.data_ptr()),
        *(None if moved is None else moved.data_ptr(), found.data_ptr()),
        SIZES(rows, heads, key.shape[1], queries, keys, size),
        STEPS(
            *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *steps, 0 if moved is None else moved.stride(0)
        ),
        *(scale, library.level),
    )
    return found.transpose(1, 2)
