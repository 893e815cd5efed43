"""Recurrence: one vector carried from position to position (Elman 1990; LSTM 1997; GRU 2014), in either direction.

A whole sequence runs through torch's fused kernel, and so does a step; somebody watching: the same recurrence, in the
open. Pads are packed away, so each row ends at its own last token. A skip connection in time gives a step the output of
k steps ago too, so that a gradient reaches far back in few steps (Lin et al. 1996; Zhang et al. 2016).

Cost: time O(n), one position after the other; state O(1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mask import average
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Rate, Size, divides
from regard.core.state import State
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.cell import SIGHTS, Carry, Cell, Kind, Values, reverse, show

Start = Literal["zeros", "final", "bridge", "mean"]


class Recurrent(MixerSpec):
    """Which cell, how many layers, and which way.

    `both`: two directions, each with half of the width, joined after each layer. `apart`: two directions that never
    meet, each on its own half of the channels (ELMo, Peters et al. 2018).
    """

    kind: Literal["recurrent"] = "recurrent"
    cell: Kind = "lstm"
    """The kind of recurrent cell."""
    layers: Size = 1
    """There are this many recurrent layers, one on the other."""
    direction: Literal["forward", "backward", "both", "apart"] = "forward"
    """The cell reads forward, backward, both ways joined in every layer (both), or both ways that never meet (apart).
    """
    start: Start = "zeros"
    """The first state is zeros, the encoder's final state, a projection of it (bridge), or of the memory's mean."""
    skip: Size | None = None
    """The output of this many steps ago is part of the input."""
    dropout: Rate = 0.0
    """This share is dropped between layers while training."""

    def memory_width(self, width: int) -> int | None:
        return None if self.start == "zeros" else width

    def forward_only(self) -> Self:
        return self.replace(direction="forward")

    def both_ways(self) -> Self:
        return self.replace(direction="both", start="zeros")  # nothing was read before an encoder begins

    def keep_apart(self) -> Self:
        return self.replace(direction="apart", start="zeros")

    def build(self, width: int) -> Mixer:
        if self.direction in ("both", "apart"):
            divides(2, width, "directions", "width", fixed=True)
        if self.over_memory and self.direction != "forward":
            raise SpecError(
                f"start: {self.start} is for a decoder, and direction {self.direction} is not", "start=zeros"
            )
        if self.skip is not None and self.layers > 1 and self.direction == "both":
            raise SpecError(
                f"skip: it leads back to one direction's output, and {self.layers} layers join both before the last",
                "layers=1 and a deeper stack, or direction=forward",
            )
        return Recurrence(self, width)


@dataclass
class RecurrentState(State):
    """The last hidden vector of each layer and direction, and for an LSTM its cell."""

    carry: Carry
    directions: int = 1
    earlier: Tensor | None = None  # the outputs that a skip leads back to: (rows, skip, size)

    def summary(self) -> Tensor:
        """(rows, pieces, layers, width), the directions of a layer side by side."""
        stacked = torch.stack(self.carry, 1)  # (rows, pieces, layers * directions, size)
        return stacked.unflatten(2, (-1, self.directions)).flatten(3)


@dataclass(frozen=True)
class Passage:
    """All that a recurrence reads in one call; each row's real tokens come first."""

    x: Tensor  # (rows, time, inputs)
    carry: Carry
    lengths: Tensor | None  # (rows,); None: there are no pads, or none that matter
    impulse: Tensor | None  # (rows, time, layers * directions * size); None: nobody looks inside
    earlier: Tensor | None = None

    def turn(self) -> Passage:
        """The same from the end to the beginning."""
        impulse = None if self.impulse is None else reverse(self.impulse, self.lengths)
        return replace(self, x=reverse(self.x, self.lengths), impulse=impulse)

    def part(self, apart: bool, size: int) -> tuple[Passage, Passage]:
        """What each of two directions reads: all of the channels, or its own half of them where they stay `apart`."""
        left, right = self.x.chunk(2, -1) if apart else (self.x, self.x)
        ahead, back = (tuple(piece[:, side::2] for piece in self.carry) for side in (0, 1))
        first = second = None
        if self.impulse is not None:
            first, second = (side.flatten(2) for side in self.impulse.unflatten(-1, (-1, 2, size)).unbind(3))
        return Passage(left, ahead, self.lengths, first), Passage(right, back, self.lengths, second)


