"""The filters that say what a sample is drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.decode.filters.usual import Context, Filter

if TYPE_CHECKING:
    from regard.decode.search import Search


@dataclass
class Temperature(Filter):
    """Divide by the temperature: below 1 sharper, above 1 flatter."""

    temperature: float

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        return (scores / self.temperature).log_softmax(-1)


@dataclass
class TopK(Filter):
    """Only the k best (Fan et al. 2018)."""

    k: int

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        least = scores.topk(min(self.k, scores.shape[-1]), -1).values[:, -1:]
        return scores.masked_fill(scores < least, -math.inf)


@dataclass
class TopP(Filter):
    """The smallest set of best tokens whose probability reaches p (Holtzman et al. 2020)."""

    p: float

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        return reaching(scores, -scores, self.p)


@dataclass
class MinP(Filter):
    """Tokens at least p times as likely as the best (Nguyen et al. 2024)."""

    p: float

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        return scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(self.p), -math.inf)


@dataclass
class Typical(Filter):
    """Tokens whose surprise is nearest to the expected one, until they reach p (Meister et al. 2023)."""

    p: float

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        probabilities = scores.softmax(-1)
        surprise = -scores.log_softmax(-1)
        expected = (probabilities * surprise).nan_to_num(0.0).sum(-1, keepdim=True)
        return reaching(scores, (surprise - expected).abs(), self.p)


def reaching(scores: Tensor, rank: Tensor, p: float) -> Tensor:
    """Keep tokens in ascending rank until their probability reaches p; the one that reaches it is kept."""
    order = rank.argsort(dim=-1, stable=True)
    sorted_probabilities = scores.softmax(-1).gather(-1, order)
    before = sorted_probabilities.cumsum(-1) - sorted_probabilities
    drop = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, before >= p)
    return scores.masked_fill(drop, -math.inf)


def shapes(settings: Search) -> list[Filter]:
    """What a sample is drawn from, in the order in which they apply."""
    found: list[Filter] = [Temperature(settings.temperature)] if settings.temperature != 1 else []
    found += [TopK(settings.top_k)] if settings.top_k else []
    found += [TopP(settings.top_p)] if settings.top_p < 1 else []
    found += [MinP(settings.min_p)] if settings.min_p else []
    found += [Typical(settings.typical)] if settings.typical < 1 else []
    return found
