"""A tape: one step of a stack, written down as calls of our kernels, and played for every token in one.

When a model writes token by token, its many small operations take longer to ask for than to do. So a part may say once
what it does with a single position of each row (`write`), in the kernels' words, and the stack plays that. A part that
can't be written down leaves the stack to its `forward`; so does whoever watches, or keeps gradients, or hooks a module.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from ctypes import Structure, addressof, c_double, c_int64, c_void_p
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from regard.core.activation import NUMBERS
from regard.core.dense import Dense, Lookup
from regard.core.mask import Mask
from regard.core.packed import PackedDense, PackedLookup
from regard.core.product import BrainKernel, BrainProduct, ByteKernel, ByteProduct, HalfKernel, HalfProduct
from regard.core.slots import Slots
from regard.core.state import Memory, Shared, State
from regard.core.view import View
from regard.kernels.library import REGISTER, Library, load

# as the kernels number them
CENTRE, ROOT, SINGLE, BYTES, BRAINS, ACTIVATE, ADD, TIMES, TURN, LOOK, RECALL, AROUND, FETCH, HALVES = range(14)
FLOAT, BYTE, BRAIN, HALF = range(4)  # numbers of a table

Giver = Callable[[View], Tensor]  # (1 or rows, …): what a step needs beside its vectors


class NotWritable(Exception):
    """A part can't be written down; its stack goes on with `forward`."""


class KernelCall(Structure):
    """One call of a kernel, as it reads it."""

    _fields_ = (
        *((name, c_int64) for name in ("kind", "start", "key", "value", "end", "inputs", "outputs", "what")),
        *((name, c_void_p) for name in ("weight", "sums", "scale", "bias")),
        ("number", c_double),
    )


@dataclass(frozen=True)
class TapeLine:
    """One call on a tape, by the numbers of its registers."""

    kind: int
    reads: tuple[int, ...]  # the first is what it works on, then keys and values
    writes: int
    inputs: int
    outputs: int = 0
    what: int = 0
    weights: tuple[Tensor | None, ...] = ()  # the weight, what its numbers add up to, its scale, its bias
    number: float = 0.0


