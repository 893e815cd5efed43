"""Cross-entropy over a vocabulary without the table of scores: rows are scored, summed up and forgotten piece by piece.

The gradient is computed along with the loss, so scores are made once, and a piece stays in the processor's cache while
it is worked on. Label smoothing (Szegedy et al. 2016) never needs dense targets: the sum of all scores of a row is the
row times the sum of all words.
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

ROWS = 1024  # scored at once
LOG2 = math.log2(math.e)  # 2^x is cheaper than e^x


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
        """z: a row's scores; p: their softmax; loss = log Σ e^z - (1 - ε) z[target] - ε mean(z)."""
        x, w, b = vectors.detach().float(), words.detach().float(), None if bias is None else bias.detach().float()
        sharp, even = 1 - smoothing, smoothing / len(w)
        dx, dw, db = torch.empty_like(x), torch.zeros_like(w), None if b is None else torch.zeros_like(b)
        total = x.new_zeros(())
        for rows in pieces(len(x)):
            z = matmul(x[rows] * LOG2, w.T)  # (rows, vocabulary), in bits
            if b is not None:
                z += b * LOG2
            hit = z.gather(1, targets[rows, None])
            top = z.amax(1, keepdim=True)
            z.sub_(top).exp2_()
            mass = z.sum(1, keepdim=True)
            total += (top + mass.log2() - sharp * hit).sum() / LOG2
            if not learns:
                continue
            share = mass.reciprocal()
            matmul(z, w, out=dx[rows]).mul_(share)
            matmul(z.T, x[rows] * share, out=dw, adds=True)
            if db is not None:
                db.addmv_(z.T, share[:, 0])
        everything, read = w.sum(0), x.sum(0)
        total -= even * (read @ everything + (0.0 if b is None else len(x) * b.sum()))
        if not learns:
            return total
        dx.sub_(w[targets], alpha=sharp).sub_(everything, alpha=even)
        dw.index_add_(0, targets, x, alpha=-sharp).sub_(read, alpha=even)
        if db is not None:
            db.sub_(torch.bincount(targets, minlength=len(w)), alpha=sharp).sub_(even * len(x))
        ctx.save_for_backward(dx, dw, db)
        ctx.types = vectors.dtype, words.dtype
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw, db = ctx.saved_tensors
        of_vectors, of_words = ctx.types
        of_bias = None if db is None else db * scale
        return (dx * scale).to(of_vectors), (dw * scale).to(of_words), of_bias, None, None, None


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
