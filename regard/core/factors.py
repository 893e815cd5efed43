"""Scores of words as a product that nobody has computed yet: a loss or a search may want only a part of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from regard.core.mixer import Part
from regard.errors import InputError


@dataclass
class Factors:
    """Vectors and the words that they are compared with: scores = vectors @ words.T + bias."""

    vectors: Tensor  # (…, width)
    words: Tensor  # (vocabulary, width)
    bias: Tensor | None = None  # (vocabulary,)

    def table(self) -> Tensor:
        """The scores themselves: (…, vocabulary)."""
        return F.linear(self.vectors, self.words, self.bias)

    def only(self, direction: int) -> Factors:
        """Those of one direction, where there are several: (…, directions, width)."""
        return Factors(self.vectors[..., direction, :], self.words, self.bias)

    def at(self, rows: Tensor | slice) -> Factors:
        """Those of some rows."""
        return Factors(self.vectors[rows], self.words, self.bias)


class WordHead(Part):
    """A head that scores the words of a vocabulary, position by position."""

    def factors(self, x: Tensor) -> Factors:
        raise NotImplementedError

    def values(self, x: Tensor) -> Tensor:
        """What the rest of a text will be worth, by each of its hidden vectors: (…, width) -> (…)."""
        raise InputError("this model has no head that values texts", "head.value=true")
