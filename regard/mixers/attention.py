"""Attention: every position looks at every other, or at a memory, with several heads (Vaswani et al. 2017).

Grouped and multi-query heads (Shazeer 2019, Ainslie et al. 2023), sliding windows (Beltagy et al. 2020), rotary,
ALiBi or T5 positions; soft weights, or hard ones (Xu et al. 2015); a learned temperature, and positions that don't look
at themselves (Lee et al. 2021). Nobody watching: torch's fused kernel, block by block where a window is much shorter
than the sequence, or a kernel of ours for a few queries. Somebody watching, or hard weights: the same softmax of all
pairs, in the open.

Cost: time O(n²) for a whole sequence, or O(n · window), and O(n) or O(window) a step; state O(n), or O(window).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.core.dense import Dense, project
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import See
from regard.core.role import NormSpec, RelativeSpec
from regard.core.slots import Seen, Slots
from regard.core.spec import Positive, Rate, Size, build_optional, divides
from regard.core.state import Shared, State
from regard.core.tape import NotWritable, Tape
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.band import Neighbourhood, choose_block, cut_band, is_worth_it, make_tables, take
from regard.parts.fused import attend_whole
from regard.parts.look import look
from regard.parts.position import Position
from regard.parts.score import weigh


class Attention(MixerSpec):
    """Which heads there are, what they look at, and how far."""

    kind: Literal["attention"] = "attention"
    heads: Size = 8
    """There are this many heads."""
    kv_heads: Size | None = None
    """There are this many heads of keys and values; unless given, as many as heads. 1 is multi-query attention."""
    size: Size | None = None
    """A head has this many channels; unless given, width / heads."""
    causal: bool = False
    window: Size | None = None
    """A position sees keys at a distance below this, on both sides if not causal."""
    over: Literal["self", "memory"] = "self"
    memory: Size | None = None
    position: RelativeSpec | None = None
    """Relative positions turn queries and keys, or bias their scores."""
    norm: NormSpec | None = None
    """This norm is on each head's queries and keys."""
    bias: bool = True
    """The projections to queries, keys and values have a bias."""
    output_bias: bool | None = None
    """The last projection has a bias; unless given, as the others."""
    scale: Positive | None = None
    """Scores are multiplied by this; unless given, by 1/√size."""
    temperature: bool = False
    """Each head learns what its scores are multiplied by, starting from the scale."""
    itself: bool = True
    """A position looks at itself too; otherwise only where there is nothing else to look at."""
    hard: bool = False
    """Each head looks at one key only; it learns as if it were soft."""
    dropout: Rate = 0.0
    """This share of the attention weights is dropped while training."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.itself and self.over == "memory":
            raise ValueError("itself: a query is no position of the memory that it looks at; leave itself out")
        if not self.itself and self.causal:
            raise ValueError("itself: the first position sees nothing but itself where none sees a later one")
        return self

    def memory_width(self, width: int) -> int | None:
        return (self.memory or width) if self.over == "memory" else None

    @property
    def biased_heads(self) -> int | None:
        return None if self.over == "memory" else self.heads

    @property
    def relative(self) -> RelativeSpec | None:
        return self.position

    def locate(self, position: RelativeSpec | None) -> Self:
        return self.replace(position=position)

    def read_memory(self) -> Self:
        return self.replace(over="memory", causal=False, window=None, position=None)

    def forward_only(self) -> Self:
        return self if self.over_memory else self.replace(causal=True)

    def both_ways(self) -> Self:
        return self.replace(causal=False)

    def build(self, width: int) -> Mixer:
        if self.size is None:
            divides(self.heads, width, "heads", "width")
        divides(self.kv_heads or self.heads, self.heads, "kv_heads", "heads")
        if self.over_memory and (self.causal or self.window or self.position):
            raise SpecError(
                "over: attention over a memory takes no causal, window or position; they order one sequence"
            )
        return MultiHeadAttention(self, width)


class MultiHeadAttention(Mixer):
    """softmax(q kᵀ / √size) v for each head, side by side, then projected."""

    names = ("query", "key", "value", "weights", "context")  # all but `weights` leave the fused kernel in place
    packs = True

    def __init__(self, spec: Attention, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.heads, self.kv_heads = spec.heads, spec.kv_heads or spec.heads
        self.size = spec.size or width // spec.heads
        self.first = spec.scale or self.size**-0.5
        self.temperature = nn.Parameter(torch.full((self.heads,), self.first)) if spec.temperature else None
        # the kernels take a number for a scale; one that learns is multiplied into the queries
        self.scale = 1.0 if spec.temperature else self.first
        self.causal = spec.causal or spec.over_memory
        self.recalls = spec.over_memory
        self.ordered = spec.causal or spec.window is not None or spec.position is not None
        self.early = ("key", "value") if spec.over_memory else ()
        self.estimates = spec.hard
        self.grows = spec.window is None and not spec.over_memory
        source = spec.memory or width
        self.query = Dense(width, self.heads * self.size, bias=spec.bias)
        self.key = Dense(source, self.kv_heads * self.size, bias=spec.bias)
        self.value = Dense(source, self.kv_heads * self.size, bias=spec.bias)
        closing = spec.bias if spec.output_bias is None else spec.output_bias
        self.output = Dense(self.heads * self.size, width, bias=closing)
        self.query_norm: nn.Module | None = build_optional(spec.norm, self.size)
        self.key_norm: nn.Module | None = build_optional(spec.norm, self.size)
        self.position: Position = build_optional(spec.position, self.heads, self.size) or Position()

    def reset(self) -> None:
        if self.temperature is not None:
            nn.init.constant_(self.temperature, self.first)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        return self.look_back(x, view, state) if self.spec.over_memory else self.look_around(x, view, state)

    def look_around(self, x: Tensor, view: View, state: State | None) -> Tensor:
        """Over the sequence itself: the chunk, and what the state holds of the tokens before it."""
        mask, spec = view.mask, self.spec
        query, key, value = project(x, (self.query, self.key, self.value))
        query = self.position.rotate(self.split(query, self.query_norm), view)
        key = self.position.rotate(self.split(key, self.key_norm), view)
        value = self.split(value)
        query, key = view.see(self.path, "query", query), view.see(self.path, "key", key)
        value = view.see(self.path, "value", value)
        see = view.watcher(self.path, "weights")
        # a first chunk without pads is a whole sequence, so the kernel's causal flag serves there too
        whole = state is None or (state.length == 0 and mask.valid is None)
        seen = state.extend((key, value), mask) if isinstance(state, Slots) else None
        if (whole or seen is None) and see is None and self.is_near(mask.time):
            y = self.attend_near(query, key, value, view)
        elif whole or seen is None:
            index = torch.arange(mask.time, device=x.device)[None]
            bias = self.bias(view, index, lambda: index, "chunk")
            explicit = bias is not None or see is not None or spec.hard
            allowed = mask.table(spec.causal, spec.window, explicit=explicit)
            if not spec.itself:
                allowed = view.once(("others", spec.window), lambda: look_away(allowed, index, index))
            y = self.attend(query, key, value, allowed, bias, spec.causal and allowed is None, see)
        else:
            bias = self.bias(view, view.positions, seen.positions, seen.label)
            if see and seen.ring:
                see = report_by_position(see, seen.positions(), mask.total)
            y = self.attend_slots(query, seen, bias, see)
        return self.output(view.see(self.path, "context", y).transpose(1, 2).flatten(2))

    def write(self, tape: Tape, x: int) -> int:
        """One position of each row, or a whole sequence that sees all of itself: what softmax needs no table for."""
        spec = self.spec
        if (
            spec.window is not None
            or spec.hard
            or not spec.itself
            or self.temperature is not None
            or self.query_norm is not None
        ):
            raise NotWritable("attention by other rules")
        query = self.position.write(tape, tape.multiply(self.query, x))
        if spec.over_memory:
            seen = tape.recall(query, self.size, self.scale, self.kv_heads * self.size)
        else:
            key, value = self.position.write(tape, tape.multiply(self.key, x)), tape.multiply(self.value, x)
            look = tape.look if self.causal else tape.look_around
            seen = look(query, self.size, self.scale, key, value)
        return tape.multiply(self.output, seen)

    def attend_slots(self, query: Tensor, seen: Seen, bias: Tensor | None, see: See | None) -> Tensor:
        """Over what a state holds; our kernel finds moved slots where they stand."""
        if seen.moved is not None and bias is None and see is None and not self.spec.hard and self.temperature is None:
            keys, values = seen.held
            found = look(query, keys, values, seen.allowed, self.scale, seen.moved)
            if found is not None:
                return found
        keys, values = seen.tensors
        return self.attend(query, keys, values, seen.allowed, bias, False, see)

    def is_near(self, time: int) -> bool:
        """Whether the window is so much shorter than a whole sequence that blocks are worth their while."""
        spec = self.spec
        # one compiled or exported graph serves all lengths, and so has no loop over as many blocks as there are
        if spec.window is None or spec.hard or torch.compiler.is_compiling():
            return False
        return is_worth_it(time, spec.window, spec.causal)

    def attend_near(self, query: Tensor, key: Tensor, value: Tensor, view: View) -> Tensor:
        """Within the window, block by block: what all pairs behind a table would give, for the price of the window."""
        mask, spec = view.mask, self.spec
        assert spec.window is not None
        window, block = spec.window, choose_block(spec.window)
        spans = cut_band(mask.time, window, spec.causal, block)

        def allow(span: Neighbourhood) -> Tensor:
            allowed = mask.allow(span.queries, span.keys, spec.causal, window)
            return allowed if spec.itself else look_away(allowed, *span.places(query.device))

        def bend(span: Neighbourhood) -> Tensor | None:
            queries, keys = span.places(query.device)
            return self.bias(view, queries, lambda: keys, ("band", span.shape))

        tables = view.once(
            ("band", window, spec.causal, spec.itself, query.dtype),
            lambda: make_tables(spans, mask.by_distance(spec.causal), allow, query.dtype),
        )
        seen = []
        for span, table, asking in zip(spans, tables, query.split(block, 2), strict=True):
            near, key = take(key, span.keys)
            held, value = take(value, span.keys)
            bias = bend(span)
            seen.append(self.attend(asking, near, held, None, table if bias is None else table + bias, False, None))
        return torch.cat(seen, 2)

    def bias(self, view: View, queries: Tensor, keys: Callable[[], Tensor], label: Hashable) -> Tensor | None:
        """What positions add to the scores, this layer's own and the stack's; computed once a call for equal keys."""
        total: Tensor | None = None
        for position in (self.position, view.bias):
            if isinstance(position, Position):
                added = view.once((position.key, label), partial(lambda p: p.bias(queries, keys()), position))
                if added is not None:
                    total = added if total is None else total + added
        return total

    def look_back(self, x: Tensor, view: View, state: State | None) -> Tensor:
        """Over a memory, whose keys and values are computed once; the rows that share it stand side by side."""
        memory = view.recall(self.path)
        key, value = state.tensors if isinstance(state, Shared) else self.project(memory.states, view)
        if state is not None:
            state.advance(view.mask)
        query = self.split(self.query(memory.fold(x)), self.query_norm)
        report = view.watcher(self.path, "query", "weights", "context")
        if report is None:
            y = self.attend(query, key, value, memory.allowed, None, False, None)
        else:
            report = report_by_row(report, memory.fan) if memory.fan > 1 else report
            see = report if view.watcher(self.path, "weights") else None
            y = self.attend(report("query", query), key, value, memory.allowed, None, False, see)
            y = report("context", y)
        return memory.unfold(self.output(y.transpose(1, 2).flatten(2)))

    def start(self, rows: int, view: View) -> State | None:
        if self.spec.over_memory:
            memory = view.recall(self.path)
            return Shared(tensors=self.project(memory.states, view), fan=memory.fan)
        if not self.causal:
            return None
        room = min(max(view.room, 1), self.spec.window or view.room or 1)
        shape = (rows, self.kv_heads, room, self.size)
        return Slots(tensors=(view.zeros(*shape), view.zeros(*shape)), window=self.spec.window)

    def project(self, states: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """A memory's keys and values, head by head; they are reported here, where they are computed once."""
        key, value = project(states, (self.key, self.value))
        key, value = self.split(key, self.key_norm), self.split(value)
        return view.see(self.path, "key", key), view.see(self.path, "value", value)

    def split(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        """(batch, time, heads * size) -> (batch, heads, time, size)"""
        x = x.unflatten(-1, (-1, self.size))
        return (x if norm is None else norm(x)).transpose(1, 2)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        allowed: Tensor | None,
        bias: Tensor | None,
        causal: bool,
        see: See | None,
    ) -> Tensor:
        """(batch, heads, queries, size); `causal`: the kernel's own flag, when there is no table."""
        dropout = self.spec.dropout if self.training else 0.0
        if self.temperature is not None:
            query = query * self.temperature[:, None, None].to(query.dtype)
        if see is not None or self.spec.hard:
            return openly(query, key, value, allowed, bias, self.scale, dropout, see, self.spec.hard)
        if bias is None and not dropout and not causal and not torch.is_grad_enabled():
            found = look(query, key, value, allowed, self.scale)
            if found is not None:
                return found
        if bias is None and not dropout:
            found = attend_whole(query, key, value, allowed, self.scale, causal)
            if found is not None:
                return found
        table = allowed
        if bias is not None:
            bias = bias.to(query.dtype)
            table = bias if allowed is None else bias.masked_fill(~allowed, -math.inf)
        grouped = self.kv_heads < self.heads
        if grouped and query.shape[2] == 1 and bias is None:
            # one query a head: the heads that share keys become queries of one head
            y = F.scaled_dot_product_attention(
                query.reshape(query.shape[0], self.kv_heads, self.heads // self.kv_heads, self.size),
                key,
                value,
                table,
                dropout,
                scale=self.scale,
            )
            return y.reshape_as(query)
        return F.scaled_dot_product_attention(
            query, key, value, table, dropout, is_causal=causal, scale=self.scale, enable_gqa=grouped
        )


def look_away(allowed: Tensor | None, queries: Tensor, keys: Tensor) -> Tensor:
    """Who may look at whom, but nobody at itself who has another to look at: (1 or rows, 1, queries, keys)."""
    itself = queries[0, :, None] == keys  # (queries, keys)
    others = ~itself[None, None] if allowed is None else allowed & ~itself
    return others | (itself & ~others.any(-1, keepdim=True))


def openly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None,
    bias: Tensor | None,
    scale: float,
    dropout: float,
    see: See | None,
    hard: bool = False,
) -> Tensor:
    """Attention with its weights in the open, to be seen or changed."""
    share = query.shape[1] // key.shape[1]
    if share > 1:
        key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
    scores = query @ key.mT * scale  # (batch, heads, queries, keys)
    weights = weigh(scores if bias is None else scores + bias, allowed, hard)
    if see is not None:
        weights = see("weights", weights)
    return F.dropout(weights.to(value.dtype), dropout) @ value  # a bias on the scores is in single precision


def report_by_position(see: See, positions: Tensor, total: int) -> See:
    """Report weights by position where the keys stand in a ring."""

    def report(name: str, weights: Tensor) -> Tensor:
        index = positions.clamp(min=0)[:, None, None].expand_as(weights)
        spread = weights.new_zeros(*weights.shape[:-1], total).scatter_add(-1, index, weights)
        return see(name, spread).gather(-1, index) * (positions >= 0)[:, None, None]

    return report


def report_by_row(see: See, fan: int) -> See:
    """Report weights row by row where the rows of a sentence stand side by side as queries."""

    def rows(weights: Tensor) -> Tensor:
        return weights.unflatten(2, (fan, -1)).transpose(1, 2).flatten(0, 1)

    def back(weights: Tensor) -> Tensor:
        return weights.unflatten(0, (-1, fan)).transpose(1, 2).flatten(2, 3)

    return lambda name, weights: back(see(name, rows(weights)))
