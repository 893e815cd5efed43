"""Mixers of planes: a sequence is folded into rows, so that a position knows what stands above it.

Such a mixer says how it sweeps over whole pictures, and how it takes one step; this is the rest of the protocol. What
it remembers are the last positions, as many as reach back over the rows that it still looks at. Rows of a batch that
stand at different places of their pictures take their steps in turn, so a step always knows its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError

History = tuple[Tensor, ...]  # what is remembered, each (rows, …)


class PlaneSpec(MixerSpec):
    """A mixer that folds a sequence into rows, as its picture has them."""

    columns: Size = 5
    """A sequence that is no picture is folded into rows of this many places."""
    channels: Size = 1
    """A place of such a sequence has this many positions, of which a later one sees the earlier ones."""

    @property
    def needs_grid(self) -> bool:
        return True

    def lie_on(self, grid: Grid | None) -> Self:
        if grid is not None and grid.first:
            raise SpecError(
                f"mix: {self.kind} begins with the picture, and {grid.first} positions stand before it", "first=false"
            )
        return self if grid is None else self.replace(columns=grid.width, channels=grid.channels)


@dataclass
class PlaneState(State):
    """What a mixer of planes still looks at, and how many positions each row has read: a fold begins where it began."""

    read: Tensor  # (rows,)
    history: History


class PlaneMixer(Mixer):
    """Folds, sweeps, steps and remembers; what mixes is a mixer's own."""

    names = ("hidden",)  # what the plane gives, before it is projected to the stream

    def __init__(self, spec: PlaneSpec) -> None:
        super().__init__()
        self.columns, self.channels = spec.columns, spec.channels

    def sweep(self, x: Tensor, columns: int) -> Tensor:
        """Whole pictures, or their beginnings: (rows, time, width) to what the plane gives, (rows, time, hidden)."""
        raise NotImplementedError

    def keep(self, x: Tensor, columns: int) -> tuple[Tensor, History]:
        """The same, and what is remembered at the end."""
        raise NotImplementedError

    def step(self, x: Tensor, history: History, at: int, columns: int) -> tuple[Tensor, History]:
        """One position, (rows, width), that follows `at` others: (rows, hidden), and what is remembered then."""
        raise NotImplementedError

    def blank(self, rows: int, columns: int, view: View) -> History:
        """What is remembered before the first position."""
        raise NotImplementedError

    def enter(self, x: Tensor) -> Tensor:
        """What becomes of each position before it goes into the plane."""
        return x

    def leave(self, hidden: Tensor) -> Tensor:
        """What the plane gives, brought back to the width."""
        return hidden

    def start(self, rows: int, view: View) -> PlaneState:
        read = torch.zeros(rows, dtype=torch.long, device=view.device)
        return PlaneState(read=read, history=self.blank(rows, self.columns, view))

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask, columns = view.mask, self.columns
        x = self.enter(mask.align(x))
        if isinstance(state, PlaneState):
            counts = [mask.time] * mask.rows if mask.valid is None else mask.counts.tolist()
            hidden = self.go_on(x, state, counts, columns)
            state.advance(mask)
        else:
            hidden = self.sweep(x, columns)  # pads come last, and nobody looks ahead
        hidden = mask.restore(hidden)
        see = view.watcher(self.path, *self.names)
        return self.leave(see("hidden", hidden) if see else hidden)

    def go_on(self, x: Tensor, state: PlaneState, counts: list[int], columns: int) -> Tensor:
        """Read what is real of each row, from where its picture has come to."""
        groups = dict[tuple[int, int], list[int]]()
        for row, key in enumerate(zip(state.read.tolist(), counts, strict=True)):
            groups.setdefault(key, []).append(row)
        kept = tuple(tensor.dtype for tensor in state.history)
        if len(groups) == 1:
            ((at, count),) = groups
            hidden, history = self.read(x[:, :count], state.history, at, columns)
            hidden = F.pad(hidden, (0, 0, 0, x.shape[1] - count))
        else:
            hidden, history = self.read_in_groups(x, state.history, groups, columns)
        state.history = tuple(tensor.to(dtype) for tensor, dtype in zip(history, kept, strict=True))
        state.read = state.read + torch.tensor(counts, device=state.read.device)
        return hidden

    def read_in_groups(
        self, x: Tensor, history: History, groups: dict[tuple[int, int], list[int]], columns: int
    ) -> tuple[Tensor, History]:
        """Rows that stand at one place of their pictures, and read as many positions, go together."""
        outputs, histories = [], []
        for (at, count), rows in groups.items():
            index = torch.tensor(rows, device=x.device)
            part = tuple(tensor.index_select(0, index) for tensor in history)
            hidden, part = self.read(x.index_select(0, index)[:, :count], part, at, columns)
            outputs.append(F.pad(hidden, (0, 0, 0, x.shape[1] - count)))
            histories.append(part)
        home = torch.tensor([row for rows in groups.values() for row in rows], device=x.device).argsort()
        joined = tuple(torch.cat(parts).index_select(0, home) for parts in zip(*histories, strict=True))
        return torch.cat(outputs).index_select(0, home), joined

    def read(self, x: Tensor, history: History, at: int, columns: int) -> tuple[Tensor, History]:
        """Positions of rows that all stand at one place: a picture from its beginning at once, else one by one."""
        if x.shape[1] == 0:
            return self.sweep(x[:, :0], columns), history
        if at == 0 and x.shape[1] > 1:
            return self.keep(x, columns)
        outputs = []
        for place, one in enumerate(x.unbind(1), at):
            hidden, history = self.step(one, history, place, columns)
            outputs.append(hidden)
        return torch.stack(outputs, 1), history

    def fold(self, x: Tensor, columns: int) -> Tensor:
        """Rows of whole places: (rows, time, size) -> (rows, height, columns, channels · size), zeros at the end."""
        missing = -x.shape[1] % (columns * self.channels)
        x = F.pad(x, (0, 0, 0, missing)) if missing else x
        return x.reshape(x.shape[0], -1, columns, self.channels * x.shape[-1])

    def gather(self, x: Tensor, count: int) -> Tensor:
        """The place that is being read, from its `count` positions: (rows, time, size) -> (rows, channels · size)."""
        return F.pad(x[:, x.shape[1] - count :], (0, 0, 0, self.channels - count)).flatten(1)

    def unfold(self, x: Tensor, time: int) -> Tensor:
        """The inverse of `fold`: (rows, …, channels · size) -> (rows, time, size)."""
        return x.reshape(x.shape[0], -1, x.shape[-1] // self.channels)[:, :time]


def take_last(x: Tensor, count: int) -> Tensor:
    """The last positions, zeros before them where there are too few: (rows, time, size) -> (rows, count, size)."""
    return F.pad(x, (0, 0, max(0, count - x.shape[1]), 0))[:, max(0, x.shape[1] - count) :]


def push(x: Tensor, new: Tensor) -> Tensor:
    """Positions without the first and with a new last one: (rows, time, size) and (rows, size)."""
    return torch.cat((x[:, 1:], new[:, None]), 1)


def pick_places(x: Tensor, places: Sequence[int | None]) -> Tensor:
    """Some of the places, zeros where there is none, side by side: (rows, time, size) -> (rows, places · size)."""
    index = [x.shape[1] if place is None else place for place in places]
    return F.pad(x, (0, 0, 0, 1)).index_select(1, torch.tensor(index, dtype=torch.long, device=x.device)).flatten(1)


@cache
def list_groups(channels: int, outputs: int, inputs: int, strict: bool = False) -> Tensor:
    """Which inputs of a place an output may see, by their channels: (channels · outputs, channels · inputs), 1 or 0.

    A channel sees the ones before it and itself; `strict`: not itself.
    """
    order = torch.arange(channels, device="cpu")
    sees = order[:, None] > order if strict else order[:, None] >= order
    return sees.repeat_interleave(outputs, 0).repeat_interleave(inputs, 1).float()
