"""Nothing is written twice, as where one sorts, or goes around a hull."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.decode.filters.filter import FilterSpec
from regard.decode.filters.usual import Context, Filter


class Once(FilterSpec):
    """A piece that was written isn't written again."""

    kind: Literal["once"] = "once"

    def build(self, tokenizer: Tokenizer) -> Filter:
        return WrittenOnce(tokenizer.ends)


@dataclass
class WrittenOnce(Filter):
    """Rule out what a row has written."""

    ends: Sequence[int]  # these may come whatever was written
    asks: ClassVar[str] = "no piece twice"
    remedy: ClassVar[str] = "leave the filter `once` out"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        ruled_out = scores.scatter(1, context.tokens, -math.inf)
        ruled_out[:, list(self.ends)] = scores[:, list(self.ends)]
        return ruled_out
