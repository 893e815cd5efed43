"""The best of a large table of scores, and what they must be divided by to be probabilities, at little cost."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.kernels.library import ready

BLOCK = 64  # scores that are looked at together
WORTH = 4  # times as many blocks as are wanted make it worth while


def find_best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best of each row, best first, and their places: (rows, count) of each, or as many as a row has.

    The `count` best stand in the `count` blocks with the largest maxima, so all but those are read once and not sorted.
    """
    words = scores.shape[1]
    blocks = words // BLOCK
    if blocks < count * WORTH:
        found = scores.topk(min(count, words))
        return found.values, found.indices
    even = blocks * BLOCK
    heads = scores[:, :even].unflatten(1, (blocks, BLOCK)).amax(-1).topk(count, sorted=False).indices  # (rows, count)
    places = (heads[..., None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if even < words:
        rest = torch.arange(even, words, device=scores.device).expand(len(scores), -1)
        places = torch.cat((places, rest), 1)
    values, order = scores.gather(1, places).topk(count)
    return values, places.gather(1, order)


def add_up(logits: Tensor) -> Tensor:
    """log Σ eˣ of each row: (rows, 1). What is subtracted from logits to make them log-probabilities."""
    library = ready()
    plain = logits.dtype == torch.float32 and logits.device.type == "cpu" and logits.stride(1) == 1
    if library is None or not plain:
        return logits.logsumexp(-1, keepdim=True)
    found = logits.new_empty(len(logits), 1)
    library.functions.regard_totals(logits.data_ptr(), *logits.shape, logits.stride(0), found.data_ptr(), library.level)
    return found
