"""What a head does, in a few numbers: how spread out it looks, how far, and at what."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

STEPS = {"previous": -1, "same": 0, "next": 1}
LEAST = torch.finfo(torch.float32).tiny  # a weight of 0 has no logarithm, and adds nothing


def summarise_heads(weights: Tensor, delimiters: Sequence[bool] = ()) -> list[dict[str, float]]:
    """For each head of (heads, queries, keys): means over the queries, as Clark et al. (2019) describe BERT's.

    `entropy` in nats; `distance` in positions; the shares of the weight on the `previous`, the `same` and the `next`
    position, and on a `delimiter` (keys that `delimiters` marks: special tokens, punctuation). They tell where a head
    looks, not what it takes from there: a head that rests on a delimiter may do nothing at all.
    """
    weights = weights.float().cpu()
    heads, queries, keys = weights.shape
    apart = (torch.arange(keys)[None] - torch.arange(queries)[:, None]).abs().float()  # (queries, keys)
    marked = torch.tensor(list(delimiters) or [False] * keys)
    # each is one pass over the weights without a copy of them: there may be hundreds of heads of hundreds of tokens
    found = {
        "entropy": torch.stack([measure_entropy(head) for head in weights]),
        "distance": weights.flatten(1) @ apart.flatten(),
        **{name: weights.diagonal(step, 1, 2).sum(-1) for name, step in STEPS.items()},
        "delimiter": weights.sum(1)[:, marked].sum(-1),
    }
    means = {name: (values / queries).tolist() for name, values in found.items()}
    return [{name: values[head] for name, values in means.items()} for head in range(heads)]


def measure_entropy(weights: Tensor) -> Tensor:
    """The entropy of each row of (queries, keys), in nats, summed over the rows."""
    return -torch.dot(weights.flatten(), weights.clamp(min=LEAST).log_().flatten()).clamp(max=0)
