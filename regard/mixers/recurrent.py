"""Recurrence: one vector carried from position to position (Elman 1990; LSTM 1997; GRU 2014), in either direction.

A whole sequence runs through torch's fused kernel, and so does a step. Pads are packed away, so each row ends at its
own last token.

Cost: time O(n), one position after the other; state O(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mask import Mask, average
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Rate, Size, divides
from regard.core.state import State
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.cell import Carry, Cell, Kind

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
    dropout: Rate = 0.0
    """This share is dropped between layers while training."""

    def memory_width(self, width: int) -> int | None:
        return None if self.start == "zeros" else width

    def both_ways(self) -> Self:
        return self.replace(direction="both")

    def build(self, width: int) -> Mixer:
        if self.direction in ("both", "apart"):
            divides(2, width, "directions", "width", fixed=True)
        if self.over_memory and self.direction != "forward":
            raise SpecError(
                f"start: {self.start} is for a decoder, and direction {self.direction} is not", "start=zeros"
            )
        return Recurrence(self, width)


@dataclass
class RecurrentState(State):
    """The last hidden vector of each layer and direction, and for an LSTM its cell."""

    carry: Carry
    directions: int = 1

    def summary(self) -> Tensor:
        """(rows, pieces, layers, width), the directions of a layer side by side."""
        stacked = torch.stack(self.carry, 1)  # (rows, pieces, layers * directions, size)
        return stacked.unflatten(2, (-1, self.directions)).flatten(3)


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
    names = ("hidden",)
    leaves_final = True

    def __init__(self, spec: Recurrent, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.causal = spec.direction == "forward"
        self.directions = 2 if spec.direction in ("both", "apart") else 1
        size = width // self.directions
        apart = spec.direction == "apart"
        inputs = size if apart else width
        both = spec.direction == "both"
        self.cell = Cell(spec.cell, inputs, size, spec.layers, both, spec.dropout)
        self.other = Cell(spec.cell, inputs, size, spec.layers, False, spec.dropout) if apart else None
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
        y, carry = self.run(mask.align(x), carry, lengths, mask)
        y = mask.restore(y)
        if isinstance(state, RecurrentState):
            state.carry = carry
            state.advance(mask)
        see = view.watcher(self.path, *self.names)
        return see("hidden", y) if see else y

    def run(self, x: Tensor, carry: Carry, lengths: Tensor | None, mask: Mask) -> tuple[Tensor, Carry]:
        """All positions, in the direction that the spec names; real tokens come first."""
        if self.spec.direction == "backward":
            y, carry = self.cell(reverse(x, lengths), carry, lengths)
            return reverse(y, lengths), carry
        if self.other is None:
            return self.cell(x, carry, lengths)
        left, right = x.chunk(2, -1)
        # the directions of a layer stand side by side, as torch has them where both are one cell's
        ahead, back = (tuple(piece[:, side::2] for piece in carry) for side in (0, 1))
        y, ahead = self.cell(left, ahead, lengths)
        z, back = self.other(reverse(right, lengths), back, lengths)
        joined = tuple(torch.stack(pieces, 2).flatten(1, 2) for pieces in zip(ahead, back, strict=True))
        return torch.cat((y, reverse(z, lengths)), -1), joined

    def first(self, rows: int, view: View) -> Carry:
        carry = self.bridge(rows, view, self.path)
        return carry if self.other is None else tuple(piece.repeat_interleave(2, 1) for piece in carry)

    def start(self, rows: int, view: View) -> State:
        return RecurrentState(carry=self.first(rows, view), directions=self.directions)


def reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn each row's real tokens round; pads stay last."""
    if lengths is None:
        return x.flip(1)
    index = torch.arange(x.shape[1], device=x.device)[None]
    turned = torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)
    return x.gather(1, turned[..., None].expand_as(x))