class Bridge(nn.Module):
    """The first hidden vectors of a decoder, from what the encoder left: copied, bridged, or averaged."""

    def __init__(self, how: Start, cell: Cell, width: int, memory: int) -> None:
        super().__init__()
        self.how, self.cell = how, (cell,)  # a tuple, so that the cell isn't registered twice
        bridged = how in ("bridge", "mean")
        self.dense = Dense(memory, cell.layers * cell.pieces * width) if bridged else None

    def forward(self, rows: int, view: View, path: str) -> Carry:
        (cell,) = self.cell
        if self.how == "zeros":
            return cell.zeros(rows, view)
        memory = view.recall(path)
        if self.how == "mean":
            vector = average(memory.states, memory.valid)
        elif memory.final is None:
            raise InputError(f"{path} starts from the encoder's last state, and this encoder leaves none", "start=mean")
        elif self.how == "final":
            return self.copy(memory.final.repeat_interleave(memory.fan, 0), cell)
        else:
            vector = memory.final[:, 0, -1]
        assert self.dense is not None
        first = torch.tanh(self.dense(vector)).repeat_interleave(memory.fan, 0)
        return tuple(first.unflatten(-1, (cell.pieces, cell.layers, -1)).unbind(1))

    def copy(self, final: Tensor, cell: Cell) -> Carry:
        """Each layer's own final state; a cell that the encoder doesn't have starts at zero."""
        if final.shape[2:] != (cell.layers, cell.size):
            raise InputError(
                f"the encoder leaves {final.shape[2]} layers of {final.shape[3]}, and the decoder wants "
                f"{cell.layers} of {cell.size}",
                "start=bridge",
            )
        pieces = [final[:, piece] for piece in range(min(cell.pieces, final.shape[1]))]
        return tuple(pieces + [torch.zeros_like(pieces[0])] * (cell.pieces - len(pieces)))


