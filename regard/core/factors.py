"""Scores of words: as a product that nobody has computed yet, where a loss or a search may want only a part of it, or
computed by a head that needs more than a product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor

from regard.core.mixer import Part
from regard.core.state import State
from regard.core.view import View
from regard.errors import InputError


class Scored:
    """Scores of words, row by row."""

    def table(self) -> Tensor:
        """The scores themselves: (…, vocabulary)."""
        raise NotImplementedError

    def at(self, rows: Tensor | slice) -> Scored:
        """Those of some rows."""
        raise NotImplementedError


@dataclass
class Factors(Scored):
    """Vectors and the words that they are compared with: scores = vectors @ words.T + bias."""

    vectors: Tensor  # (…, width)
    words: Tensor  # (vocabulary, width)
    bias: Tensor | None = None  # (vocabulary,)
    product: Callable[[Tensor, Tensor | None], Tensor] | None = None  # how packed words are multiplied

    def table(self) -> Tensor:
        """The scores themselves: (…, vocabulary)."""
        if self.product is not None:
            return self.product(self.vectors, self.bias)
        return F.linear(self.vectors, self.words, self.bias)

    def only(self, direction: int) -> Factors:
        """Those of one direction, where there are several: (…, directions, width)."""
        return replace(self, vectors=self.vectors[..., direction, :])

    def at(self, rows: Tensor | slice) -> Factors:
        """Those of some rows."""
        return replace(self, vectors=self.vectors[rows])


@dataclass
class ScoreTable(Scored):
    """Log-probabilities that are there already, such as a mixture's; -inf: a row can't have the word."""

    logs: Tensor  # (rows, vocabulary, and perhaps words beyond it)

    def table(self) -> Tensor:
        return self.logs

    def at(self, rows: Tensor | slice) -> ScoreTable:
        return ScoreTable(self.logs[rows])


class WordHead(Part):
    """A head that scores the words of a vocabulary, position by position."""

    def factors(self, x: Tensor) -> Factors:
        raise NotImplementedError

    def values(self, x: Tensor) -> Tensor:
        """What the rest of a text will be worth, by each of its hidden vectors: (…, width) -> (…)."""
        raise InputError("this model has no head that values texts", "head.value=true")


class StatefulHead(Part):
    """A head that remembers what it answered, so that it hears of every position, in steps too."""

    def start(self, rows: int, view: View) -> State:
        raise NotImplementedError

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        raise NotImplementedError