@dataclass
class Tape:
    """The calls of a step while they are written, and the registers that they work on."""

    library: Library
    lines: list[TapeLine] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    given: dict[Hashable, tuple[int, Giver]] = field(default_factory=dict)  # what is computed before a step, by its key

    def take(self, width: int) -> int:
        """A new register."""
        self.widths.append(width)
        return len(self.widths) - 1

    def write(self, part: nn.Module, x: int) -> int:
        """Let a part say what it does with a register; where the answer stands."""
        writer: Callable[[Tape, int], int] | None = getattr(part, "write", None)
        # who inherits how a part is written, and does something else, must write that down too
        if writer is None or find_owner(part, "write") is not find_owner(part, "forward"):
            raise NotWritable(type(part).__name__)
        return writer(self, x)

    def begin(self, embedding: nn.Module, width: int) -> int:
        """The register with what blocks read: made of tokens, where that can be written down, or given."""
        lines, widths, given = len(self.lines), len(self.widths), dict(self.given)
        try:
            return self.write(embedding, -1)
        except NotWritable:
            del self.lines[lines:], self.widths[widths:]
            self.given = given
            return self.take(width)

    def fetch(self, table: nn.Module, factor: float) -> int:
        """The vectors of the tokens, multiplied by a factor."""
        if type(table) is not Lookup and not isinstance(table, PackedLookup):
            raise NotWritable(type(table).__name__)
        height, width = table.num_embeddings, table.embedding_dim
        what, plain, scale = describe_numbers(table)
        x = self.take(width)
        return self._add(TapeLine(FETCH, (x,), x, width, height, what, (plain, None, scale, None), factor))

    def give(self, key: Hashable, width: int, giver: Giver) -> int:
        """A register with what is computed before a step, the same for all whose key is equal."""
        if key not in self.given:
            self.given[key] = self.take(width), giver
        return self.given[key][0]

    def norm(self, norm: nn.Module, x: int) -> int:
        """A norm of a register: torch's over a layer, or one that writes itself down."""
        if type(norm).forward is not nn.LayerNorm.forward:
            return self.write(norm, x)
        assert isinstance(norm, nn.LayerNorm)
        return self.centre(norm.weight, norm.bias, norm.eps, x)

    def centre(self, gain: Tensor | None, bias: Tensor | None, eps: float, x: int) -> int:
        """A register less its mean, divided by its deviation, times a gain, plus a bias."""
        return self._norm(CENTRE, gain, bias, eps, x)

    def divide_by_root(self, gain: Tensor | None, eps: float | None, x: int) -> int:
        """A register divided by the root of its mean square, times a gain."""
        return self._norm(ROOT, gain, None, torch.finfo(torch.float32).eps if eps is None else eps, x)

    def _norm(self, kind: int, gain: Tensor | None, bias: Tensor | None, eps: float, x: int) -> int:
        width = self.widths[x]
        if gain is not None and gain.shape != (width,):
            raise NotWritable("a norm of another width")
        return self._add(TapeLine(kind, (x,), self.take(width), width, weights=(gain, None, None, bias), number=eps))

    def multiply(self, dense: nn.Module, x: int) -> int:
        """A linear map of a register: whole weights, or those that a kernel of ours has packed."""
        if type(dense) is Dense:
            return self._multiply(
                TapeLine(SINGLE, (x,), -1, *sizes(dense), weights=(dense.weight, None, None, dense.bias))
            )
        if isinstance(dense, PackedDense):
            kernel, bias = dense.product.kernel, dense.bias
            if isinstance(kernel, ByteKernel):
                weights = kernel.packed, kernel.sums, kernel.scale, bias
                return self._multiply(TapeLine(BYTES, (x,), -1, *sizes(dense), kernel.levels, weights))
            if isinstance(kernel, BrainKernel | HalfKernel):
                kind = BRAINS if isinstance(kernel, BrainKernel) else HALVES
                return self._multiply(
                    TapeLine(kind, (x,), -1, *sizes(dense), weights=(kernel.packed, None, None, bias))
                )
        raise NotWritable(type(dense).__name__)

    def _multiply(self, line: TapeLine) -> int:
        if self.widths[line.reads[0]] != line.inputs:
            raise NotWritable("a product of another width")
        return self._add(replace(line, writes=self.take(line.outputs)))

    def activate(self, name: str, x: int) -> int:
        """An activation, in place."""
        if name not in NUMBERS:
            raise NotWritable(name)
        return self._add(TapeLine(ACTIVATE, (x,), x, self.widths[x], what=NUMBERS[name]))

    def add(self, x: int, y: int) -> int:
        """x + y, where y stands."""
        return self._add(TapeLine(ADD, (x, y), y, self.widths[y]))

    def times(self, x: int, y: int) -> int:
        """x · y, where y stands."""
        return self._add(TapeLine(TIMES, (x, y), y, self.widths[y]))

    def turn(self, key: Hashable, angles: Giver, size: int, x: int) -> int:
        """Turn the pairs of each head, in place. `angles`: cosines and sines, the same for all whose key is equal."""
        return self._add(TapeLine(TURN, (self.give(key, size, angles), x), x, self.widths[x], what=size))

    def look(self, query: int, size: int, scale: float, key: int, value: int) -> int:
        """What queries see of the past, once this position is a part of it; `size`: of a head."""
        return self._look(LOOK, (query, key, value), size, scale, self.widths[key])

    def look_around(self, query: int, size: int, scale: float, key: int, value: int) -> int:
        """What queries see where all positions of a whole sequence see each other."""
        return self._look(AROUND, (query, key, value), size, scale, self.widths[key])

    def recall(self, query: int, size: int, scale: float, width: int) -> int:
        """What queries see of a memory, whose keys have so many channels."""
        return self._look(RECALL, (query,), size, scale, width)

    def _look(self, kind: int, reads: tuple[int, ...], size: int, scale: float, keys: int) -> int:
        if size % REGISTER[self.library.level]:
            raise NotWritable(f"heads of {size}")
        width = self.widths[reads[0]]
        return self._add(TapeLine(kind, reads, self.take(width), width, keys, size, number=scale))

    def _add(self, line: TapeLine) -> int:
        for weight in line.weights:
            if weight is not None and (weight.device.type != "cpu" or not weight.is_contiguous()):
                raise NotWritable("weights that a kernel can't read")
            if weight is not None and weight.is_floating_point() and weight.dtype != torch.float32:
                raise NotWritable(f"weights of {weight.dtype}")
        self.lines.append(line)
        return line.writes


