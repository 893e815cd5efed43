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
    reading: Tensor  # (rows, reads, slots), weights
    writing: Tensor  # (rows, writes, slots), weights
    found: Tensor  # (rows, reads * size)


class TuringHeads(Part):
    """Where `count` heads look next: content, interpolation, shift, sharpening (equations 5 to 9)."""

    def __init__(self, count: int, width: int, size: int, shift: int) -> None:
        super().__init__()
        self.count, self.size, self.shift = count, size, shift
        self.sizes = (size, 1, 1, 2 * shift + 1, 1)  # key, strength, gate, shifts, sharpness
        self.address = Dense(width, count * sum(self.sizes))

    def forward(self, hidden: Tensor, memory: Tensor, before: Tensor) -> Tensor:
        """(rows, count, slots), each head's weights."""
        asked = self.address(hidden).unflatten(-1, (self.count, -1))
        key, strength, gate, shifts, sharpness = asked.split(self.sizes, -1)
        match = F.normalize(torch.tanh(key), dim=-1, eps=1e-6) @ F.normalize(memory, dim=-1, eps=1e-6).mT
        content = (F.softplus(strength) * match).softmax(-1)
        gate = gate.sigmoid()
        mixed = gate * content + (1 - gate) * before
        steps = range(-self.shift, self.shift + 1)
        moved = sum(w * mixed.roll(step, -1) for w, step in zip(shifts.softmax(-1).split(1, -1), steps, strict=True))
        sharp = (moved + 1e-12) ** (1 + F.softplus(sharpness))
        return sharp / sharp.sum(-1, keepdim=True)


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
        valid, outputs = view.mask.valid, []
        for time in range(x.shape[1]):
            before = tape.map(lambda tensor: tensor)
            outputs.append(self.tick(cell, x[:, time], tape, see))
            if valid is not None:
                keep(tape, before, valid[:, time])
        if isinstance(cell, Watched):
            cell.report()
        tape.advance(view.mask)
        return torch.stack(outputs, 1)

    def tick(self, cell: Cell | Watched, x: Tensor, tape: TuringState, see: See | None) -> Tensor:
        """One position: think, write, read, answer."""
        hidden, tape.carry = cell.step(torch.cat((x, tape.found), -1), tape.carry)
        writing = self.writers(hidden, tape.memory, tape.writing)
        reading = self.readers(hidden, tape.memory, tape.reading)
        if see:
            writing = see("write_weights", writing[:, :, None])[:, :, 0]
            reading = see("read_weights", reading[:, :, None])[:, :, 0]
        erase, add = self.change(hidden).unflatten(-1, (self.spec.writes, 2, -1)).unbind(2)
        # every write head erases before any adds (equations 3 and 4)
        kept = (1 - writing[..., None] * erase.sigmoid()[:, :, None]).prod(1)  # (rows, slots, size)
        tape.memory = tape.memory * kept + writing.mT @ torch.tanh(add)
        tape.reading, tape.writing, tape.found = reading, writing, (reading @ tape.memory).flatten(1)
        return self.output(torch.cat((hidden, tape.found), -1))

    def start(self, rows: int, view: View) -> TuringState:
        memory = self.blank.expand(rows, self.spec.slots, -1)
        places = self.rest.softmax(-1).expand(rows, -1, -1)
        reading, writing = places.split((self.spec.reads, self.spec.writes), 1)
        return TuringState(
            carry=self.cell.zeros(rows, view),
            memory=memory,
            reading=reading,
            writing=writing,
            found=(reading @ memory).flatten(1),
        )


def keep(tape: TuringState, before: TuringState, real: Tensor) -> None:
    """Undo a step on the rows where it was a pad."""

    def pick(new: Tensor, old: Tensor) -> Tensor:
        return torch.where(real.view(-1, *(1,) * (new.dim() - 1)), new, old)

    tape.carry = tuple(pick(new, old) for new, old in zip(tape.carry, before.carry, strict=True))
    for name in ("memory", "reading", "writing", "found"):
        setattr(tape, name, pick(getattr(tape, name), getattr(before, name)))
