"""Mixers that are wrong on purpose, each in one way, beside the right ones that they were made from.

A user could have written any of them: the faults are those that people make. `test_gallery.py` says which law finds
which. The command line takes them, too: `regard laws tests/laws/gallery.py:OffByOne`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.mask import average
from regard.core.mixer import Mixer
from regard.core.selection import Selection
from regard.core.slots import Slots
from regard.core.state import Move, State
from regard.core.view import View


@dataclass
class Total(State):
    """A decayed sum of all that came before: (rows, width)."""

    total: Tensor


class Average(Mixer):
    """Right: s_t = 0.9 s_{t-1} + v_t, one position after the other; a pad moves nothing."""

    names = ("sums",)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        past = state if isinstance(state, Total) else None
        value, sums = self.value(x), []
        total = value.new_zeros(value[:, 0].shape) if past is None else past.total
        for time in range(x.shape[1]):
            total = self.move(total, value[:, time], None if view.mask.valid is None else view.mask.valid[:, time])
            sums.append(total)
        if past is not None:
            self.remember(past, total, torch.stack(sums, 1), view)
        return self.read(torch.stack(sums, 1), view)

    def move(self, total: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        moved = 0.9 * total + value
        return moved if real is None else torch.where(real[:, None], moved, total)

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        state.total = total
        state.advance(view.mask)

    def read(self, sums: Tensor, view: View) -> Tensor:
        see = view.watcher(self.path, *self.names)
        result: Tensor = self.output(sums if see is None else see("sums", sums))
        return result

    def start(self, rows: int, view: View) -> State | None:
        return Total(view.zeros(rows, self.value.out_features))


class Looking(Mixer):
    """Right: causal attention with one head and rotary positions."""

    names: tuple[str, ...] = ("weights",)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        query, key = (self.turn(part(x), view) for part in (self.query, self.key))
        value = self.value(x)
        if isinstance(state, Slots):
            seen = state.extend((key[:, None], value[:, None]), view.mask)
            (key, value), allowed = (tensor[:, 0] for tensor in seen.tensors), seen.allowed
            allowed = None if allowed is None else allowed[:, 0]
        else:
            allowed = self.allow(view)
        scores = query @ key.mT / math.sqrt(x.shape[-1])  # (rows, queries, keys)
        # far below all others and yet finite: a pad that sees nothing must not become NaN
        weights = self.weigh(scores if allowed is None else scores.masked_fill(~allowed, -1e9))
        see = view.watcher(self.path, *self.names)
        if see is not None:
            weights = self.show(weights, see)
        result: Tensor = self.output(weights @ value)
        return result

    def allow(self, view: View) -> Tensor | None:
        """Who may look at whom: (1 or rows, queries, keys)."""
        table = view.mask.table(True, None, explicit=True)
        return None if table is None else table[:, 0]

    def turn(self, x: Tensor, view: View) -> Tensor:
        """Rotate pairs of channels by an angle that grows with the position."""
        angle = self.places(view).to(x.dtype)[..., None] * 0.5 ** torch.arange(x.shape[-1] // 2, dtype=x.dtype)
        left, right = x.chunk(2, -1)
        return torch.cat((left * angle.cos() - right * angle.sin(), left * angle.sin() + right * angle.cos()), -1)

    def places(self, view: View) -> Tensor:
        return view.positions

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def show(self, weights: Tensor, see: Any) -> Tensor:
        shown: Tensor = see("weights", weights[:, None])[:, 0]
        return shown

    def start(self, rows: int, view: View) -> State | None:
        width = self.key.out_features
        return Slots(tensors=(view.zeros(rows, 1, 1, width), view.zeros(rows, 1, 1, width)))


RIGHT = [Average, Looking]


class OffByOne(Looking):
    """The mask lets each position see the next one."""

    def allow(self, view: View) -> Tensor | None:
        seen = torch.ones(view.mask.time, view.mask.time, dtype=torch.bool).tril(1)[None]
        return seen if view.mask.valid is None else seen & view.mask.valid[:, None, :]


class CallsItASet(Average):
    """It says that it sees no order, and a sum that decays does."""

    ordered = False


class MovesOnPads(Average):
    """A whole run leaves pads out; what is remembered moves on them all the same."""

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        pads = 0 if view.mask.valid is None else (~view.mask.valid).sum(1, keepdim=True)
        state.total = total * 0.9**pads
        state.advance(view.mask)


class ReadsPads(Average):
    """Pads are summed up as if they were real."""

    def move(self, total: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        return 0.9 * total + value


class WrongAxis(Looking):
    """The softmax runs over the queries, and not over the keys."""

    causal = False

    def allow(self, view: View) -> Tensor | None:
        table = view.mask.table(False, None, explicit=True)
        return None if table is None else table[:, 0]

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)

    def start(self, rows: int, view: View) -> State | None:
        return None


@dataclass
class Heap(State):
    """A sum in a list, where no state looks for tensors."""

    sums: list[Tensor] = field(default_factory=list)


class IgnoresSelect(Average):
    """The cache is kept where selecting rows doesn't reach it."""

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        if not isinstance(state, Heap):
            return super().forward(x, view, state)
        inner = Total(state.sums[0], length=state.length, lengths=state.lengths)
        y = super().forward(x, view, inner)
        state.sums[0] = inner.total
        state.advance(view.mask)
        return y

    def start(self, rows: int, view: View) -> State | None:
        return Heap([view.zeros(rows, self.value.out_features)])


