"""Recurrent decoders that attend: before the cell (Bahdanau et al. 2015) or after it (Luong et al. 2015).

Input feeding makes a step need the last step's attention, so this is one mixer with its loop inside. Where nothing is
fed back, all steps run through the fused cell and all queries attend at once, unless somebody looks into the cell.

Captions add a gate on what was seen, a deep output, a term that makes the words look everywhere once, and attention
that draws one place for each word (Xu et al. 2015, and their code where the paper is silent).

Cost: time O(n · memory), one position after the other; state O(1), and the memory's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import See
from regard.core.spec import Rate, Size, Weight
from regard.core.state import Memory, Shared, State
from regard.core.view import View
from regard.mixers.recurrent import Bridge, Start
from regard.parts.cell import SIGHTS, Ahead, Carry, Cell, Kind, Watched
from regard.parts.score import Additive, ScoreSpec, draw_places, weigh

Hard = bool | Literal["sampled"]
Readout = Literal["tanh", "maxout", "deep"]


class Attentive(MixerSpec):
    """Cell, score, and where the attention stands."""

    kind: Literal["attentive"] = "attentive"
    cell: Kind = "gru"
    """The kind of recurrent cell."""
    layers: Size = 1
    """There are this many recurrent layers, one on the other."""
    score: ScoreSpec = Additive()
    """The score compares a query with each key of the memory."""
    when: Literal["before", "after"] = "before"
    """The attention stands before the cell (Bahdanau et al. 2015) or after it (Luong et al. 2015)."""
    hard: Hard = False
    """It looks at one position only, and learns as if it were soft; sampled: while training it draws one position for
    each word and is told by REINFORCE what that was worth, and when it is used it takes the expectation."""
    expect: Rate = 0.5
    """Where positions are drawn, this share of the rows takes the expectation instead."""
    gate: bool = False
    """What was seen is scaled by a number between 0 and 1 that the state decides (β of Xu et al. 2015)."""
    doubly: Weight = 0.0
    """The weight of Σᵢ (1 - Σₜ αₜᵢ)² beside a row's log-likelihood, so that each position is looked at once in all
    (doubly stochastic attention); 0: it isn't computed."""
    feed: bool = False
    """The last output is part of the next input (input feeding)."""
    query: Literal["state", "both"] = "state"
    """The query is the state, or both the state and the input, as in the 2017 tutorial (before the cell only)."""
    readout: Readout = "tanh"
    """The output layer is a tanh, a maxout of two, or the sum of the input and what state and context project to (deep,
    before the cell only)."""
    start: Start = "zeros"
    """The first state is zeros, the encoder's final state, a projection of it (bridge), or of the memory's mean."""
    memory: Size | None = None
    dropout: Rate = 0.0
    """This share is dropped between layers while training."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.readout == "deep" and self.when == "after":
            raise ValueError("readout: deep adds the input, and attention after the cell doesn't read it; when=before")
        return self

    def memory_width(self, width: int) -> int | None:
        return self.memory or width

    def build(self, width: int) -> Mixer:
        return AttentiveRecurrence(self, width)


@dataclass
class AttentiveState(State):
    """The cell's carry, the output that is fed back, and the memory's keys as the score prepared them."""

    carry: Carry
    fed: Tensor | None
    keys: Shared


@dataclass
class Gaze:
    """One call's look at the memory, query after query."""

    memory: Memory
    keys: tuple[Tensor, ...]  # as the score prepared them
    see: See | None
    keeps: bool  # somebody wants to know of the whole call
    expects: Tensor | None  # (rows, 1, 1), the rows that take the expectation; None: nothing is drawn
    weights: list[Tensor] = field(default_factory=list)  # what is kept: probabilities, (rows, queries, keys)
    chosen: list[Tensor] = field(default_factory=list)  # and log-probabilities of what was drawn, (rows, queries)

    def __post_init__(self) -> None:
        valid = self.memory.valid
        self.allowed = None if valid is None else valid.repeat_interleave(self.memory.fan, 0)[:, None]


