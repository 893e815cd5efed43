"""Copying: at each step a word is written from the vocabulary or copied from the source (pointer–generator, See et al.
2017).

P(w) = p P_vocabulary(w) + (1 - p) Σ a_i over the positions i of the source that hold w. Words that the vocabulary
doesn't have are numbered from its size upwards, anew for each source, so a name that was never seen can be copied. The
weights a are the head's own, so any decoder can have it; the switch p is read from the state and from what a brings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.dense import Dense, Lookup
from regard.core.factors import StatefulHead
from regard.core.mixer import Part
from regard.core.probe import See
from regard.core.role import Answers, HeadSpec
from regard.core.spec import Size, Weight
from regard.core.state import Memory, State
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.head import Vocabulary
from regard.parts.pointer import compare
from regard.parts.score import Additive, AdditiveScore, ScoreSpec


class Copying(HeadSpec):
    """A word of the vocabulary, or one of the source."""

    kind: Literal["copying"] = "copying"
    answers: ClassVar[Answers] = "words"
    words: HeadSpec = Vocabulary()
    """This head scores the words of the vocabulary."""
    score: ScoreSpec = Additive()
    """The score compares a state of the decoder with each position of the memory."""
    coverage: Weight = 0.0
    """The weight of Σ min(a, c) beside the loss, where c is the sum of all weights before: what was looked at costs to
    look at again, and the score knows of it (additive scores only); 0: nobody keeps count."""
    memory: Size | None = None
    """The memory's vectors have this many numbers; unless given, the model's width."""

    @property
    def copies(self) -> bool:
        return True

    def memory_width(self, width: int) -> int | None:
        return self.memory or width

    def resize(self, tokens: int) -> Self:
        return self.replace(words=self.words.resize(tokens))

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return (CoveredHead if self.coverage else CopyingHead)(self, width, table)


class CopyingHead(Part):
    """`generate` is the switch p: (rows, 1, time, 1)."""

    names: tuple[str, ...] = ("weights", "generate")
    recalls = True

    def __init__(self, spec: Copying, width: int, table: Lookup | None) -> None:
        super().__init__()
        memory = spec.memory or width
        self.words: Part = spec.words.build(width, table)  # type: ignore[assignment]
        self.score = spec.score.build(width, memory)
        self.switch = Dense(width + memory, 1)

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Log-probabilities: (rows, time, vocabulary and the words of the batch's sources beyond it)."""
        memory = view.recall(self.path)
        keys = self.score.prepare(memory.states)
        weights = compare(self.score, x, keys, memory).softmax(-1)
        return self.mix(x, weights, memory, view)

    def mix(self, x: Tensor, weights: Tensor, memory: Memory, view: View) -> Tensor:
        """The mixture of what is written and what is copied, by weights of (rows, time, keys)."""
        see = view.watcher(self.path, *self.names)
        weights = report(see, "weights", weights)
        context = memory.unfold(memory.fold(weights) @ memory.states)
        switch = report(see, "generate", self.switch(torch.cat((x, context), -1)).sigmoid())
        written = self.words(x, view).float().log_softmax(-1)  # (rows, time, vocabulary)
        read = list_read(memory, self.path)  # (sentences, keys)
        size = max(written.shape[-1], int(read.max()) + 1)
        index = read.repeat_interleave(memory.fan, 0)[:, None].expand_as(weights)
        copied = weights.new_zeros(*weights.shape[:2], size).scatter_add(2, index, weights)  # (rows, time, size)
        written = F.pad(written, (0, size - written.shape[-1]), value=-math.inf)
        least = torch.finfo(copied.dtype).tiny  # the logarithm of 0 would spoil the gradient
        sides = log(switch) + written, log(1 - switch) + copied.float().clamp(min=least).log()
        # where neither side has the word, no row may have it: the number is that of a word of another source
        return torch.logaddexp(*sides).masked_fill((written == -math.inf) & (copied == 0), -math.inf).to(x.dtype)


def log(share: Tensor) -> Tensor:
    """The logarithm of a share that may have become 0 by rounding."""
    return share.float().clamp(min=torch.finfo(torch.float32).tiny).log()


def report(see: See | None, name: str, value: Tensor) -> Tensor:
    """Let a watcher see a value of one head, (rows, time, …)."""
    return value if see is None else see(name, value[:, None])[:, 0]


def list_read(memory: Memory, path: str) -> Tensor:
    """The words that a memory was made of: (sentences, keys)."""
    if memory.read is None or memory.read.is_floating_point():
        raise InputError(f"{path} copies words of its source, and this memory has none", "an encoder that reads words")
    return memory.read


@dataclass
class Coverage(State):
    """How much each position of the source was looked at: (rows, keys)."""

    looked: Tensor

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        keys = max(state.looked.shape[1] for state in states)
        return [replace(state, looked=F.pad(state.looked, (0, keys - state.looked.shape[1]))) for state in states]


class CoveredHead(CopyingHead, StatefulHead):
    """Copying that keeps count of where it looked: e = v · tanh(W state + U memory + w c), c = Σ of weights before.

    `repeated` is Σ min(a, c) of a call, a real word: the paper's coverage loss.
    """

    names = ("weights", "generate", "repeated")

    def __init__(self, spec: Copying, width: int, table: Lookup | None) -> None:
        super().__init__(spec, width, table)
        self.weight = spec.coverage
        if not isinstance(self.score, AdditiveScore):
            raise SpecError(f"head.coverage: {spec.score.kind} has no place for it", "score=additive, or coverage=0")
        self.count = Dense(1, self.score.query.out_features, bias=False)

    @property
    def costs(self) -> Mapping[str, float]:
        return {"repeated": self.weight}

    def start(self, rows: int, view: View) -> Coverage:
        return Coverage(view.zeros(rows, view.recall(self.path).keys))

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        memory, mask = view.recall(self.path), view.mask
        now = state if isinstance(state, Coverage) else self.start(x.shape[0], view)
        keys = self.score.prepare(memory.states).repeat_interleave(memory.fan, 0)  # each row has its own count
        allowed = None if memory.valid is None else memory.valid.repeat_interleave(memory.fan, 0)[:, None]
        found: list[Tensor] = []
        repeated = x.new_zeros(())
        for time in range(x.shape[1]):
            scores = self.score(x[:, time : time + 1], keys + self.count(now.looked[..., None].to(x.dtype)))
            scores = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
            weights = scores.softmax(-1)  # (rows, 1, keys)
            # a pad moves nothing
            real = weights[:, 0] if mask.valid is None else weights[:, 0] * mask.valid[:, time, None]
            repeated = repeated + torch.minimum(real, now.looked.to(real.dtype)).sum()
            now.looked = now.looked + real.to(now.looked.dtype)
            found.append(weights)
        now.advance(mask)
        view.see(self.path, "repeated", repeated / mask.counts.sum().clamp(min=1))
        return self.mix(x, torch.cat(found, 1), memory, view)