class CacheOnModule(Average):
    """What it remembers is kept on the module, where there is one for all states."""

    total: Tensor

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        if isinstance(state, Total):
            state.total = self.total
        y = super().forward(x, view, state)
        if isinstance(state, Total):
            self.total = state.total
        return y

    def start(self, rows: int, view: View) -> State | None:
        self.total = view.zeros(rows, self.value.out_features)
        return super().start(rows, view)


class RestartingPositions(Looking):
    """Rotary angles begin anew in each chunk."""

    def places(self, view: View) -> Tensor:
        return torch.arange(view.mask.time)[None]


class ChangedByLooking(Looking):
    """The path that shows weights rounds them."""

    def show(self, weights: Tensor, see: Any) -> Tensor:
        return super().show(weights, see).to(torch.bfloat16).to(weights.dtype)


class Undeclared(Looking):
    """It reports a name that it doesn't declare."""

    def show(self, weights: Tensor, see: Any) -> Tensor:
        see("scores", weights)
        return super().show(weights, see)


class Silent(Looking):
    """It declares a name that it never reports."""

    names = ("weights", "scores")


class DetachesSteps(Average):
    """What is remembered has lost its graph."""

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        super().remember(state, total.detach(), sums, view)


class LeakyDocuments(Looking):
    """It says that it keeps packed documents apart by the mask's table, and makes a table of its own."""

    packs = True

    def allow(self, view: View) -> Tensor | None:
        seen = torch.ones(view.mask.time, view.mask.time, dtype=torch.bool).tril()[None]
        return seen if view.mask.valid is None else seen & view.mask.valid[:, None, :]


