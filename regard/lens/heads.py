"""What a head does, in a few numbers: how spread out it looks, how far, and at what."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def summarise_heads(weights: Tensor, delimiters: Sequence[bool] = ()) -> list[dict[str, float]]:
    """For each head of (heads, queries, keys): means over the queries, as Clark et al. (2019) describe BERT's.

    `entropy` in nats; `distance` in positions; the shares of the weight on the `previous`, the `same` and the `next`
    position, and on a `delimiter` (keys that `delimiters` marks: special tokens, punctuation). They tell where a head
    looks, not what it takes from there: a head that rests on a delimiter may do nothing at all.
    """
    heads, queries, keys = weights.shape
    apart = torch.arange(keys)[None] - torch.arange(queries)[:, None]  # (queries, keys): how far ahead a key is
    marked = torch.tensor(list(delimiters) or [False] * keys)
    weights = weights.float().cpu()
    found = {
        "entropy": torch.special.entr(weights).sum(-1).mean(-1),
        "distance": (weights * apart.abs()).sum(-1).mean(-1),
        **{name: (weights * (apart == step)).sum(-1).mean(-1) for name, step in STEPS.items()},
        "delimiter": weights[..., marked].sum(-1).mean(-1),
    }
    return [{name: float(values[head]) for name, values in found.items()} for head in range(heads)]


STEPS = {"previous": -1, "same": 0, "next": 1}
