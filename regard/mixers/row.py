"""Row LSTM: an LSTM that goes down a picture, all places of a row at once (van den Oord et al. 2016).

A place's state hears the states of the places above it, `kernel` of them, and its input those to its left in its own
row, so that it sees a triangle above itself, and nothing that comes later.

Cost: time O(n), one row after the other; state O(columns).
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mixer import Mixer
from regard.core.spec import Size
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.raster import History, PlaneMixer, PlaneSpec, list_groups, pick_places, push, take_last
from regard.parts.wave import run_rows, run_wave, start_gates, tick


class RowLSTM(PlaneSpec):
    """How wide the state looks, and how much it holds."""

    kind: Literal["row"] = "row"
    kernel: Size = 3
    """A state hears the states of this many places above it, and its input half as many to the left."""
    hidden: Size | None = None
    """The state of a place has this many numbers; unless given, half as many as the model."""

    def build(self, width: int) -> Mixer:
        if self.kernel % 2 == 0:
            raise SpecError(f"kernel: {self.kernel} has no middle", f"kernel={self.kernel + 1}")
        return RowRecurrence(self, width)


class RowRecurrence(PlaneMixer):
    def __init__(self, spec: RowLSTM, width: int) -> None:
        super().__init__(spec)
        self.reach, self.size = spec.kernel // 2, spec.hidden or max(1, width // 2)
        inputs, states = self.channels * width, self.channels * self.size
        self.input = nn.Parameter(torch.empty(1, (self.reach + 1) * inputs, 4 * states))
        self.recurrent = nn.Parameter(torch.empty(1, spec.kernel * states, 4 * states))
        self.bias = nn.Parameter(torch.empty(1, 1, 4 * states))
        self.output = Dense(self.size, width)
        self.width = width
        self.reset()

    def reset(self) -> None:
        start_gates(self.input, self.recurrent, self.bias)

    def matrix(self) -> Tensor:
        """The weights of the input, where a channel sees no later one of its place."""
        if self.channels == 1:
            return self.input
        groups = list_groups(self.channels, self.size, self.width).repeat(4, 1).mT.to(self.input)
        # places to the left are seen whole
        return self.input * F.pad(groups, (0, 0, self.reach * len(groups), 0), value=1.0)

    def leave(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)

    def sweep(self, x: Tensor, columns: int) -> Tensor:
        return self.run(x, columns)[0]

    def run(self, x: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        """What the plane gives, and the hidden and the cell of each place: (rows, places, channels · size)."""
        plane = self.fold(x.to(self.input.dtype), columns)  # (rows, height, columns, channels · width)
        height = plane.shape[1]
        if not height:
            return (x.new_zeros(x.shape[0], 0, self.size),) * 3
        sides = F.pad(plane, (0, 0, self.reach, 0))
        shifted = [sides[:, :, shift : shift + columns] for shift in range(self.reach + 1)]
        seen = torch.cat(shifted, -1).flatten(1, 2).transpose(0, 1)  # (places, rows, …)
        with torch.autocast(x.device.type, enabled=False):
            route = run_rows(height, columns, self.reach)
            hidden, cell = run_wave(seen[None], self.matrix(), self.bias, self.recurrent, route)
        hidden, cell = hidden[0].transpose(0, 1), cell[0].transpose(0, 1)
        return self.unfold(hidden, x.shape[1]), hidden, cell

    def keep(self, x: Tensor, columns: int) -> tuple[Tensor, History]:
        out, hidden, cell = self.run(x, columns)
        done = x.shape[1] // self.channels
        tail = take_last(x, (self.reach + 1) * self.channels)
        return out, (tail, take_last(hidden[:, :done], columns + self.reach), take_last(cell[:, :done], columns))

    def blank(self, rows: int, columns: int, view: View) -> History:
        states = self.channels * self.size
        return (
            view.zeros(rows, (self.reach + 1) * self.channels, self.width),
            view.zeros(rows, columns + self.reach, states),
            view.zeros(rows, columns, states),
        )

    def step(self, x: Tensor, history: History, at: int, columns: int) -> tuple[Tensor, History]:
        inputs, hidden, cell = push(history[0], x), *history[1:]
        place, channel = divmod(at, self.channels)
        column = place % columns
        before = inputs[:, : inputs.shape[1] - channel - 1]
        before = before[:, before.shape[1] - self.reach * self.channels :].unflatten(1, (self.reach, self.channels))
        left = [n if column >= self.reach - n else None for n in range(self.reach)]
        seen = torch.cat((pick_places(before.flatten(2), left), self.gather(inputs, channel + 1)), 1)
        across = range(-self.reach, self.reach + 1)
        above = [self.reach + shift if 0 <= column + shift < columns else None for shift in across]
        with torch.autocast(x.device.type, enabled=False):
            given = torch.baddbmm(self.bias, seen.to(self.input.dtype)[None], self.matrix())
            now, held = tick(given, pick_places(hidden, above)[None], self.recurrent, cell[None, :, 0])
        mine = now[0, :, channel * self.size : (channel + 1) * self.size]
        if channel < self.channels - 1:
            return mine, (inputs, hidden, cell)
        return mine, (inputs, push(hidden, now[0]), push(cell, held[0]))