def describe_numbers(table: Lookup | PackedLookup) -> tuple[int, Tensor, Tensor | None]:
    """How a kernel reads the vectors of a table: which numbers, where they stand, and their scales."""
    if isinstance(table, Lookup):
        return FLOAT, table.weight, None
    product = table.product
    if isinstance(product, ByteProduct):
        return BYTE, product.plain, product.scale
    if isinstance(product, BrainProduct | HalfProduct):
        return BRAIN if isinstance(product, BrainProduct) else HALF, product.plain.view(torch.int16), None
    raise NotWritable(type(product).__name__)


def sizes(dense: nn.Module) -> tuple[int, int]:
    return int(dense.in_features), int(dense.out_features)  # type: ignore[arg-type]


def find_owner(part: nn.Module, name: str) -> type | None:
    """The class that says what a method of a part does; None where the object itself does."""
    if name in vars(part):
        return None
    return next((kind for kind in type(part).__mro__ if name in vars(kind)), None)


class Recording:
    """A tape that is written: calls with addresses, and registers that later ones share once they are free."""

    def __init__(self, library: Library, tape: Tape, parts: Sequence[nn.Module], first: int, last: int) -> None:
        self.library, self.last = library, last
        self.width = tape.widths[last]
        self.given = list(tape.given.values())
        self.fetches = tape.lines[0].kind == FETCH  # it reads tokens, and not vectors
        filled = [register for register, _ in self.given]
        self.places, self.room = share_registers(tape, filled if self.fetches else (first, *filled), last)
        self.lines = tape.lines  # they hold the weights that the calls point to
        self.whole = any(line.kind == AROUND for line in tape.lines)  # it is for sequences, and not for steps
        self.looks = sum(line.kind in (LOOK, RECALL, AROUND) for line in tape.lines)
        self.calls = (KernelCall * len(tape.lines))(*(self._address(line) for line in tape.lines))
        self.hooks = [
            hooked for part in parts for hooked in (part._forward_hooks, part._forward_pre_hooks)
        ]  # read anew at each step: somebody may hook a module later
        self.parts, self.key = parts, sign(parts)  # held, so that no other part can come to stand where one stood

    @staticmethod
    def _address(line: TapeLine) -> KernelCall:
        pointers = [None if weight is None else weight.data_ptr() for weight in line.weights]
        start, key, value = (*line.reads, *(line.reads[-1],) * 2)[:3]
        return KernelCall(
            *(line.kind, start, key, value, line.writes, line.inputs, line.outputs, line.what),
            *(*pointers, None, None, None, None)[:4],
            line.number,
        )

    @property
    def hooked(self) -> bool:
        """Whether somebody wants to know what single modules compute."""
        return any(self.hooks) or bool(hooks._global_forward_hooks) or bool(hooks._global_forward_pre_hooks)

    def step(self, x: Tensor, states: Sequence[State], view: View) -> Tensor:
        """One position more of each row, tokens (rows, 1) or vectors (rows, 1, width); the states move on."""
        mask, seen = view.mask, list[int]()
        for state in states:
            seen += point_at_slots(state, mask) if isinstance(state, Slots) else point_at_memory(state, view.memory)
        found = self.play(x, seen, view)
        for state in states:
            state.advance(mask)
        return found

    def run(self, x: Tensor, view: View) -> Tensor:
        """Whole sequences, tokens (rows, time) or vectors (rows, time, width), whose positions see each other."""
        valid = view.mask.valid
        allowed = (0, 0, 0) if valid is None else (valid.data_ptr(), *valid.stride())
        return self.play(x, [*(0,) * 8, view.mask.time, *(0,) * 3, *allowed, 1] * self.looks, view)

    def play(self, x: Tensor, seen: Sequence[int], view: View) -> Tensor:
        """All calls, for each position; `seen`: what their looks look at."""
        count, time = x.shape[:2]
        rows = count * time
        room = torch.empty(rows * self.room)
        if self.fetches:
            x = x.long().contiguous()
        else:
            room[: x.numel()] = x.reshape(-1)  # the first register
        given, kept = list[int](), list[Tensor]()  # addresses, and what stands there
        for register, give in self.given:
            numbers = give(view)  # (1 or rows, …, time, width)
            if numbers.dim() > 3 or numbers.dtype != torch.float32 or numbers.stride(-1) != 1:
                numbers = numbers.float().reshape(-1, *numbers.shape[-2:]).contiguous()
            step = numbers.stride(0) if numbers.shape[0] > 1 else 0
            given += [numbers.data_ptr(), register, numbers.shape[-1], time, step, numbers.stride(1)]
            kept.append(numbers)
        words, more = array("q", seen), array("q", given)
        known = self.library.functions.regard_play(
            *(addressof(self.calls), len(self.calls), find_address(words), find_address(more), len(self.given)),
            *(addressof(self.places), x.data_ptr(), room.data_ptr(), rows, self.library.level),
        )
        if not known:
            raise IndexError(f"tokens from {int(x.min())} to {int(x.max())} for a table of {self.lines[0].outputs}")
        start = self.places[self.last] * rows
        return room[start : start + rows * self.width].view(*x.shape[:2], self.width)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of a model has weights of its own, and so writes them down anew."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def find_address(numbers: array[int]) -> int:
    return numbers.buffer_info()[0]