class AttentiveRecurrence(Mixer):
    """`doubly` is the cost of a call a real word: so a step's sum over its batches is the sum over their rows, and the
    weight is that of a row's term beside the row's log-likelihood, however rows are batched.

    `choices` are log-probabilities of what was drawn, (rows, time, 1), 0 where nothing was; `entropy` is that of the
    weights. Both are 0 at pads.
    """

    recalls = True

    def __init__(self, spec: Attentive, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.draws = spec.hard == "sampled"
        gate, doubly, drawn = (
            ("gate",) * spec.gate,
            ("doubly",) * (spec.doubly > 0),
            ("choices", "entropy") * self.draws,
        )
        self.told = (*doubly, *drawn)  # of a whole call
        self.names = ("query", "weights", "context", *gate, *self.told, *SIGHTS[spec.cell])
        self.estimates = spec.hard is True
        memory = spec.memory or width
        before = spec.when == "before"
        inputs = width + memory * before + width * spec.feed
        self.cell = Cell(spec.cell, inputs, width, spec.layers, dropout=spec.dropout)
        asks = width * 2 if before and spec.query == "both" else width
        self.score = spec.score.build(asks, memory)
        self.gate = Dense(asks, 1) if spec.gate else None
        # the word is read from the state and the context, and before the cell from the input too
        pieces = 2 if spec.readout == "maxout" else 1
        reads_input = before and spec.readout != "deep"
        self.output = Dense(width + memory + width * reads_input, width * pieces)
        self.bridge = Bridge(spec.start, self.cell, width, memory)

    @property
    def costs(self) -> Mapping[str, float]:
        return {"doubly": self.spec.doubly} if self.spec.doubly else {}

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        now = state if isinstance(state, AttentiveState) else self.start(view.mask.rows, view)
        see = view.watcher(self.path, *self.names)
        gaze = Gaze(
            view.recall(self.path),
            now.keys.tensors,
            see,
            keeps=view.watcher(self.path, *self.told) is not None,
            expects=self.choose_rows(x) if self.draws and self.training else None,
        )
        cell = self.cell.watched(self.path, view)
        # nobody reads the last carry, and pads that come last can't touch what came before them
        loose = view.mask.valid is None or (state is None and view.mask.trailing)
        if self.spec.when == "before" or self.spec.feed or isinstance(cell, Watched):
            y = self.loop(cell, x, view, now, gaze, None if loose else view.mask.valid)
        else:
            y = self.at_once(x, view, now, gaze, None if loose else view.mask.counts)
        now.advance(view.mask)
        if gaze.keeps and see:
            self.report(gaze, view, see)
        return y

    def choose_rows(self, x: Tensor) -> Tensor:
        """Which rows take the expectation and draw nothing: "for a given image", as the paper has it."""
        return torch.rand(x.shape[0], 1, 1, device=x.device) < self.spec.expect

    def loop(
        self, cell: Cell | Watched, x: Tensor, view: View, state: AttentiveState, gaze: Gaze, valid: Tensor | None
    ) -> Tensor:
        """Position by position; a pad moves nothing. All are read at the end, unless what was read is fed back."""
        # a single step has nothing to gain
        way = Ahead(self.cell, x) if isinstance(cell, Cell) and x.shape[1] > 1 else cell
        seen: list[tuple[Tensor, Tensor]] = []
        outputs: list[Tensor] = []
        for time in range(x.shape[1]):
            now = x[:, time]
            hidden, context, carry = self.tick(way, now, view.positions[:, time : time + 1], state, gaze)
            fed = None
            if state.fed is None:
                seen.append((hidden, context))
            else:
                fed = self.read(hidden, context, now)
                outputs.append(fed)
            if valid is not None:
                real = valid[:, time]
                carry = tuple(
                    torch.where(real[:, None, None], new, old) for new, old in zip(carry, state.carry, strict=True)
                )
                if fed is not None and state.fed is not None:
                    fed = torch.where(real[:, None], fed, state.fed)
            state.carry, state.fed = carry, fed
        if isinstance(cell, Watched):
            cell.report()
        if outputs:
            return torch.stack(outputs, 1)
        hiddens, contexts = zip(*seen, strict=True)
        return self.read(torch.stack(hiddens, 1), torch.stack(contexts, 1), x)

    def tick(
        self, cell: Cell | Watched | Ahead, x: Tensor, positions: Tensor, state: AttentiveState, gaze: Gaze
    ) -> tuple[Tensor, Tensor, Carry]:
        """One position, (rows, width): the state after it, what it looked at, and what the cell carries on."""
        known = [] if isinstance(cell, Ahead) else [x]  # it has read all inputs before
        fed = [] if state.fed is None else [state.fed]
        if self.spec.when == "before":
            hidden = state.carry[0][:, -1]
            query = torch.cat((hidden, x), -1) if self.spec.query == "both" else hidden
            context = self.attend(query[:, None], positions, gaze)[:, 0]
            hidden, carry = cell.step(torch.cat((*known, context, *fed), -1), state.carry)
            return hidden, context, carry
        hidden, carry = cell.step(torch.cat((*known, *fed), -1), state.carry)
        return hidden, self.attend(hidden[:, None], positions, gaze)[:, 0], carry

    def at_once(self, x: Tensor, view: View, state: AttentiveState, gaze: Gaze, lengths: Tensor | None) -> Tensor:
        """All positions through the fused cell, then all queries together."""
        mask = view.mask
        hidden, state.carry = self.cell(mask.align(x), state.carry, lengths)
        hidden = mask.restore(hidden)
        return self.read(hidden, self.attend(hidden, view.positions, gaze), x)

    def attend(self, query: Tensor, positions: Tensor, gaze: Gaze) -> Tensor:
        """The weighted mean of the memory: (rows, queries, memory's width). There is one head."""
        see, memory = gaze.see, gaze.memory
        if see:
            query = see("query", query[:, None])[:, 0]
        positions = memory.fold(positions.expand(query.shape[:2]))
        scores = memory.unfold(self.score(memory.fold(query), *gaze.keys, positions))  # (rows, queries, keys)
        weights = self.weigh(scores, gaze).to(memory.states.dtype)
        if see:
            weights = see("weights", weights[:, None])[:, 0]
        context = memory.unfold(memory.fold(weights) @ memory.states)
        if self.gate is not None:
            gate = self.gate(query).sigmoid()  # (rows, queries, 1)
            context = context * (see("gate", gate[:, None])[:, 0] if see else gate)
        return see("context", context[:, None])[:, 0] if see else context

    def weigh(self, scores: Tensor, gaze: Gaze) -> Tensor:
        """What is looked at: all by its weight, or one position that the weights, as probabilities, drew."""
        weights = weigh(scores, gaze.allowed, self.spec.hard is True)
        if gaze.keeps:
            gaze.weights.append(weights)
        if gaze.expects is None:
            return weights
        drawn = draw_places(weights)
        if gaze.keeps:
            gaze.chosen.append(drawn.log_probabilities.masked_fill(gaze.expects[..., 0], 0.0))
        return torch.where(gaze.expects, weights, drawn.weights)

    def read(self, hidden: Tensor, context: Tensor, x: Tensor) -> Tensor:
        """tanh(W [hidden; context; x]), the larger of each pair (Bahdanau's maxout), or x + W [hidden; context].

        The last is the sum in equation 7 of Xu et al. 2015; the head is its outer matrix. After the cell, x isn't read.
        """
        deep = self.spec.readout == "deep"
        vectors = (hidden, context) if deep or self.spec.when == "after" else (hidden, context, x)
        y = self.output(torch.cat(vectors, -1))
        if deep:
            return x + y
        return torch.tanh(y) if self.spec.readout == "tanh" else y.unflatten(-1, (-1, 2)).amax(-1)

    def report(self, gaze: Gaze, view: View, see: See) -> None:
        """Tell what only a whole call knows."""
        mask = view.mask
        weights = torch.cat(gaze.weights, 1).to(view.precise)  # (rows, time, keys)
        real = None if mask.valid is None else mask.valid[..., None]
        if real is not None:
            weights = weights * real
        if self.spec.doubly:
            missing = (1 - weights.sum(1)).square()  # (rows, keys)
            if gaze.allowed is not None:
                missing = missing.masked_fill(~gaze.allowed[:, 0], 0.0)
            see("doubly", missing.sum() / mask.counts.sum().clamp(min=1))
        if self.draws:
            chosen = torch.cat(gaze.chosen, 1)[..., None] if gaze.chosen else weights.new_zeros(*weights.shape[:2], 1)
            see("choices", chosen if real is None else chosen * real)
            # a weight that is 0 adds nothing, and its logarithm must not spoil the gradient
            see("entropy", -(weights * weights.clamp(min=1e-20).log()).sum(-1, keepdim=True))

    def start(self, rows: int, view: View) -> AttentiveState:
        memory = view.recall(self.path)
        return AttentiveState(
            carry=self.bridge(rows, view, self.path),
            fed=view.zeros(rows, self.width) if self.spec.feed else None,
            keys=Shared(tensors=(self.score.prepare(memory.states),), fan=memory.fan),
        )
