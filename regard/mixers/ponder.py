"""Pondering: a recurrent cell that takes as many steps at each position as it needs (Graves 2016; Banino et al. 2021).

The input stays the same while a position is pondered, but for a flag at the first step. What goes on to the next
position, and what comes out, is the mean of the states after each step, by weights that sum to 1: adaptive computation
time, PonderNet, or a fixed number of steps, as `halt` says.

Cost: time O(n · steps), one after the other, until every row has halted; state O(1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Rate, Size
from regard.core.state import State
from regard.core.view import View
from regard.parts.cell import Again, Carry, Cell, Kind
from regard.parts.halting import Adaptive, HaltSpec, Visit, report


class Ponder(MixerSpec):
    """Which cell, and how it is decided that a position has been thought over enough."""

    kind: Literal["ponder"] = "ponder"
    cell: Kind = "rnn"
    """The kind of recurrent cell."""
    layers: Size = 1
    """There are this many recurrent layers, one on the other; a step goes through all of them."""
    halt: HaltSpec = Adaptive()
    """A position halts by adaptive computation time (adaptive), as in PonderNet (geometric), or after a fixed number of
    steps (repeat)."""
    dropout: Rate = 0.0
    """This share is dropped between layers while training."""

    def build(self, width: int) -> Mixer:
        return Pondering(self, width)


@dataclass
class PonderState(State):
    """The mean of the last position's states: a hidden vector of each layer, and for an LSTM its cell."""

    carry: Carry

    def summary(self) -> Tensor:
        """(rows, pieces, layers, width)"""
        return torch.stack(self.carry, 1)


class Pondering(Mixer):
    """`trials`: what comes out after each step, (batch, steps, time, width), where any step may be the last."""

    leaves_final = True

    def __init__(self, spec: Ponder, width: int) -> None:
        super().__init__()
        self.cell = Cell(spec.cell, width + 1, width, spec.layers, dropout=spec.dropout)  # 1: the flag
        self.halting = spec.halt.build(width)
        self.tries = self.halting.tries
        self.names = (*self.halting.sights, *(("trials",) if self.tries else ()))

    @property
    def costs(self) -> Mapping[str, float]:
        return self.halting.charges

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        memory = state if isinstance(state, PonderState) else self.start(view.mask.rows, view)
        cell, valid = Again(self.cell, x.to(memory.carry[0].dtype)), view.mask.valid
        everywhere = torch.ones(len(x), dtype=torch.bool, device=x.device)
        visits: list[Visit] = []
        outputs, trials = [], []
        for time in range(x.shape[1]):
            real = everywhere if valid is None else valid[:, time]
            visit = self.halting.begin(real)
            mean, tried = self.think(cell, time, memory.carry, visit)
            if valid is not None:
                mean = tuple(
                    torch.where(real[:, None, None], new, old) for new, old in zip(mean, memory.carry, strict=True)
                )
            memory.carry = mean
            outputs.append(mean[0][:, -1])
            trials.append(tried)
            visits.append(visit)
        memory.advance(view.mask)
        report(view, self.path, self.halting, visits)
        if self.tries and view.watcher(self.path, "trials"):
            view.see(self.path, "trials", lay_out_trials(trials, outputs))
        return torch.stack(outputs, 1)

    def think(self, cell: Again, time: int, carry: Carry, visit: Visit) -> tuple[Carry, list[Tensor]]:
        """Step until every row has halted: the mean of the states, and what came out after each step."""
        total: Carry | None = None
        outputs = []
        while visit.goes_on:
            hidden, carry = cell.step(time, carry, first=total is None)
            weight = visit.weigh(hidden)[:, None, None].to(hidden.dtype)  # (rows, 1, 1)
            parts = tuple(weight * piece for piece in carry)  # (rows, layers, size) each
            total = parts if total is None else tuple(map(torch.add, total, parts))
            outputs.append(hidden)
        return carry if total is None else total, outputs

    def start(self, rows: int, view: View) -> PonderState:
        return PonderState(carry=self.cell.zeros(rows, view))


def lay_out_trials(trials: list[list[Tensor]], outputs: list[Tensor]) -> Tensor:
    """What came out after each step of each position: (rows, steps, time, width), at the end what goes on."""
    longest = max(map(len, trials))
    filled = [[*tried, *[output] * (longest - len(tried))] for tried, output in zip(trials, outputs, strict=True)]
    return torch.stack([torch.stack(each, 1) for each in filled], 2)
