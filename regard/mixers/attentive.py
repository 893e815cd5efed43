"""Recurrent decoders that attend: before the cell (Bahdanau et al. 2015) or after it (Luong et al. 2015).

Input feeding makes a step need the last step's attention, so this is one mixer with its loop inside. Where nothing is
fed back, all steps run through the fused cell and all queries attend at once, unless somebody looks into the cell.

Cost: time O(n · memory), one position after the other; state O(1), and the memory's keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import See
from regard.core.spec import Rate, Size
from regard.core.state import Memory, Shared, State
from regard.core.view import View
from regard.mixers.recurrent import Bridge, Start
from regard.parts.cell import SIGHTS, Carry, Cell, Kind, Watched
from regard.parts.score import Additive, ScoreSpec, weigh


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
    hard: bool = False
    """It looks at one position only; it learns as if it were soft."""
    feed: bool = False
    """The last output is part of the next input (input feeding)."""
    query: Literal["state", "both"] = "state"
    """The query is the state, or both the state and the input, as in the 2017 tutorial (before the cell only)."""
    readout: Literal["tanh", "maxout"] = "tanh"
    """The output layer is a tanh, or a maxout of two."""
    start: Start = "zeros"
    """The first state is zeros, the encoder's final state, a projection of it (bridge), or of the memory's mean."""
    memory: Size | None = None
    dropout: Rate = 0.0
    """This share is dropped between layers while training."""

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


class AttentiveRecurrence(Mixer):
    recalls = True

    def __init__(self, spec: Attentive, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.names = ("query", "weights", "context", *SIGHTS[spec.cell])
        self.estimates = spec.hard
        memory = spec.memory or width
        before = spec.when == "before"
        inputs = width + memory * before + width * spec.feed
        self.cell = Cell(spec.cell, inputs, width, spec.layers, dropout=spec.dropout)
        asks = width * 2 if before and spec.query == "both" else width
        self.score = spec.score.build(asks, memory)
        # the word is read from the state and the context, and before the cell from the input too
        pieces = 2 if spec.readout == "maxout" else 1
        self.output = Dense(width + memory + width * before, width * pieces)
        self.bridge = Bridge(spec.start, self.cell, width, memory)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        memory = view.recall(self.path)
        now = state if isinstance(state, AttentiveState) else self.start(view.mask.rows, view)
        see = view.watcher(self.path, *self.names)
        cell = self.cell.watched(self.path, view)
        if self.spec.when == "before" or self.spec.feed or isinstance(cell, Watched):
            y = self.loop(cell, x, view, memory, now, see)
        else:
            y = self.at_once(x, view, memory, now, see)
        now.advance(view.mask)
        return y

    def loop(
        self, cell: Cell | Watched, x: Tensor, view: View, memory: Memory, state: AttentiveState, see: See | None
    ) -> Tensor:
        """Position by position; a pad moves nothing."""
        valid, outputs = view.mask.valid, []
        for time in range(x.shape[1]):
            positions = view.positions[:, time : time + 1]
            y, carry = self.tick(cell, x[:, time], positions, memory, state, see)
            fed = y if self.spec.feed else None
            if valid is not None:
                real = valid[:, time]
                carry = tuple(
                    torch.where(real[:, None, None], new, old) for new, old in zip(carry, state.carry, strict=True)
                )
                if fed is not None and state.fed is not None:
                    fed = torch.where(real[:, None], fed, state.fed)
            state.carry, state.fed = carry, fed
            outputs.append(y)
        if isinstance(cell, Watched):
            cell.report()
        return torch.stack(outputs, 1)

    def tick(
        self,
        cell: Cell | Watched,
        x: Tensor,
        positions: Tensor,
        memory: Memory,
        state: AttentiveState,
        see: See | None,
    ) -> tuple[Tensor, Carry]:
        """One position: (rows, width) to the same, and what the cell carries on."""
        fed = [] if state.fed is None else [state.fed]
        if self.spec.when == "before":
            hidden = state.carry[0][:, -1]
            query = torch.cat((hidden, x), -1) if self.spec.query == "both" else hidden
            context = self.attend(query[:, None], positions, memory, state, see)[:, 0]
            hidden, carry = cell.step(torch.cat((x, context, *fed), -1), state.carry)
            return self.read(hidden, context, x), carry
        hidden, carry = cell.step(torch.cat((x, *fed), -1), state.carry)
        return self.read(hidden, self.attend(hidden[:, None], positions, memory, state, see)[:, 0]), carry

    def at_once(self, x: Tensor, view: View, memory: Memory, state: AttentiveState, see: See | None) -> Tensor:
        """All positions through the fused cell, then all queries together."""
        mask = view.mask
        lengths = None if mask.valid is None else mask.counts
        hidden, state.carry = self.cell(mask.align(x), state.carry, lengths)
        hidden = mask.restore(hidden)
        return self.read(hidden, self.attend(hidden, view.positions, memory, state, see))

    def attend(
        self, query: Tensor, positions: Tensor, memory: Memory, state: AttentiveState, see: See | None
    ) -> Tensor:
        """The weighted mean of the memory: (rows, queries, memory's width). There is one head."""
        if see:
            query = see("query", query[:, None])[:, 0]
        positions = memory.fold(positions.expand(query.shape[:2]))
        scores = memory.unfold(self.score(memory.fold(query), *state.keys.tensors, positions))  # (rows, queries, keys)
        valid = memory.valid
        if valid is not None:
            valid = valid.repeat_interleave(memory.fan, 0)[:, None]
        weights = weigh(scores, valid, self.spec.hard).to(memory.states.dtype)
        if see:
            weights = see("weights", weights[:, None])[:, 0]
        context = memory.unfold(memory.fold(weights) @ memory.states)
        return see("context", context[:, None])[:, 0] if see else context

    def read(self, *vectors: Tensor) -> Tensor:
        """tanh(W [hidden; context]), or the larger of each pair (Bahdanau's maxout)."""
        y = self.output(torch.cat(vectors, -1))
        return torch.tanh(y) if self.spec.readout == "tanh" else y.unflatten(-1, (-1, 2)).amax(-1)

    def start(self, rows: int, view: View) -> AttentiveState:
        memory = view.recall(self.path)
        return AttentiveState(
            carry=self.bridge(rows, view, self.path),
            fed=view.zeros(rows, self.width) if self.spec.feed else None,
            keys=Shared(tensors=(self.score.prepare(memory.states),), fan=memory.fan),
        )
