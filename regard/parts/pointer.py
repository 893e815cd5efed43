"""Pointing: an answer is a position of what was read, and the next step reads what stands there (Vinyals et al. 2015).

The head scores the positions of the memory, so a model answers with as many choices as its source has positions, and
any decoder can have it: one that attends or one that doesn't, a recurrence or a Transformer. The embedding is its
counterpart: it reads positions, and gives the vectors of what the encoder read there.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

from torch import Tensor

from regard.core.dense import Lookup
from regard.core.mixer import Part
from regard.core.role import AbsoluteSpec, Answers, EmbeddingSpec, HeadSpec
from regard.core.spec import Size
from regard.core.state import Memory
from regard.core.view import View
from regard.errors import InputError
from regard.parts.embedding import Embedding
from regard.parts.score import Additive, Score, ScoreSpec


class Pointed(EmbeddingSpec):
    """Positions of the source, read as what stands there."""

    kind: Literal["pointed"] = "pointed"
    of: EmbeddingSpec
    """What stands at a position becomes a vector in this way."""

    @property
    def limit(self) -> int | None:
        return self.of.limit

    @property
    def absolute(self) -> AbsoluteSpec | None:
        return self.of.absolute

    def locate(self, position: AbsoluteSpec | None) -> Self:
        return self.replace(of=self.of.locate(position))

    def resize(self, tokens: int) -> Self:
        return self.replace(of=self.of.resize(tokens))

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return PointedEmbedding(self, width, table)


class PointedEmbedding(Embedding):
    def __init__(self, spec: Pointed, width: int, table: Lookup | None) -> None:
        super().__init__()
        self.of: Embedding = spec.of.build(width, table)  # type: ignore[assignment]

    @property
    def table(self) -> Lookup | None:  # type: ignore[override]
        return self.of.table

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        if inputs.dim() != 2 or inputs.is_floating_point():
            given = f"{inputs.dtype} {tuple(inputs.shape)}"
            raise InputError(f"positions of a source are integers of shape (rows, time), not {given}")
        return inputs.shape[0], inputs.shape[1]

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        memory = view.recall(self.path)
        if memory.read is None:
            raise InputError(f"{self.path} points at what was read, and this memory doesn't say", "encode() says so")
        places = memory.fold(inputs)  # (sentences, rows of each * time)
        sizes = memory.read.shape[2:]
        index = places.view(*places.shape, *(1,) * len(sizes)).expand(*places.shape, *sizes)
        found: Tensor = self.of(memory.unfold(memory.read.gather(1, index)), view)
        return found


class Pointer(HeadSpec):
    """One score for each position of the source: v · tanh(W state + U memory), unless another score is given."""

    kind: Literal["pointer"] = "pointer"
    answers: ClassVar[Answers] = "positions"
    score: ScoreSpec = Additive()
    """The score compares a state of the decoder with each position of the memory."""
    memory: Size | None = None
    """The memory's vectors have this many numbers; unless given, the model's width."""

    def memory_width(self, width: int) -> int | None:
        return self.memory or width

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return PointerHead(self, width)


class PointerHead(Part):
    names = ("weights",)
    recalls = True

    def __init__(self, spec: Pointer, width: int) -> None:
        super().__init__()
        self.score = spec.score.build(width, spec.memory or width)

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Log-probabilities of positions: (rows, time, keys). A pad of the source has none: -inf."""
        memory = view.recall(self.path)
        keys = self.score.prepare(memory.states)
        logs = compare(self.score, x, keys, memory).log_softmax(-1)
        see = view.watcher(self.path, *self.names)
        if see is None:
            return logs
        weights = logs.exp()[:, None]  # (rows, 1, time, keys): there is one head
        seen = see("weights", weights)
        return logs if seen is weights else seen[:, 0].log()


def compare(score: Score, x: Tensor, keys: Tensor, memory: Memory) -> Tensor:
    """Scores of states, (rows, time, width), by prepared keys: (rows, time, keys), -inf where a key is a pad."""
    scores = score(memory.fold(x), keys)
    if memory.valid is not None:
        scores = scores.masked_fill(~memory.valid[:, None], -math.inf)
    return memory.unfold(scores)
