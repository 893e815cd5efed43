"""Diagonal BiLSTM: two LSTMs that cross a picture from its upper corners (van den Oord et al. 2016).

From the upper left, a place's state hears the places to its left and above it; from the upper right, the places to its
right and above it. The second map is moved down by a row before they are added, so that nobody hears what comes later
in its own row. Together they see every pixel before.

All places of a diagonal, of both directions and of all pictures make one step together: height + width - 1 steps for a
picture. One pixel after the other, the map from the right is made when a row is full.

Cost: time O(n), one diagonal after the other; state O(columns).
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mixer import Mixer
from regard.core.spec import Size
from regard.core.view import View
from regard.parts.raster import History, PlaneMixer, PlaneSpec, list_groups, push, take_last
from regard.parts.wave import run_diagonals, run_wave, start_gates, tick


class DiagonalLSTM(PlaneSpec):
    """How much the two states of a place hold."""

    kind: Literal["diagonal"] = "diagonal"
    hidden: Size | None = None
    """The state of a place has this many numbers in each direction; unless given, half as many as the model."""

    def build(self, width: int) -> Mixer:
        return DiagonalRecurrence(self, width)


class DiagonalRecurrence(PlaneMixer):
    def __init__(self, spec: DiagonalLSTM, width: int) -> None:
        super().__init__(spec)
        self.size, self.width = spec.hidden or max(1, width // 2), width
        inputs, states = self.channels * width, self.channels * self.size
        self.input = nn.Parameter(torch.empty(2, inputs, 4 * states))
        self.recurrent = nn.Parameter(torch.empty(2, 2 * states, 4 * states))
        self.bias = nn.Parameter(torch.empty(2, 1, 4 * states))
        self.output = Dense(self.size, width)
        self.reset()

    def reset(self) -> None:
        start_gates(self.input, self.recurrent, self.bias)

    def matrix(self) -> Tensor:
        """The weights of the input, where a channel sees no later one of its place."""
        if self.channels == 1:
            return self.input
        return self.input * list_groups(self.channels, self.size, self.width).repeat(4, 1).mT.to(self.input)

    def leave(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)

    def sweep(self, x: Tensor, columns: int) -> Tensor:
        return self.run(x, columns)[0]

    def run(self, x: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        """What the plane gives, and the hidden and the cell of each place: (2, rows, places, channels · size)."""
        plane = self.fold(x.to(self.input.dtype), columns)  # (rows, height, columns, channels · width)
        rows, height = plane.shape[:2]
        if not height:
            return x.new_zeros(rows, 0, self.size), *(x.new_zeros(2, rows, 0, self.channels * self.size),) * 2
        route = run_diagonals(height, columns)
        order, home = (index.to(x.device) for index in list_orders(height, columns))
        places = plane.flatten(1, 2).transpose(0, 1)  # (places, rows, …)
        seen = places.index_select(0, order).unflatten(0, (2, -1))
        with torch.autocast(x.device.type, enabled=False):
            hidden, cell = run_wave(seen, self.matrix(), self.bias, self.recurrent, route)
        ahead, back = hidden.flatten(0, 1).index_select(0, home).view(2, -1, *hidden.shape[2:])
        both = ahead + F.pad(back[:-columns], (0, 0, 0, 0, columns, 0))  # a row later
        return self.unfold(both.transpose(0, 1), x.shape[1]), hidden, cell

    def keep(self, x: Tensor, columns: int) -> tuple[Tensor, History]:
        out, hidden, cell = self.run(x, columns)
        done = x.shape[1] // self.channels
        height = hidden.shape[1] // columns
        _, home = (index.to(x.device) for index in list_orders(height, columns))
        ahead, back = (
            hidden.flatten(0, 1).index_select(0, part).transpose(0, 1) for part in home.chunk(2)
        )  # (rows, places, …)
        full = done // columns * columns
        held = cell.flatten(0, 1).index_select(0, home[max(0, done - 1)][None])[0] * bool(done)
        return out, (
            take_last(x, columns * self.channels),
            take_last(ahead[:, :done], columns),
            held,
            take_last(back[:, :full], columns),
        )

    def blank(self, rows: int, columns: int, view: View) -> History:
        states = self.channels * self.size
        return (
            view.zeros(rows, columns * self.channels, self.width),  # the inputs of a row
            view.zeros(rows, columns, states),  # the states from the left, of the last places
            view.zeros(rows, states),  # the cell of the last place
            view.zeros(rows, columns, states),  # the states from the right, of the row above
        )

    def step(self, x: Tensor, history: History, at: int, columns: int) -> tuple[Tensor, History]:
        inputs, ahead, cell, back = push(history[0], x), *history[1:]
        place, channel = divmod(at, self.channels)
        column = place % columns
        inside = float(column > 0)  # nobody stands left of a row
        heard = torch.cat((ahead[:, -1] * inside, ahead[:, 0]), 1)
        now, held = self.tick(0, self.gather(inputs, channel + 1), heard, cell * inside)
        mine = slice(channel * self.size, (channel + 1) * self.size)
        out = now[:, mine] + back[:, column, mine]
        if channel < self.channels - 1:
            return out, (inputs, ahead, cell, back)
        if column == columns - 1:
            back = self.return_home(inputs, back, columns)
        return out, (inputs, push(ahead, now), held, back)

    def tick(self, way: int, seen: Tensor, heard: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """One place in one direction."""
        with torch.autocast(seen.device.type, enabled=False):
            weight = self.matrix()[way]
            given = torch.addmm(self.bias[way], seen.to(weight.dtype), weight)
            now, held = tick(given[None], heard.to(weight.dtype)[None], self.recurrent[way, None], cell[None])
        return now[0], held[0]

    def return_home(self, inputs: Tensor, above: Tensor, columns: int) -> Tensor:
        """The states from the right of a row that is full: (rows, columns, channels · size)."""
        places = inputs.unflatten(1, (columns, self.channels)).flatten(2)
        now = cell = torch.zeros_like(above[:, 0])
        found = []
        for column in reversed(range(columns)):
            now, cell = self.tick(1, places[:, column], torch.cat((now, above[:, column]), 1), cell)
            found.append(now)
        return torch.stack(found[::-1], 1)


@cache
def list_orders(height: int, columns: int) -> tuple[Tensor, Tensor]:
    """The places in the order of the diagonals, for both directions, and where among these each place went."""
    orders = [torch.tensor(run_diagonals(height, columns, mirrored).order) for mirrored in (False, True)]
    return torch.cat(orders), torch.cat([order.argsort() + n * len(order) for n, order in enumerate(orders)])
