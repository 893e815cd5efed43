"""What pairs of texts tell of their tokens beside attention: which of them are linked again and again.

Two uses. A head that aligns links the same tokens wherever they meet, so the consistency of its links chooses among
heads without a single gold link. And a table of such pairs sharpens the weights of the chosen one: attention says
where, the table says what. It is learned by a few rounds of expectation maximisation, as in IBM's first model (Brown
et al. 1993) with attention for the prior of positions; its two directions are multiplied, which asks them to agree
(Liang et al. 2006), since a model looks at a noun when it writes the noun's article, but no article belongs to a noun
as often as that noun's own translation does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.lens.alignment import TokenPair, Weights

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
ROUNDS = 4  # both chosen on validation sentences of the built-in corpus: among 2, 4 and 8, and 0.05 to 0.5
UNIFORM = 0.3  # the share of a row's prior that doesn't believe the attention
FLOOR = 1e-12  # strength of a pair that was never linked
BASE = 1 << 32  # tokens are below it, so a pair of them is one number


@dataclass(frozen=True)
class LinkTable:
    """How strongly pairs of tokens belong together, between 0 and 1."""

    pairs: Numbers  # ascending
    strengths: Floats

    def look_up(self, pair: TokenPair) -> Floats:
        """The strength of each target token with each source token: (target tokens, source tokens)."""
        asked = code_pairs(pair)
        places = np.minimum(np.searchsorted(self.pairs, asked), len(self.pairs) - 1)
        return np.where(self.pairs[places] == asked, self.strengths[places], FLOOR)

    def sharpen(self, weights: Weights, pair: TokenPair) -> Weights:
        """What to think of a pair's links once both attention and table are known; each row sums to 1."""
        found = make_prior(weights) * self.look_up(pair)
        return (found / np.maximum(found.sum(1, keepdims=True), 1e-300)).astype(np.float32)


def code_pairs(pair: TokenPair) -> Numbers:
    """Each target token with each source token as one number: (target tokens, source tokens)."""
    sources, targets = (np.asarray(side, np.int64) for side in pair)
    return sources[None] * BASE + targets[:, None]


def make_prior(weights: Weights) -> Floats:
    """Weights as a distribution over the source's tokens, a part of which is even."""
    whole = weights.astype(np.float64)
    whole /= np.maximum(whole.sum(1, keepdims=True), 1e-12)
    return (1 - UNIFORM) * whole + UNIFORM / whole.shape[1]


def learn_table(pairs: Sequence[TokenPair], weights: Sequence[Weights], rounds: int = ROUNDS) -> LinkTable:
    """A table of the pairs of tokens that attention links, from at least one pair of texts with its weights."""
    coded = [code_pairs(pair) for pair in pairs]
    known, places = np.unique(np.concatenate([code.ravel() for code in coded]), return_inverse=True)
    prior = np.concatenate([make_prior(each).ravel() for each in weights])
    widths = np.concatenate([np.full(len(code), code.shape[1]) for code in coded])
    rows = np.repeat(np.arange(len(widths)), widths)  # which target token each cell belongs to
    sources, targets = (np.unique(side, return_inverse=True)[1] for side in (known // BASE, known % BASE))
    belief, strengths = prior, prior
    for _ in range(rounds):
        counts = np.bincount(places, belief, len(known))
        both = [np.bincount(side, counts)[side] for side in (sources, targets)]
        strengths = counts / both[0] * (counts / both[1])
        belief = prior * strengths[places]
        belief /= np.maximum(np.bincount(rows, belief), 1e-300)[rows]
    return LinkTable(known, strengths)


def measure_consistency(pairs: Sequence[TokenPair], weights: Sequence[Weights]) -> float:
    """How much a linked source token tells of its target token: held-out mutual information, in nats a target token.

    Each target token is linked to the source token that has the most of its weight. How often tokens are linked is
    counted in one half of the pairs, and the target tokens of the other half are predicted from it; a link that occurs
    in one sentence alone earns nothing. Links to what stands everywhere, such as a full stop, tell nothing.
    """
    halves: tuple[list[Numbers], list[Numbers]] = [], []
    for n, ((source, target), each) in enumerate(zip(pairs, weights, strict=True)):
        linked = np.asarray(source, np.int64)[each.argmax(1)]
        halves[n % 2].append(np.stack((linked, np.asarray(target, np.int64))))
    if not all(halves):
        return 0.0
    one, other = (np.concatenate(half, 1) for half in halves)
    return float(np.concatenate((_explain(one, other), _explain(other, one))).mean())


def _explain(known: Numbers, asked: Numbers) -> Floats:
    """log p(target | source) / p(target) of the links that are asked about, counted in those that are known."""
    targets = _count(known[1], asked[1])
    usual = (targets + 0.5) / (known.shape[1] + 0.5 * len(np.unique(np.concatenate((known[1], asked[1])))))
    joint = _count(known[0] * BASE + known[1], asked[0] * BASE + asked[1])
    found = (joint + usual) / (_count(known[0], asked[0]) + 1)  # one link more, by chance
    return np.log(found / usual)


def _count(known: Numbers, asked: Numbers) -> Floats:
    """How often each number that is asked about occurs among those that are known."""
    values, counts = np.unique(known, return_counts=True)
    places = np.minimum(np.searchsorted(values, asked), len(values) - 1)
    return np.where(values[places] == asked, counts[places], 0).astype(np.float64)