class Recurrence(Mixer):
    """What it reports is (batch, layers * directions, time, size), the directions of a layer side by side.

    `hidden`: what each layer gives; what a probe makes of the last layer's is the output. `impulse`: zeros, which are
    added to the hidden vectors within the recurrence. The gates and an LSTM's cell can be seen, and not changed.
    """

    leaves_final = True

    def __init__(self, spec: Recurrent, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.names = SIGHTS[spec.cell]
        self.causal = spec.direction == "forward"
        self.directions = 2 if spec.direction in ("both", "apart") else 1
        size = width // self.directions
        apart = spec.direction == "apart"
        inputs = (size if apart else width) + size * (spec.skip is not None)
        # the fused kernel runs both directions at once, but a skip needs the outputs of one before it goes on
        both = spec.direction == "both" and spec.skip is None
        self.size = size
        self.cell = Cell(spec.cell, inputs, size, spec.layers, both, spec.dropout)
        two = self.directions == 2 and not both
        self.other = Cell(spec.cell, inputs, size, spec.layers, False, spec.dropout) if two else None
        self.bridge = Bridge(spec.start, self.cell, width, width)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask = view.mask
        if state is None:
            carry = self.first(mask.rows, view)
        else:
            assert isinstance(state, RecurrentState)
            carry = state.carry
        # nobody reads the last carry, and pads that come last can't touch what came before them
        loose = mask.valid is None or (state is None and self.causal and mask.trailing)
        lengths = None if loose else mask.counts
        earlier = state.earlier if isinstance(state, RecurrentState) else None
        see = view.watcher(self.path, *self.names)
        impulse = self.ask_impulse(view, carry) if see else None
        values, carry = self.run(Passage(mask.align(x), carry, lengths, impulse, earlier))
        y = values["hidden"]
        if impulse is not None:  # in the open, the lower layers' stand before the last one's
            y = y[..., -self.directions * self.size :]
        if isinstance(state, RecurrentState):
            state.carry = carry
            if earlier is not None:
                state.earlier = mask.take_last(torch.cat((earlier, y), 1), earlier.shape[1])
            state.advance(mask)
        return self.report(values, view) if see else mask.restore(y)

    def ask_impulse(self, view: View, carry: Carry) -> Tensor | None:
        """What to add to the hidden vectors: (batch, time, layers * directions * size); None: nothing need be open."""
        # the fused kernel gives the last layer's hidden vectors anyway
        see = view.watcher(self.path, *(self.names if self.spec.layers > 1 else self.names[1:]))
        if see is None:
            return None
        rows, layers, size = carry[0].shape
        impulse = see("impulse", carry[0].new_zeros(rows, layers, view.mask.time, size))
        return view.mask.align(impulse.transpose(1, 2).flatten(2))

    def report(self, values: Values, view: View) -> Tensor:
        """Show what was computed; the output is what became of the last layer's hidden vectors."""
        seen = {
            name: view.mask.restore(value).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for name, value in values.items()
        }
        hidden = view.see(self.path, "hidden", seen.pop("hidden"))
        for name, value in seen.items():
            show(view, self.path, name, value)
        return hidden[:, -self.directions :].transpose(1, 2).flatten(2)

    def run(self, given: Passage) -> tuple[Values, Carry]:
        """All positions, in the direction that the spec names."""
        if self.spec.direction == "backward":
            return self.run_back(self.cell, given)
        if self.other is None:
            return self.unroll(self.cell, given)
        ahead, back = given.part(apart=self.spec.direction == "apart", size=self.size)
        values, carry = self.unroll(self.cell, ahead)
        others, ending = self.run_back(self.other, back)
        pieces = (torch.stack(both, 2).flatten(1, 2) for both in zip(carry, ending, strict=True))
        return {name: self.interleave(value, others[name]) for name, value in values.items()}, tuple(pieces)

    def run_back(self, cell: Cell, given: Passage) -> tuple[Values, Carry]:
        values, carry = self.unroll(cell, given.turn())
        return {name: reverse(value, given.lengths) for name, value in values.items()}, carry

    def interleave(self, ahead: Tensor, back: Tensor) -> Tensor:
        """The directions of a layer side by side, as torch has them where both are one cell's."""
        layers = (value.unflatten(-1, (-1, self.size)) for value in (ahead, back))
        return torch.stack(list(layers), 3).flatten(2)  # (rows, time, layers * directions * size)

    def unroll(self, cell: Cell, given: Passage) -> tuple[Values, Carry]:
        """All positions through a cell. With a skip, as many at once as it reaches back: what they need is known."""
        skip, x, carry, lengths = self.spec.skip, given.x, given.carry, given.lengths
        if skip is None:
            return self.call(cell, x, carry, lengths, given.impulse)
        recent = carry[0].new_zeros(x.shape[0], skip, self.size) if given.earlier is None else given.earlier
        chunks: list[Values] = []
        for begin in range(0, x.shape[1], skip):
            chunk = x[:, begin : begin + skip]
            ends = None if lengths is None else (lengths - begin).clamp(0, chunk.shape[1])
            impulse = None if given.impulse is None else given.impulse[:, begin : begin + skip]
            chunk = torch.cat((chunk, recent[:, : chunk.shape[1]]), -1)
            values, carry = self.call(cell, chunk, carry, ends, impulse)
            recent = values["hidden"][..., -self.size :]
            chunks.append(values)
        return {name: torch.cat([values[name] for values in chunks], 1) for name in chunks[0]}, carry

    @staticmethod
    def call(
        cell: Cell, x: Tensor, carry: Carry, lengths: Tensor | None, impulse: Tensor | None
    ) -> tuple[Values, Carry]:
        """The fused kernel, which gives the last layer alone; or all of it in the open."""
        if impulse is not None:
            return cell.openly(x, carry, lengths, impulse)
        y, carry = cell(x, carry, lengths)
        return {"hidden": y}, carry

    def first(self, rows: int, view: View) -> Carry:
        carry = self.bridge(rows, view, self.path)
        return carry if self.other is None else tuple(piece.repeat_interleave(2, 1) for piece in carry)

    def start(self, rows: int, view: View) -> State:
        skip = self.spec.skip if self.causal else None  # who doesn't step looks back to nothing
        earlier = None if skip is None else view.zeros(rows, skip, self.size)
        return RecurrentState(carry=self.first(rows, view), directions=self.directions, earlier=earlier)
