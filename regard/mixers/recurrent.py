"""Recurrence: one vector carried from position to position (Elman 1990; LSTM 1997; GRU 2014), in either direction.

A whole sequence runs through torch's fused kernel, and so does a step. Pads are packed away, so each row ends at its
own last token. A skip connection in time gives a step the output of k steps ago too, so that a gradient reaches far
back in few steps (Lin et al. 1996; Zhang et al. 2016).

Cost: time O(n), one position after the other; state O(1).
"""

from __future__ import annotations

from dataclasses import dataclass
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
        y, carry = self.run(mask.align(x), carry, lengths, earlier)
        if isinstance(state, RecurrentState):
            state.carry = carry
            if earlier is not None:
                state.earlier = mask.take_last(torch.cat((earlier, y), 1), earlier.shape[1])
            state.advance(mask)
        y = mask.restore(y)
        see = view.watcher(self.path, *self.names)
        return see("hidden", y) if see else y

    def run(self, x: Tensor, carry: Carry, lengths: Tensor | None, earlier: Tensor | None) -> tuple[Tensor, Carry]:
        """All positions, in the direction that the spec names; real tokens come first."""
        if self.spec.direction == "backward":
            y, carry = self.unroll(self.cell, reverse(x, lengths), carry, lengths)
            return reverse(y, lengths), carry
        if self.other is None:
            return self.unroll(self.cell, x, carry, lengths, earlier)
        left, right = x.chunk(2, -1) if self.spec.direction == "apart" else (x, x)
        # the directions of a layer stand side by side, as torch has them where both are one cell's
        ahead, back = (tuple(piece[:, side::2] for piece in carry) for side in (0, 1))
        y, ahead = self.unroll(self.cell, left, ahead, lengths)
        z, back = self.unroll(self.other, reverse(right, lengths), back, lengths)
        joined = tuple(torch.stack(pieces, 2).flatten(1, 2) for pieces in zip(ahead, back, strict=True))
        return torch.cat((y, reverse(z, lengths)), -1), joined

    def unroll(
        self, cell: Cell, x: Tensor, carry: Carry, lengths: Tensor | None, earlier: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        """All positions through a cell. With a skip, as many at once as it reaches back: what they need is known."""
        skip = self.spec.skip
        if skip is None:
            return cell(x, carry, lengths)
        recent = carry[0].new_zeros(x.shape[0], skip, self.size) if earlier is None else earlier
        outputs = []
        for begin in range(0, x.shape[1], skip):
            chunk = x[:, begin : begin + skip]
            ends = None if lengths is None else (lengths - begin).clamp(0, chunk.shape[1])
            recent, carry = cell(torch.cat((chunk, recent[:, : chunk.shape[1]]), -1), carry, ends)
            outputs.append(recent)
        return torch.cat(outputs, 1), carry

    def first(self, rows: int, view: View) -> Carry:
        carry = self.bridge(rows, view, self.path)
        return carry if self.other is None else tuple(piece.repeat_interleave(2, 1) for piece in carry)

    def start(self, rows: int, view: View) -> State:
        skip = self.spec.skip if self.causal else None  # who doesn't step looks back to nothing
        earlier = None if skip is None else view.zeros(rows, skip, self.size)
        return RecurrentState(carry=self.first(rows, view), directions=self.directions, earlier=earlier)


def reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn each row's real tokens round; pads stay last."""
    if lengths is None:
        return x.flip(1)
    index = torch.arange(x.shape[1], device=x.device)[None]
    turned = torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)
    return x.gather(1, turned[..., None].expand_as(x))
