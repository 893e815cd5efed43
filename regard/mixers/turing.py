"""The Neural Turing Machine: a recurrent controller that reads and writes by soft addresses (Graves et al. 2014).

A head looks for a key by content, keeps or drops that in favour of where it stood before, shifts, and sharpens.

Cost: time O(n · slots), one position after the other; state O(slots · size).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec, Part
from regard.core.probe import See
from regard.core.spec import Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.cell import SIGHTS, Carry, Cell, Kind, Watched


class Turing(MixerSpec):
    """The memory's size, the heads, and the controller."""

    kind: Literal["turing"] = "turing"
    slots: Size = 128
    """The memory has this many slots."""
    size: Size = 20
    """A slot holds this many numbers."""
    reads: Size = 1
    """There are this many heads that read."""
    writes: Size = 1
    """There are this many heads that write."""
    shift: Size = 1
    """A head may move this far in a step, either way."""
    cell: Kind = "lstm"
    """The kind of recurrent cell that steers the heads."""

    def build(self, width: int) -> Mixer:
        if 2 * self.shift + 1 > self.slots:
            raise SpecError(f"shift: a head that moves up to {self.shift} needs more than {self.slots} slots")
        return TuringMachine(self, width)


@dataclass
class TuringState(State):
    """The controller's carry, the memory, where each head stands, and what was read last."""

    carry: Carry
    memory: Tensor  # (rows, slots, size)
    places: Tensor  # (rows, reads + writes, slots), weights
    found: Tensor  # (rows, reads * size)


class TuringHeads(Part):
    """What `count` heads are told by the controller."""

    def __init__(self, count: int, width: int, size: int, shift: int) -> None:
        super().__init__()
        self.count = count
        self.address = Dense(width, count * sum(list_orders(size, shift)))

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, count, orders)"""
        asked: Tensor = self.address(hidden)
        return asked.unflatten(-1, (self.count, -1))


def list_orders(size: int, shift: int) -> tuple[int, ...]:
    """How many numbers tell a head its key, strength, gate, shifts and sharpness."""
    return size, 1, 1, 2 * shift + 1, 1


def move_heads(asked: Tensor, memory: Tensor, before: Tensor, shift: int) -> Tensor:
    """Where heads look next, all of them at once: (rows, heads, slots). Equations 5 to 9 of the paper.

    content, interpolation, shift, sharpening. The key and the slots are divided by their lengths after the product: a
    memory of unit vectors would cost three passes over all of it, forward and backward.
    """
    size, slots = memory.shape[-1], memory.shape[-2]
    key, strength, gate, shifts, sharpness = asked.split(list_orders(size, shift), -1)
    key = torch.tanh(key)
    lengths = torch.linalg.vector_norm(memory, dim=-1).clamp(min=1e-6)[:, None]  # (rows, 1, slots)
    match = (F.normalize(key, dim=-1, eps=1e-6) @ memory.mT) / lengths
    content = (F.softplus(strength) * match).softmax(-1)
    gate = gate.sigmoid()
    mixed = gate * content + (1 - gate) * before
    ring = torch.cat((mixed[..., slots - shift :], mixed, mixed[..., :shift]), -1)
    # window i holds the weights from i - shift to i + shift, so the last of them comes by the step -shift
    moved = ring.unfold(-1, 2 * shift + 1, 1) @ shifts.softmax(-1).flip(-1)[..., None]  # (rows, heads, slots, 1)
    # w^γ / Σ w^γ is a softmax of γ log w
    return ((1 + F.softplus(sharpness)) * (moved[..., 0] + 1e-12).log()).softmax(-1)


class TuringMachine(Mixer):
    undecayed = ("blank", "rest")  # where it begins: 0 is no better than another beginning

    def __init__(self, spec: Turing, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.names = ("read_weights", "write_weights", *SIGHTS[spec.cell])
        self.cell = Cell(spec.cell, width + spec.reads * spec.size, width)
        self.readers = TuringHeads(spec.reads, width, spec.size, spec.shift)
        self.writers = TuringHeads(spec.writes, width, spec.size, spec.shift)
        self.change = Dense(width, spec.writes * 2 * spec.size)  # what to erase and what to add
        self.output = Dense(width + spec.reads * spec.size, width)
        self.blank = nn.Parameter(torch.empty(spec.size))  # one for all slots: no place is known by what it holds
        self.rest = nn.Parameter(torch.empty(spec.reads + spec.writes, spec.slots))
        self.reset()

    def reset(self) -> None:
        """A nearly blank memory, and heads that stand near the first slot."""
        nn.init.normal_(self.blank, std=0.01)
        nn.init.zeros_(self.rest)
        with torch.no_grad():
            self.rest[:, 0] = 5.0

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        tape = state if isinstance(state, TuringState) else self.start(view.mask.rows, view)
        see = view.watcher(self.path, *self.names)
        cell = self.cell.watched(self.path, view)
        # nobody reads the last tape of a whole call, and pads that come last can't touch what came before them
        loose = state is None and view.mask.trailing
        valid, seen = None if loose else view.mask.valid, []
        for time, now in enumerate(x.unbind(1)):
            before = tape.map(lambda tensor: tensor)
            hidden = self.tick(cell, now, tape, see)
            seen.append(torch.cat((hidden, tape.found), -1))
            if valid is not None:
                keep(tape, before, valid[:, time])
        if isinstance(cell, Watched):
            cell.report()
        tape.advance(view.mask)
        answered: Tensor = self.output(torch.stack(seen, 1))
        return answered

    def tick(self, cell: Cell | Watched, x: Tensor, tape: TuringState, see: See | None) -> Tensor:
        """One position: think, write, read; the controller's hidden vector."""
        spec = self.spec
        hidden, tape.carry = cell.step(torch.cat((x, tape.found), -1), tape.carry)
        asked = torch.cat((self.readers(hidden), self.writers(hidden)), 1)
        tape.places = move_heads(asked, tape.memory, tape.places, spec.shift)
        reading, writing = tape.places.split((spec.reads, spec.writes), 1)
        if see:
            reading = see("read_weights", reading[:, :, None])[:, :, 0]
            writing = see("write_weights", writing[:, :, None])[:, :, 0]
            tape.places = torch.cat((reading, writing), 1)
        erase, add = self.change(hidden).unflatten(-1, (spec.writes, 2, -1)).unbind(2)
        # every write head erases before any adds (equations 3 and 4)
        kept = 1 - writing[..., None] * erase.sigmoid()[:, :, None]  # (rows, writes, slots, size)
        kept = kept[:, 0] if spec.writes == 1 else kept.prod(1)
        tape.memory = torch.baddbmm(tape.memory * kept, writing.mT, torch.tanh(add))
        tape.found = (reading @ tape.memory).flatten(1)
        return hidden

    def start(self, rows: int, view: View) -> TuringState:
        memory = self.blank.expand(rows, self.spec.slots, -1)
        places = self.rest.softmax(-1).expand(rows, -1, -1)
        return TuringState(
            carry=self.cell.zeros(rows, view),
            memory=memory,
            places=places,
            found=(places[:, : self.spec.reads] @ memory).flatten(1),
        )


def keep(tape: TuringState, before: TuringState, real: Tensor) -> None:
    """Undo a step on the rows where it was a pad."""

    def pick(new: Tensor, old: Tensor) -> Tensor:
        return torch.where(real.view(-1, *(1,) * (new.dim() - 1)), new, old)

    tape.carry = tuple(pick(new, old) for new, old in zip(tape.carry, before.carry, strict=True))
    for name in ("memory", "places", "found"):
        setattr(tape, name, pick(getattr(tape, name), getattr(before, name)))
