"""A wave: an LSTM that runs over a plane, front after front, where a place hears several places of the front before it.

Rows from top to bottom are fronts, and so are diagonals. All places of a front, all pictures and all directions make
one step together. The backward pass is written out: a step is so small that a graph of its operations would cost more
than they do, and the weights' gradient becomes one product over all places.

Places lie in the order of the fronts, pictures side by side: (directions, places, batch, …).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Hearing(NamedTuple):
    """Places of a front that hear places of the front before it, one each."""

    source: int  # the first that is heard, counted in the front before
    target: int  # the first that hears
    length: int

    @property
    def heard(self) -> slice:
        return slice(self.source, self.source + self.length)

    @property
    def hears(self) -> slice:
        return slice(self.target, self.target + self.length)


@dataclass(frozen=True)
class Route:
    """How a wave runs: for each front its taps, of which one also hands on the cell, and which places it holds."""

    sizes: tuple[int, ...]
    taps: tuple[tuple[Hearing, ...], ...]  # of each front, to the one before it; those of the first are empty
    order: tuple[int, ...]  # the places of a picture, row by row, as the fronts have them
    keeper: int  # the tap that the cell comes through


@cache
def run_rows(rows: int, columns: int, reach: int) -> Route:
    """A front is a row; a place hears those above it, `reach` to each side, and has the cell of the middle one."""
    offsets = range(-reach, reach + 1)
    taps = tuple(Hearing(max(0, offset), max(0, -offset), max(0, columns - abs(offset))) for offset in offsets)
    none = tuple(Hearing(0, 0, 0) for _ in taps)
    return Route((columns,) * rows, (none, *(taps,) * (rows - 1)), tuple(range(rows * columns)), reach)


@cache
def run_diagonals(rows: int, columns: int, mirrored: bool = False) -> Route:
    """A front is a diagonal; a place hears the one beside it, from which it has its cell, and the one above it."""
    sizes, taps, order = [], [], []
    before = range(0)
    for number in range(rows + columns - 1):
        front = range(max(0, number - columns + 1), min(rows, number + 1))  # the rows that it passes
        found = []
        for offset in (0, -1):  # the same row, the row above
            hears = range(max(front.start, before.start - offset), min(front.stop, before.stop - offset))
            found.append(Hearing(hears.start + offset - before.start, hears.start - front.start, max(0, len(hears))))
        sizes.append(len(front))
        taps.append(tuple(found))
        for row in front:
            column = number - row
            order.append(row * columns + (columns - 1 - column if mirrored else column))
        before = front
    return Route(tuple(sizes), tuple(taps), tuple(order), 0)


class Wave(torch.autograd.Function):
    """i, f, o, s = σ(W [x; h of each tap] + b), g = 2s - 1; c = f c' + i g; h = o tanh(c), c' the keeper's cell.

    x: what places see, (directions, places, batch, inputs). `weight`: (directions, inputs + taps · size, 4 · size).
    What comes out is h and c, (directions, places, batch, size). An LSTM's g is tanh(a), and that is 2 σ(2a) - 1, so
    whoever calls doubles the weights of g: one sigmoid over all that lies side by side takes half of the time of a tanh
    over a quarter of it. What is kept for the backward pass is most of the cost, so there is no more than it needs.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, route: Route) -> tuple[Tensor, Tensor]:
        directions, places, batch, inputs = x.shape
        size, sizes = weight.shape[-1] // 4, route.sizes
        heard = x.new_empty(directions, places, batch, weight.shape[1])
        heard[..., :inputs] = x
        gates = x.new_empty(directions, places, batch, 4 * size)
        hidden, cell, shown, fresh = (x.new_empty(directions, places, batch, size) for _ in range(4))
        flat = [batch * count for count in sizes]
        sources, sums = (part.flatten(1, 2).split(flat, 1) for part in (heard, gates))
        enter, forget, leave, half = (part.split(sizes, 1) for part in gates.chunk(4, -1))
        taps = [part.split(sizes, 1) for part in heard[..., inputs:].split(size, -1)]
        hiddens, cells, shows, news = (part.split(sizes, 1) for part in (hidden, cell, shown, fresh))
        for front, count in enumerate(sizes):
            for tap, part in zip(route.taps[front], taps, strict=True):
                if tap.length < count:
                    part[front][:, : tap.target].zero_()
                    part[front][:, tap.target + tap.length :].zero_()
                if tap.length:
                    part[front][:, tap.hears].copy_(hiddens[front - 1][:, tap.heard])
            torch.baddbmm(bias, sources[front], weight, out=sums[front]).sigmoid_()
            new = torch.mul(half[front], 2, out=news[front]).sub_(1)
            now = cells[front]
            keeper = route.taps[front][route.keeper]
            if keeper.length < count:
                now.zero_()
            if keeper.length:
                kept = cells[front - 1][:, keeper.heard]
                torch.mul(forget[front][:, keeper.hears], kept, out=now[:, keeper.hears])
            now.addcmul_(enter[front], new)
            seen = torch.mul(now, 2, out=shows[front]).sigmoid_().mul_(2).sub_(1)  # tanh
            torch.mul(leave[front], seen, out=hiddens[front])
        ctx.route = route
        ctx.save_for_backward(weight, gates, heard, cell, shown, fresh)
        ctx.set_materialize_grads(False)  # the cell is read only where a state goes on
        return hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor | None, after: Tensor | None) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, gates, heard, cell, shown, fresh = ctx.saved_tensors
        route: Route = ctx.route
        batch, size, sizes = gates.shape[2], cell.shape[-1], route.sizes
        # what later places say is added to these
        slope, carried = (
            torch.zeros_like(cell) if x is None else x.clone(memory_format=torch.contiguous_format)
            for x in (slope, after)
        )
        found = torch.empty_like(gates)
        inputs = weight.shape[1] - len(route.taps[0]) * size
        back = weight.mT[..., inputs:].contiguous()
        flat = [batch * count for count in sizes]
        smooth, sums = (x.flatten(1, 2).split(flat, 1) for x in (gates, found))
        enter, forget, leave, _ = (part.split(sizes, 1) for part in gates.chunk(4, -1))
        at_enter, at_forget, at_leave, at_half = (part.split(sizes, 1) for part in found.chunk(4, -1))
        slopes, cells, shows, news, carries = (x.split(sizes, 1) for x in (slope, cell, shown, fresh, carried))
        for front in reversed(range(len(sizes))):
            here, now, seen = slopes[front], carries[front], shows[front]
            torch.mul(here, seen, out=at_leave[front])
            now.add_(torch.ops.aten.tanh_backward(here * leave[front], seen))
            torch.mul(now, news[front], out=at_enter[front])
            torch.mul(now, enter[front], out=at_half[front]).mul_(2)
            keeper = route.taps[front][route.keeper]
            if keeper.length < sizes[front]:
                at_forget[front].zero_()
            if keeper.length:
                mine = now[:, keeper.hears]
                torch.mul(mine, cells[front - 1][:, keeper.heard], out=at_forget[front][:, keeper.hears])
                carries[front - 1][:, keeper.heard].addcmul_(mine, forget[front][:, keeper.hears])
            torch.ops.aten.sigmoid_backward(sums[front], smooth[front], grad_input=sums[front])
            if front:
                said = torch.bmm(sums[front], back).unflatten(1, (sizes[front], batch))
                for tap, part in zip(route.taps[front], said.split(size, -1), strict=True):
                    slopes[front - 1][:, tap.heard].add_(part[:, tap.hears])
        flow = found.flatten(1, 2)  # (directions, places · batch, 4 · size)
        to_input = (flow @ weight[:, :inputs].mT).unflatten(1, gates.shape[1:3])
        return to_input, heard.flatten(1, 2).mT @ flow, flow.sum(1, keepdim=True), None


def run_wave(seen: Tensor, weight: Tensor, bias: Tensor, recurrent: Tensor, route: Route) -> tuple[Tensor, Tensor]:
    """A wave over what places see, (directions, places, batch, inputs), in their order: hidden vectors and cells."""
    size = weight.shape[-1] // 4
    twice = weight.new_ones(4 * size)
    twice[3 * size :] = 2.0  # see `Wave`
    both = torch.cat((weight, recurrent), 1) * twice
    return Wave.apply(seen, both, bias * twice, route)


def tick(given: Tensor, heard: Tensor, weight: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One place of a wave: (directions, batch, …), as in `Wave`; its h and c."""
    enter, forget, leave, fresh = torch.baddbmm(given, heard, weight).chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * fresh.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def start_gates(given: Tensor, heard: Tensor, bias: Tensor) -> None:
    """First weights of a wave, (…, inputs, 4 · size): sums as large as one input, and an open forget gate."""
    size = bias.shape[-1] // 4
    nn.init.normal_(given, std=given.shape[-2] ** -0.5)
    nn.init.normal_(heard, std=heard.shape[-2] ** -0.5)
    nn.init.zeros_(bias)
    nn.init.ones_(bias[..., size : 2 * size])
