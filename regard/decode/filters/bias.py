"""Pieces that are made more likely, or less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from regard.core.spec import show_value
from regard.data.tokenizer import Tokenizer
from regard.decode.filters.filter import FilterSpec
from regard.decode.filters.usual import Context, Filter
from regard.errors import SpecError


class Bias(FilterSpec):
    """Pieces as `--json` shows them, and what is added to the log-probability of each."""

    kind: Literal["bias"] = "bias"
    pieces: dict[str, Annotated[float, Field(ge=-100, le=100)]]
    """Each piece, as `--json` shows it, has this added to its log-probability."""

    def build(self, tokenizer: Tokenizer) -> Filter:
        known = tokenizer.engine.get_vocab()
        for piece in self.pieces:
            if piece not in known:
                raise SpecError(f"filters.bias: the tokenizer has no piece {show_value(piece)}", "regard … --json")
        return AddedBias({known[piece]: amount for piece, amount in self.pieces.items()})


@dataclass
class AddedBias(Filter):
    """Add to the log-probabilities of some tokens."""

    amounts: dict[int, float]

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        scores = scores.clone()
        for token, amount in self.amounts.items():
            scores[:, token] += amount
        return scores.log_softmax(-1)