def share_registers(tape: Tape, filled: Sequence[int], last: int) -> tuple[Any, int]:
    """Where each register begins, for one row, and how much room all need: one that is free serves again.

    `filled`: those that hold something before the first call; the very first begins at 0.
    """
    ends = {register: number for number, line in enumerate(tape.lines) for register in (*line.reads, line.writes)}
    ends[last] = len(tape.lines)
    places, free, room = dict[int, int](), list[tuple[int, int]](), 0
    for register in filled:
        places[register] = room
        room += tape.widths[register]
    for number, line in enumerate(tape.lines):
        if line.writes not in places:
            width = tape.widths[line.writes]
            fits = next((spare for spare in free if spare[1] == width), None)
            if fits is not None:
                free.remove(fits)
            places[line.writes] = room if fits is None else fits[0]
            room += width if fits is None else 0
        for register in {*line.reads, line.writes}:
            if ends[register] == number:
                free.append((places[register], tape.widths[register]))
    return (c_int64 * len(tape.widths))(*(places[register] for register in range(len(tape.widths)))), room


def point_at_slots(state: Slots, mask: Mask) -> list[int]:
    """Where attention's own past stands, with room for one position more, as the kernel reads it."""
    state.make_room(mask.total)
    (key, value), moved = state.tensors, state.moved
    steps = (*key.stride()[:3], *value.stride()[:3])
    table = (0, 0) if moved is None else (moved.data_ptr(), moved.stride(0))
    return [key.data_ptr(), value.data_ptr(), *steps, mask.total, mask.total - 1, *table, 0, 0, 0, 1]


def point_at_memory(state: State, memory: Memory | None) -> list[int]:
    """Where a memory's keys and values stand."""
    assert isinstance(state, Shared) and memory is not None
    key, value = state.tensors
    valid = memory.valid
    allowed = (0, 0, 0) if valid is None else (valid.data_ptr(), *valid.stride())
    steps = (*key.stride()[:3], *value.stride()[:3])
    return [key.data_ptr(), value.data_ptr(), *steps, key.shape[2], 0, 0, 0, *allowed, state.fan]


def sign(parts: Sequence[nn.Module]) -> tuple[int, ...]:
    """What a recording stands for: these very modules and weights, where they stand now."""
    return tuple(
        [-id(part) if "forward" in vars(part) else id(part) for part in parts]  # somebody may have put in another
        + [weight.data_ptr() for part in parts for weight in part._parameters.values() if weight is not None]
    )


def record(parts: Sequence[nn.Module], write: Callable[[Tape], tuple[int, int]]) -> Recording | None:
    """What some parts do in a step, as a recording; None where it can't be written down, or there are no kernels.

    `write`: writes it all, and says where the first and the last vectors stand.
    """
    library = load()
    if library is None or any("forward" in vars(part) for part in parts):
        return None
    tape = Tape(library)
    try:
        first, last = write(tape)
    except NotWritable:
        return None
    return Recording(library, tape, parts, first, last) if tape.lines else None
