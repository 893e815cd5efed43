"""Scores: how well a query matches a key, and the softmax that turns scores into weights.

Dot, scaled dot, multiplicative and reduced-rank multiplicative, additive (Bahdanau et al. 2015), location (Luong et
al. 2015). Two need no learning, and stand between no attention and attention: all positions alike (mean), and the
source's position of the same number (diagonal). The part of a score that depends on the keys alone is computed once
for each memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.registry import Kinds
from regard.core.spec import Size, Spec
from regard.errors import InputError, SpecError
from regard.parts.additive import score_pairs


def weigh(scores: Tensor, allowed: Tensor | None, hard: bool = False) -> Tensor:
    """Softmax over the last axis; what isn't allowed gets exactly 0, and a query that may see nothing gives all 0.

    `hard`: the largest gets 1 and all others 0, and learns as if it were soft (straight through, Bengio et al. 2013).
    """
    if allowed is None:
        weights = scores.softmax(-1)
    else:
        weights = scores.masked_fill(~allowed, -math.inf).softmax(-1).masked_fill(~allowed, 0.0)
    return harden(weights) if hard else weights


def harden(weights: Tensor) -> Tensor:
    """One-hot weights with the gradient of soft ones; where all are 0, they stay."""
    if not weights.shape[-1]:
        return weights  # there is nothing to look at yet
    best = weights.detach().argmax(-1, keepdim=True)
    one = torch.zeros_like(weights).scatter(-1, best, 1.0) * (weights.detach().amax(-1, keepdim=True) > 0)
    return one + (weights - weights.detach())  # the difference is exactly 0, so the sum is exactly one-hot


@dataclass(frozen=True)
class Drawn:
    """Places that were drawn, one for each query."""

    weights: Tensor  # one-hot, (…, keys); no gradient
    log_probabilities: Tensor  # of what was drawn, (…): its gradient is the weights'


def draw_places(weights: Tensor) -> Drawn:
    """One place for each query by its weights, from torch's own generator; where all are 0, so is what is drawn."""
    # whoever is first of several exponential clocks, each as fast as its weight: what weighs 0 never is
    chosen = (weights / torch.empty_like(weights).exponential_()).detach().argmax(-1, keepdim=True)
    found = weights.gather(-1, chosen)
    one = torch.zeros_like(weights).scatter(-1, chosen, (found.detach() > 0).to(weights.dtype))
    return Drawn(one, found.clamp(min=torch.finfo(weights.dtype).tiny).log()[..., 0])


class ScoreSpec(Spec):
    """How a query and a key are compared."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ".score"

    def build(self, query: int, key: int) -> Score:
        raise NotImplementedError


class Score(nn.Module):
    """Compare queries (batch, queries, width) with prepared keys: (batch, queries, keys)."""

    def prepare(self, memory: Tensor) -> Tensor:
        """The keys' share, computed once: (batch, keys, width) to (batch, keys, …)."""
        return memory

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        """`positions`: of the queries, (batch, queries)."""
        raise NotImplementedError


class Dot(ScoreSpec):
    """q · k"""

    kind: Literal["dot"] = "dot"

    def build(self, query: int, key: int) -> Score:
        same(query, key, self.kind)
        return DotScore(1.0)


class Scaled(ScoreSpec):
    """q · k / √width"""

    kind: Literal["scaled"] = "scaled"

    def build(self, query: int, key: int) -> Score:
        same(query, key, self.kind)
        return DotScore(key**-0.5)


def same(query: int, key: int, kind: str) -> None:
    if query != key:
        raise SpecError(
            f"score: {kind} compares vectors of one width, and queries have {query}, keys {key}",
            "score=multiplicative",
        )


class DotScore(Score):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return query @ keys.mT * self.scale


class Multiplicative(ScoreSpec):
    """qᵀ W k (Luong's "general")"""

    kind: Literal["multiplicative"] = "multiplicative"

    def build(self, query: int, key: int) -> Score:
        return BilinearScore(query, key)


class BilinearScore(Score):
    def __init__(self, query: int, key: int) -> None:
        super().__init__()
        self.key = Dense(key, query, bias=False)

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return query @ keys.mT


class Reduced(ScoreSpec):
    """(U q) · (V k): a multiplicative score of low rank, which is what a Transformer's head computes"""

    kind: Literal["reduced"] = "reduced"
    rank: Size = 64
    """Queries and keys are compared in this many channels."""

    def build(self, query: int, key: int) -> Score:
        return ReducedScore(query, key, self.rank)


class ReducedScore(BilinearScore):
    def __init__(self, query: int, key: int, rank: int) -> None:
        super().__init__(rank, key)
        self.query = Dense(query, rank, bias=False)

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.query(query) @ keys.mT


class Additive(ScoreSpec):
    """v · tanh(W q + U k)"""

    kind: Literal["additive"] = "additive"
    hidden: Size | None = None
    """The tanh has this many channels; unless given, the query's width."""

    def build(self, query: int, key: int) -> Score:
        return AdditiveScore(query, key, self.hidden or query)


class AdditiveScore(Score):
    def __init__(self, query: int, key: int, hidden: int) -> None:
        super().__init__()
        self.query = Dense(query, hidden)
        self.key = Dense(key, hidden, bias=False)
        self.score = Dense(hidden, 1, bias=False)
        self.score.exact = True  # its weights are read as they are

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return score_pairs(self.query(query), keys, self.score.weight)


class Location(ScoreSpec):
    """W q: one score for each position up to `longest`, whatever stands there"""

    kind: Literal["location"] = "location"
    longest: Size = 64
    """There are scores for this many positions of the memory."""

    def build(self, query: int, key: int) -> Score:
        return LocationScore(query, self.longest)


class LocationScore(Score):
    def __init__(self, query: int, longest: int) -> None:
        super().__init__()
        self.query = Dense(query, longest)

    def prepare(self, memory: Tensor) -> Tensor:
        longest = self.query.out_features
        if memory.shape[1] > longest:
            raise InputError(
                f"location attention has weights for {longest} positions, and the source has {memory.shape[1]}",
                f"score.longest={memory.shape[1]}, and train again",
            )
        return memory[:, :, :1]

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.query(query)[..., : keys.shape[1]]


class Mean(ScoreSpec):
    """0: every position of the source counts the same, whatever is asked"""

    kind: Literal["mean"] = "mean"

    def build(self, query: int, key: int) -> Score:
        return MeanScore()


class MeanScore(Score):
    def prepare(self, memory: Tensor) -> Tensor:
        return memory[:, :, :1]  # only how many there are

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        return query.new_zeros(*query.shape[:2], keys.shape[1])


class Diagonal(ScoreSpec):
    """Position t looks at the source's position t, or at its last: a fixed skip connection to the encoder"""

    kind: Literal["diagonal"] = "diagonal"

    def build(self, query: int, key: int) -> Score:
        return DiagonalScore()


class DiagonalScore(MeanScore):
    """-STEEP |t - j|: all of the weight falls on the nearest position that there is, which past the end is the last."""

    STEEP = 1e4

    def forward(self, query: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            raise InputError("a diagonal score needs the queries' positions", "score(query, keys, positions)")
        places = torch.arange(keys.shape[1], device=query.device)
        distance = (positions[:, :, None] - places).abs()  # (batch, queries, keys)
        return -self.STEEP * distance.float()  # in half precision two large distances would be one