class SingleState(Average):
    """What is remembered is in single precision, whatever the model is in."""

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        y = super().forward(x, view, state)
        if isinstance(state, Total):
            state.total = state.total.float()
        return y.to(x.dtype)

    def move(self, total: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        return super().move(total.to(value.dtype), value, real)

    def start(self, rows: int, view: View) -> State | None:
        return Total(view.zeros(rows, self.value.out_features, dtype=torch.float32))


class BatchStatistics(Average):
    """It subtracts the mean of the batch."""

    def read(self, sums: Tensor, view: View) -> Tensor:
        y = super().read(sums, view)
        return y - y.mean(0, keepdim=True)


class DropoutLeftOn(Average):
    """Dropout that doesn't ask whether the model learns."""

    def read(self, sums: Tensor, view: View) -> Tensor:
        return super().read(F.dropout(sums, 0.1, training=True), view)


class Uncounted(Average):
    """It never tells its state how far it is."""

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        state.total = total


class Forgetful(Average):
    """It remembers nothing, and doesn't say that it needs nothing."""

    def start(self, rows: int, view: View) -> State | None:
        return None


class Doubled(torch.autograd.Function):
    """The identity, with a gradient that is twice too large."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return 2 * grads[0]


class WrongGradient(Average):
    """A backward of its own that doesn't belong to its forward."""

    def read(self, sums: Tensor, view: View) -> Tensor:
        doubled: Tensor = Doubled.apply(sums)
        return super().read(doubled, view)


class LearnsFromLater(Average):
    """What it gives is right, and yet its gradient comes from all positions; it says itself that it estimates."""

    estimates = True

    def read(self, sums: Tensor, view: View) -> Tensor:
        mean = average(sums, view.mask.valid)[:, None]
        return super().read(sums + (mean - mean.detach()), view)


class CountsCalls(Average):
    """In training it does another thing every time that it is called."""

    calls = 0

    def read(self, sums: Tensor, view: View) -> Tensor:
        self.calls += self.training
        return super().read(sums, view) * (1 + self.calls % 3)


@dataclass
class Careless(Total):
    """A sum that says it can forget its last positions."""

    def rewindable(self, length: int) -> bool:
        return True


class RewindsWrongly(Average):
    """It says that it can rewind, and only its count does."""

    def start(self, rows: int, view: View) -> State | None:
        return Careless(view.zeros(rows, self.value.out_features))


@dataclass
class Timed(Total):
    """A sum that counts steps beside its positions, one number for all rows."""

    steps: int = 0


class Unjoinable(Average):
    """What it counts by itself tells states apart that could stand side by side."""

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        super().remember(state, total, sums, view)
        if isinstance(state, Timed):
            state.steps += view.mask.time

    def start(self, rows: int, view: View) -> State | None:
        return Timed(view.zeros(rows, self.value.out_features))


class DeadWeight(Average):
    """A matrix that nothing is multiplied by."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.gate = nn.Linear(width, width)


class IdleRowsMove(Average):
    """A row without a real token in a chunk takes its first pad for one."""

    def remember(self, state: Total, total: Tensor, sums: Tensor, view: View) -> None:
        if view.mask.valid is not None:
            idle = (view.mask.counts == 0) & (torch.as_tensor(view.mask.past) > 0)
            total = torch.where(idle[:, None], 0.9 * total, total)
        super().remember(state, total, sums, view)


@dataclass
class Sticky(Total):
    """A sum that stays where it is if its rows are moved."""

    def map(self, fn: Move) -> Self:
        moved = super().map(fn)
        if isinstance(fn, Selection) and moved.total.shape == self.total.shape:
            moved.total = self.total
        return moved


class StaysAtReordering(Average):
    """Its rows are repeated and dropped, but not re-ordered."""

    def start(self, rows: int, view: View) -> State | None:
        return Sticky(view.zeros(rows, self.value.out_features))


class Plain(nn.Module):
    """A plain module that is right: a causal mean, and a matrix."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
        y: Tensor = self.inner(x.cumsum(1) / count)
        return y


class PlainMean(Plain):
    """It subtracts the mean over time, which knows the future."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - x.mean(1, keepdim=True)


class PlainBatch(Plain):
    """It subtracts the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - x.mean(0, keepdim=True)


class PlainLength(Plain):
    """It divides by the length of the row, pads and all."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / x.shape[1]


class PlainSingle(Plain):
    """It computes in single precision, and gives that back."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class PlainTable(Plain):
    """It has a vector for each of ten positions, and no more and no less."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.table = nn.Parameter(torch.randn(10, width))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.table)
