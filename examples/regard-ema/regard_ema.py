"""An example of a plug-in for regard: a mixer, a family with a preset, a corpus and a metric, all in one file.

`ema` remembers an exponential moving average of what came before, each channel at a rate of its own. In the family,
blocks of it take turns with attention that has no positions: averages tell it what is near. It is the simplest part of
Mega (Ma et al. 2022). `dates` is a small corpus for it: days as people write them, and the same days as ISO 8601 has
them. `cer` is the character error rate, which says how much of a date is wrong.

Each class enters itself under its `kind` when this file is imported; nothing else is needed.

Cost of the mixer: time O(n); state O(1), one average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.block import BlockSpec
from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.core.state import State
from regard.core.view import View
from regard.data.corpus import Generated, Split
from regard.data.sample import Form, Sample
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.scan import selective_scan
from regard.tasks.metrics.metric import MetricSpec


class EMA(MixerSpec):
    """How far back the averages reach at first, and whether each position may shut its own."""

    kind: Literal["ema"] = "ema"
    longest: Positive = 100.0
    """The channels start spread out between 1 and this many positions."""
    gate: bool = True
    """A gate of the input multiplies what comes out."""

    def build(self, width: int) -> Mixer:
        return MovingAverage(self, width)


@dataclass
class AverageState(State):
    """What the averages are so far: (rows, 1, width)."""

    average: Tensor


class MovingAverage(Mixer):
    """y_t = e^-r y_{t-1} + (1 - e^-r) v_t, with a learned rate r for each channel."""

    names = ("average",)
    accumulates = "the averages"

    def __init__(self, spec: EMA, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.value = Dense(width, width)
        self.gate = Dense(width, width) if spec.gate else None
        self.output = Dense(width, width)
        self.rate = nn.Parameter(torch.empty(width))  # log of r
        self.reset()

    def reset(self) -> None:
        with torch.no_grad():
            self.rate.uniform_(-math.log(max(1.0, self.spec.longest)), 0.0)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        past = state if isinstance(state, AverageState) else None
        mask, rate = view.mask, self.rate.to(view.precise).exp()
        value = self.value(x) * (-torch.expm1(-rate) / rate).to(x.dtype)
        # no time passes at a pad, so that it changes nothing
        time = rate.expand_as(x) if mask.valid is None else rate * mask.valid[..., None]
        ones = rate.new_ones(*x.shape[:2], 1)
        before = rate.new_zeros(x.shape[0], 1, x.shape[2]) if past is None else past.average
        y, after = selective_scan(value, time, -rate.new_ones(x.shape[2], 1), ones, ones, before)
        if past is not None:
            past.average = after
            past.advance(mask)
        see = view.watcher(self.path, *self.names)
        if see is not None:
            y = see("average", y)
        return self.output(y if self.gate is None else y * F.silu(self.gate(x)))

    def start(self, rows: int, view: View) -> State:
        return AverageState(view.zeros(rows, 1, len(self.rate), dtype=view.precise))


class Averages(Settings):
    """Language models, and translators that read `source [SEP] target`."""

    kind: Literal["ema"] = "ema"
    width: Size = 256
    depth: Depth = 6
    """There are this many blocks, every other one with attention."""
    heads: Size | None = None
    """There are this many heads; unless given, one for each 32 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 8000
    longest: Positive = 100.0
    dropout: Rate = 0.0


def compose(s: Averages) -> ModelSpec:
    def block(mix: MixerSpec) -> BlockSpec:
        return BlockSpec(mix=mix, ffn=FeedForward(hidden=s.hidden or 4 * s.width), norm=RMSNorm(), dropout=s.dropout)

    blocks = block(EMA(longest=s.longest)), block(Attention(heads=head_count(s.width, s.heads, 32), causal=True))
    stack = StackSpec(
        width=s.width, depth=s.depth, embedding=Tokens(vocabulary=s.vocabulary), blocks=blocks, norm=RMSNorm()
    )
    return ModelSpec(decoder=stack, head=Vocabulary(size=s.vocabulary), init=Normal(residual=True))


family = Family(Averages, compose, {"ema-base": {}, "ema-tiny": {"width": 64, "depth": 2}})


class Dates(Generated):
    """Days as people write them, and as ISO 8601 has them. A day is in one split only, however it is written."""

    gives: ClassVar[tuple[Form, ...]] = ("pairs",)
    kind: Literal["dates"] = "dates"
    first: Size = 1900
    """Days are of this year or a later one."""
    last: Size = 2099
    """Days are of this year or an earlier one."""

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = Random(f"dates {split} {self.seed}")
        begin = date(self.first, 1, 1)
        days = (date(self.last, 12, 31) - begin).days + 1
        while True:
            day = begin + timedelta(days=chance.randrange(days))
            kept = {0: "test", 1: "validation"}.get(day.toordinal() % 10, "train")
            if kept == split:
                yield {"source": write_out(day, chance), "target": day.isoformat()}


def write_out(day: date, chance: Random) -> str:
    """A day in one of the ways that people have."""
    ways = ("{d} {B} {y}", "{B} {d}, {y}", "{d}.{m}.{y}", "{m}/{d}/{y}", "{A}, {d} {B} {y}", "{d} {b} {y}")
    words = {"A": f"{day:%A}", "B": f"{day:%B}", "b": f"{day:%b}", "d": day.day, "m": day.month, "y": day.year}
    return chance.choice(ways).format(**words)


class CharacterErrors(MetricSpec):
    """How many characters must be changed, for a hundred of the references."""

    rising: ClassVar[bool] = False
    kind: Literal["cer"] = "cer"

    def measure(self, answers: Sequence[str], references: Sequence[str]) -> float:
        changes = sum(distance(answer, wanted) for answer, wanted in zip(answers, references, strict=True))
        return 100 * changes / max(1, sum(map(len, references)))


def distance(one: str, other: str) -> int:
    """The fewest insertions, deletions and replacements that make one text the other (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for here, letter in enumerate(one, 1):
        before, row = row, [here]
        for place, wanted in enumerate(other, 1):
            row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != wanted)))
    return row[-1]
