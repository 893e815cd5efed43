"""Cross-entropy over a vocabulary without the table of scores: rows are scored, summed up and forgotten piece by piece.

The gradient is computed along with the loss, in the scores' place, so scores are made once, and a piece stays in the
processor's cache while it is worked on.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.factors import Factors, Scored
from regard.core.matrix import matmul
from regard.kernels.library import load_unfollowed

ROWS = 1024  # scored at once


def cross_entropy(factors: Scored, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The sum over the rows of a smoothed cross-entropy, in nats."""
    if not isinstance(factors, Factors):
        return sum_logs(factors.table().float(), targets, smoothing)
    learns = torch.is_grad_enabled()
    with torch.autocast(targets.device.type, enabled=False):  # sums over a vocabulary need all the digits
        found: Tensor = Entropy.apply(factors.vectors, factors.words, factors.bias, targets, smoothing, learns)
    return found


def sum_logs(logs: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The same of log-probabilities that are there; what is smoothed is shared among the words that a row can have."""
    lost = -logs.gather(1, targets[:, None])[:, 0]
    if not smoothing:
        return lost.sum()
    can = logs > -math.inf
    even = -logs.masked_fill(~can, 0.0).sum(1) / can.sum(1)
    return ((1 - smoothing) * lost + smoothing * even).sum()


class Entropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        words: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        learns: bool,
    ) -> Tensor:
        """z: a row's scores, and then p - (1 - ε) [target] - ε / words, where p is their softmax."""
        x, w, b = vectors.detach().float(), words.detach().float(), None if bias is None else bias.detach().float()
        dx, dw, db = torch.empty_like(x), torch.zeros_like(w), None if b is None else torch.zeros_like(b)
        total = x.new_zeros(())
        for rows in pieces(len(x)):
            z = matmul(x[rows], w.T)  # (rows, vocabulary)
            if b is not None:
                z += b
            total += lose(z, targets[rows], smoothing)
            if not learns:
                continue
            matmul(z, w, out=dx[rows])
            matmul(z.T, x[rows], out=dw, adds=True)
            if db is not None:
                db += z.sum(0)
        if learns:
            ctx.save_for_backward(dx, dw, db)
            ctx.types = vectors.dtype, words.dtype
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw, db = ctx.saved_tensors
        of_vectors, of_words = ctx.types
        of_bias = None if db is None else db * scale
        return (dx * scale).to(of_vectors), (dw * scale).to(of_words), of_bias, None, None, None


def lose(z: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The loss of some rows of scores, (rows, vocabulary), in whose place their gradient is left."""
    sharp, even = 1 - smoothing, smoothing / z.shape[1]
    library = load_unfollowed() if z.is_cpu and z.dtype == torch.float32 and z.is_contiguous() else None
    if library is not None:
        targets, found = targets.contiguous(), z.new_empty(len(z))
        library.functions.regard_lose(
            *(z.data_ptr(), targets.data_ptr(), *z.shape, sharp, even, found.data_ptr(), library.level)
        )
        return found.sum()
    hit, level = z.gather(1, targets[:, None]), z.sum(1, keepdim=True) if smoothing else 0.0
    top = z.amax(1, keepdim=True)
    mass = z.sub_(top).exp_().sum(1, keepdim=True)
    z.mul_(mass.reciprocal()).sub_(even).scatter_add_(1, targets[:, None], hit.new_full(hit.shape, -sharp))
    return (top + mass.log() - sharp * hit - even * level).sum()


def losses(factors: Scored, targets: Tensor) -> Tensor:
    """What each prediction costs, in nats, for a measure: scores are made piece by piece here too."""
    found = [
        F.cross_entropy(factors.at(rows).table().float(), targets[rows], reduction="none")
        for rows in pieces(len(targets))
    ]
    return torch.cat(found).double().cpu()


def pieces(count: int) -> list[slice]:
    """Rows in pieces of like size, none larger than the most."""
    number = max(1, math.ceil(count / ROWS))
    bounds = [count * n // number for n in range(number + 1)]
    return [slice(first, last) for first, last in pairwise(bounds)]
