"""Tensors of a file that `torch.save` wrote in its old way (before torch 1.6), read without running anything in it.

Such a file is a program for a stack machine, which may name any function of Python, and then the numbers themselves.
Here the program is only taken apart, and followed by a machine of our own that knows lists, tables, texts, whole
numbers and the description of a tensor. Whatever else it asks for is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pickletools import genops  # it lists a program's instructions and carries none of them out
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regard.errors import CheckpointError

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001  # what such a file begins with
TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8", "IntStorage": "<i4"}
NAMES = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", *(f"torch {name}" for name in TYPES)}


@dataclass(frozen=True)
class Mention:
    """Something of Python's that the program mentions."""

    text: str


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor's numbers are: in which storage, from where on, in which shape, how far apart on each axis."""

    storage: str
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass
class StackMachine:
    """What follows the program: a stack, marks in it, and what was put aside."""

    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    aside: dict[int, Any] = field(default_factory=dict)
    storages: dict[str, str] = field(default_factory=dict)  # the type of each, by its key

    def run(self, file: BinaryIO) -> Any:
        """What a program leaves behind; the file stands after it."""
        for instruction, argument, _ in genops(file):
            if instruction.name == "STOP":
                return self.stack.pop()
            follow = INSTRUCTIONS.get(instruction.name)
            if follow is None:
                raise ValueError(f"it asks for {instruction.name}")
            follow(self, argument)
        raise ValueError("it ends too early")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """What was pushed after the last mark."""
        first = self.marks.pop()
        found = self.stack[first:]
        del self.stack[first:]
        return found

    def take(self, count: int) -> tuple[Any, ...]:
        """The last few values, as one."""
        if len(self.stack) < count:
            raise ValueError("it takes more than there is")
        found = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return found

    def mention(self, name: str) -> None:
        if name not in NAMES:
            raise ValueError(f"it asks for {name.replace(' ', '.')}")
        self.push(Mention(name))

    def fill(self, pairs: list[Any]) -> None:
        """Put keys and values into the table below."""
        if len(pairs) % 2 or not isinstance(self.stack[-1], dict):
            raise ValueError("it fills what isn't a table")
        self.stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))

    def append(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to what isn't a list")
        self.stack[-1].extend(values)

    def call(self) -> None:
        """The only two calls: an empty table, and a tensor from its storage, place, shape and strides."""
        name, arguments = self.take(2)
        if name == Mention("collections OrderedDict") and arguments == ():
            return self.push({})
        if name != Mention("torch._utils _rebuild_tensor_v2"):
            raise ValueError(f"it calls {name}")
        storage, first, shape, strides, *_ = arguments
        sizes = (first, *shape, *strides)
        sound = isinstance(storage, str) and len(shape) == len(strides) <= 8
        if not sound or not all(type(size) is int and 0 <= size < 2**40 for size in sizes):
            raise ValueError("it has a tensor of a strange shape")
        self.push(TensorPlace(storage, first, tuple(shape), tuple(strides)))

    def refer(self) -> None:
        """A storage that comes later in the file."""
        ((word, kind, key, *_),) = self.take(1)
        if word != "storage" or not isinstance(kind, Mention) or not isinstance(key, str):
            raise ValueError(f"it refers to {word}")
        self.storages[key] = TYPES[kind.text.removeprefix("torch ")]
        self.push(key)

    def decorate(self) -> None:
        """Attributes of the whole, such as the versions of its modules: nobody asks for them."""
        self.take(1)


Follow = Callable[[StackMachine, Any], None]
INSTRUCTIONS: dict[str, Follow] = {
    "PROTO": lambda machine, _: None,
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "SETITEM": lambda machine, _: machine.fill(list(machine.take(2))),
    "SETITEMS": lambda machine, _: machine.fill(machine.since_mark()),
    "APPEND": lambda machine, _: machine.append(list(machine.take(1))),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "GLOBAL": StackMachine.mention,
    "REDUCE": lambda machine, _: machine.call(),
    "BINPERSID": lambda machine, _: machine.refer(),
    "BUILD": lambda machine, _: machine.decorate(),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE"), StackMachine.push),
    **{f"TUPLE{n}": lambda machine, _, n=n: machine.push(machine.take(n)) for n in (1, 2, 3)},  # type: ignore[misc]
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda machine, n: machine.aside.update({n: machine.stack[-1]})),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, n: machine.push(machine.aside[n])),
}


def read_torch_file(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file of `torch.save`, by name."""
    try:
        with path.open("rb") as file:
            if StackMachine().run(file) != MAGIC or StackMachine().run(file) != VERSION:
                raise ValueError("it doesn't begin as one")
            StackMachine().run(file)  # the sizes of numbers on the machine that wrote it
            machine = StackMachine()
            table, keys = machine.run(file), StackMachine().run(file)
            storages = {key: _read_storage(file, machine.storages[key]) for key in keys}
            return {str(name): _cut(place, storages) for name, place in table.items()}
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: it isn't a plain file of torch's old format: {error}") from None


def _read_storage(file: BinaryIO, kind: str) -> NDArray[Any]:
    """The numbers of one storage, behind their count."""
    count = int.from_bytes(file.read(8), "little")
    there = file.seek(0, 1), file.seek(0, 2)
    file.seek(there[0])
    size = count * np.dtype(kind).itemsize
    if size > there[1] - there[0]:
        raise ValueError("it ends too early")
    return np.frombuffer(file.read(size), kind)


def _cut(place: Any, storages: dict[str, NDArray[Any]]) -> NDArray[Any]:
    if not isinstance(place, TensorPlace):
        raise ValueError("it holds something that isn't a tensor")
    numbers = storages[place.storage]
    if not math.prod(place.shape):
        return np.zeros(place.shape, numbers.dtype)
    last = place.first + sum((size - 1) * apart for size, apart in zip(place.shape, place.strides, strict=True))
    if last >= len(numbers) or math.prod(place.shape) > len(numbers):
        raise ValueError("a tensor is larger than its storage")
    steps = [apart * numbers.itemsize for apart in place.strides]
    return np.lib.stride_tricks.as_strided(numbers[place.first :], place.shape, steps, writeable=False).copy()
