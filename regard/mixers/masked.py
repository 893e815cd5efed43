"""Masked convolution: a place sees its neighbours above and to its left (PixelCNN, van den Oord et al. 2016).

Mask A is for the first layer of a model that predicts pixels: there, slot t holds value t - 1, and the convolution
makes up for that, so that a place sees exactly the values around its own that come before it. What begins a picture
stands left of its first place. Mask B is for all other layers: a place sees itself, too. Where a place has several
channels, each sees the earlier ones of its own place, and all of other places.

With `hidden` it is the paper's residual block: relu, narrow, relu, convolution, relu, widen. Layers on each other leave
a blind spot above and to the right, as the paper's do.

Cost: time O(n · kernel²), all positions at once; state O(kernel · columns).
"""

from __future__ import annotations

from functools import cache
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mixer import Mixer
from regard.core.spec import Size
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.raster import History, PlaneMixer, PlaneSpec, list_groups, pick_places, push, take_last


class Masked(PlaneSpec):
    """How large the neighbourhood is, whether a place is its own neighbour, and what becomes of the sum."""

    kind: Literal["masked"] = "masked"
    kernel: Size = 3
    """A neighbourhood is a square with sides of this many places, of which what comes later is left out."""
    mask: Literal["A", "B"] = "B"
    """A: for the first layer, where a slot holds the value before its place. B: a place sees itself, too."""
    hidden: Size | None = None
    """The convolution has this many channels, between two projections; unless given, as many as the model, and none."""
    inputs: Size | None = None
    """The convolution reads this many channels, to which a projection brings what comes in; unless given, all of them.
    """
    gated: bool = False
    """Half of the sums open or close the other half (van den Oord et al. 2016 b); without, what is negative is dropped.
    """

    def relevel(self, before: int, after: int, width: int) -> Self:
        if self.mask == "B" or self.inputs != count_inputs(before, width):
            return self  # what somebody chose stays
        return self.replace(inputs=count_inputs(after, width))

    def build(self, width: int) -> Mixer:
        if self.kernel % 2 == 0:
            raise SpecError(f"kernel: {self.kernel} has no middle", f"kernel={self.kernel + 1}")
        if self.hidden is not None and self.inputs is not None:
            raise SpecError(f"inputs: hidden {self.hidden} says how much is read, and not {self.inputs}", "inputs=none")
        if self.kernel == 1:
            raise SpecError("kernel: 1 sees no neighbour, so it would mix nothing", "kernel=3, or ffn=feedforward")
        return MaskedConvolution(self, width)


def count_inputs(levels: int, width: int) -> int | None:
    """How many channels a first convolution reads, being the largest layer: few tell few values apart; None: all."""
    return levels if levels < width else None


class MaskedConvolution(PlaneMixer):
    def __init__(self, spec: Masked, width: int) -> None:
        super().__init__(spec)
        self.first, self.gated, self.reach = spec.mask == "A", spec.gated, spec.kernel // 2
        self.size = spec.hidden or width
        self.reads = spec.inputs or self.size
        self.narrow = Dense(width, self.reads) if spec.hidden or spec.inputs else None
        self.sums = self.size * (1 + spec.gated)
        shape = (self.channels * self.sums, self.channels * self.reads, self.reach + 1, spec.kernel)
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.zeros(shape[0]))
        self.widen = Dense(self.size, width) if spec.hidden else None
        self.reset()

    def reset(self) -> None:
        """Such that the sums keep their size through a relu."""
        places = self.reach * self.weight.shape[-1] + self.reach + (not self.first)
        nn.init.normal_(self.weight, std=(2.0 / (places * self.weight.shape[1])) ** 0.5)
        nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        """The weights, with zeros for what comes later."""
        return self.weight * show_earlier(self.channels, self.sums, self.reads, self.reach, self.first).to(self.weight)

    def enter(self, x: Tensor) -> Tensor:
        if self.narrow is None:
            return x
        return self.narrow(x) if self.widen is None else F.relu(self.narrow(F.relu(x)))

    def leave(self, hidden: Tensor) -> Tensor:
        if self.gated:
            value, gate = hidden.chunk(2, -1)
            hidden = value.tanh() * gate.sigmoid()
        else:
            hidden = F.relu(hidden)
        return hidden if self.widen is None else self.widen(hidden)

    def sweep(self, x: Tensor, columns: int) -> Tensor:
        reach, time = self.reach, x.shape[1]
        if not time:
            return x.new_zeros(x.shape[0], 0, self.sums)
        values = F.pad(x[:, 1:], (0, 0, 0, 1)) if self.first else x
        plane = F.pad(self.fold(values, columns), (0, 0, reach, reach, reach, 0))
        if self.first:
            plane[:, reach, reach - 1, -self.reads :] = x[:, 0]  # what begins a picture
        # channels are last in memory and stay there: neither the convolution nor we copy
        sums = F.conv2d(plane.permute(0, 3, 1, 2), self.matrix(), self.bias)
        return self.unfold(sums.permute(0, 2, 3, 1), time)

    def keep(self, x: Tensor, columns: int) -> tuple[Tensor, History]:
        return self.sweep(x, columns), (take_last(x, self.extent(columns)),)

    def extent(self, columns: int) -> int:
        """How many positions it looks back, those of its own place among them."""
        return (self.reach * (columns + 1) + 1) * self.channels

    def blank(self, rows: int, columns: int, view: View) -> History:
        return (view.zeros(rows, self.extent(columns), self.reads),)

    def step(self, x: Tensor, history: History, at: int, columns: int) -> tuple[Tensor, History]:
        tail = push(history[0], x)
        place, channel = divmod(at, self.channels)
        own = channel if self.first else channel + 1  # positions of the place itself that are there
        before = tail[:, tail.shape[1] - own - self.reach * (columns + 1) * self.channels : tail.shape[1] - own]
        places = before.unflatten(1, (-1, self.channels)).flatten(2)  # (rows, places, channels · size)
        row, column = divmod(place, columns)
        taps = list_taps(min(row, self.reach + 1), column, columns, self.reach, self.first)
        seen = pick_places(torch.cat((places, self.gather(tail, own)[:, None]), 1), taps)
        mine = slice(channel * self.sums, (channel + 1) * self.sums)
        weight = self.matrix()[mine].permute(0, 2, 3, 1).flatten(1)  # as the taps lie
        return F.linear(seen.to(x.dtype), weight, self.bias[mine]), (tail,)


@cache
def show_earlier(channels: int, outputs: int, inputs: int, reach: int, first: bool) -> Tensor:
    """Which weights of a kernel see what comes earlier: (channels · outputs, channels · inputs, up, across), 1 or 0."""
    seen = torch.ones(channels * outputs, channels * inputs, reach + 1, 2 * reach + 1, device="cpu")
    seen[:, :, -1, reach:] = 0.0
    seen[:, :, -1, reach] = list_groups(channels, outputs, inputs, strict=first)
    return seen


@cache
def list_taps(row: int, column: int, columns: int, reach: int, first: bool) -> tuple[int | None, ...]:
    """Where a kernel's places stand among the last ones, the place itself at the end; None: outside, or later."""
    count = reach * (columns + 1)
    taps = list[int | None]()
    for up in range(reach, -1, -1):
        for across in range(-reach, reach + 1):
            inside = up <= row and 0 <= column + across < columns
            corner = first and up == row and column + across == -1  # where the beginning stands
            earlier = (up > 0 or across <= 0) and (inside or corner)
            taps.append(count - (up * columns - across) if earlier else None)
    return tuple(taps)
