"""Columns: what training reads of each sample, as numbers in files, so that memory doesn't grow with the corpus.

A column is a file of numbers of one type, one sample after another, and beside it a file says where every sample ends:
`train.source`, `train.source.ends`. Where all samples have one shape, a sample counts as one; otherwise ends count
along its first axis, as those of tokens do.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from regard.core.registry import Kinds
from regard.core.spec import Size, Spec
from regard.data.array import Dtype, describe, file_type
from regard.errors import CheckpointError

PIECE = 2**20  # bytes of a file that are looked at at once
PLACE = np.dtype("<i8")
GATHERED = 2**16  # numbers that are written together


class ColumnSpec(Spec):
    """What a column holds of each sample: numbers of one type, in one shape, within bounds; tokens unless told."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    kind: Literal["column"] = "column"
    dtype: Dtype = "uint32"
    """Numbers are stored in this type."""
    shape: tuple[Size | None, ...] = (None,)
    """A sample's numbers have this shape; None, which may come first, is as many as the sample has."""
    least: int | float | None = None
    """No number is smaller than this."""
    below: int | float | None = None
    """All numbers are below this."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if None in self.shape[1:]:
            raise ValueError("shape: only the first axis may differ from sample to sample")
        return self

    @property
    def varies(self) -> bool:
        """Whether samples differ in length."""
        return self.shape[:1] == (None,)

    @property
    def item(self) -> tuple[int, ...]:
        """The shape of what is counted: a whole sample, or what stands at each place of its first axis."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def file_type(self) -> np.dtype[Any]:
        return file_type(self.dtype)

    @property
    def item_bytes(self) -> int:
        return math.prod(self.item) * self.file_type.itemsize

    def contains(self, numbers: NDArray[Any]) -> bool:
        """Whether all numbers are finite and within the bounds."""
        if not numbers.size:
            return True
        finite = self.file_type.kind != "f" or bool(np.isfinite(numbers).all())
        above = self.least is None or bool(numbers.min() >= self.least)
        return finite and above and (self.below is None or bool(numbers.max() < self.below))

    def pack(self, sample: Any) -> NDArray[Any]:
        """A sample as an array; a ValueError where it isn't what the column holds."""
        # tokens come as lists; whether they are within bounds is looked at when the file is read
        packed = sample if isinstance(sample, np.ndarray) else np.asarray(sample, self.file_type)
        start = int(self.varies)
        fits = packed.ndim == len(self.shape) and packed.shape[start:] == self.shape[start:]
        if packed.dtype != np.dtype(self.dtype) or not fits:
            raise ValueError(f"{describe(packed)}, and {self.dtype} {self.shape} is wanted")
        if packed is sample and not self.contains(packed):
            raise ValueError(f"numbers that aren't finite, below {self.least} or not below {self.below}")
        return packed

    def to_fact(self) -> int | dict[str, Any]:
        """As data.json says it: columns of tokens by what they are below alone, as earlier versions do."""
        plain = type(self.below) is int and self == ColumnSpec(below=self.below)
        return int(self.below or 0) if plain else self.model_dump(mode="json", exclude={"kind"})

    @classmethod
    def of_fact(cls, fact: Any) -> ColumnSpec:
        return cls(below=fact) if type(fact) is int else cls.parse(fact)


class Column:
    """Samples as numbers in a file."""

    def __init__(self, path: Path, spec: ColumnSpec) -> None:
        self.spec, self._path = spec, path
        self._map: NDArray[Any] | None = None  # the whole file, once samples of it are gathered
        self._places: NDArray[np.int64]  # where samples end, for as long
        self._item, self._size, self._type = spec.item, spec.item_bytes, spec.file_type  # asked for at every sample
        self._numbers = os.open(path, os.O_RDONLY)
        self._ends = os.open(path.with_name(f"{path.name}.ends"), os.O_RDONLY)
        self._count = os.fstat(self._ends).st_size // PLACE.itemsize

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        for file in (self.__dict__.get("_numbers"), self.__dict__.get("_ends")):
            if file is not None:
                os.close(file)

    def is_whole(self) -> bool:
        """Whether samples end in order, at the end of the file at last, and hold only what the spec says."""
        size, last = os.fstat(self._numbers).st_size, 0
        if os.fstat(self._ends).st_size % PLACE.itemsize or size % self._size:
            return False
        for first in range(0, len(self), PIECE):
            ends = np.frombuffer(os.pread(self._ends, PIECE * PLACE.itemsize, first * PLACE.itemsize), PLACE)
            if ends[0] < last or (ends[1:] < ends[:-1]).any():
                return False
            if not self.spec.varies and (ends != np.arange(first + 1, first + 1 + len(ends))).any():
                return False
            last = int(ends[-1])
        pieces = (os.pread(self._numbers, PIECE, place) for place in range(0, size, PIECE))
        right = all(self.spec.contains(np.frombuffer(piece, self._type)) for piece in pieces)
        return last * self._size == size and right

    def bounds(self, first: int, last: int) -> list[int]:
        """Where samples begin, from the first to the last, and where that one ends."""
        size = PLACE.itemsize
        before = max(0, first - 1)
        ends = np.frombuffer(os.pread(self._ends, (last - before) * size, before * size), PLACE).tolist()
        return ends if first else [0, *ends]

    def read(self, n: int) -> NDArray[Any]:
        """A sample as an array of the type and shape that the spec says, which may be written."""
        found = self._items(*self.bounds(n, n + 1))
        return (found if self.spec.varies else found[0]).astype(self.spec.dtype)

    def gather(self, rows: Sequence[int]) -> NDArray[Any]:
        """Some samples of a column with one shape, as one array (rows, *shape) that may be written."""
        if self.spec.varies:
            raise ValueError(f"samples of shape {self.spec.shape} aren't one array")
        if self._map is None and self._count:
            self._map = np.memmap(self._path, self._type, "r", shape=(self._count, *self._item))
        if self._map is None:
            return np.empty((0, *self._item), self.spec.dtype)
        found = np.asarray(self._map[np.asarray(rows, np.intp)])  # a copy already
        return found.astype(self.spec.dtype, copy=False)

    def gather_parts(self, rows: Sequence[int]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Some samples of a column whose samples differ in length, one behind the other, and how long each is."""
        if not self.spec.varies:
            raise ValueError(f"samples of shape {self.spec.shape} are one array")
        if self._map is None:
            size = os.fstat(self._numbers).st_size // self._size
            empty = np.empty((0, *self._item), self._type)  # no file without content can be mapped
            self._map = np.memmap(self._path, self._type, "r", shape=(size, *self._item)) if size else empty
            self._places = np.fromfile(self._path.with_name(f"{self._path.name}.ends"), PLACE)
        chosen = np.asarray(rows, np.intp)
        ends = self._places[chosen]
        lengths = ends - np.where(chosen > 0, self._places[chosen - 1], 0)
        # where each item stands: it counts on from its sample's begin
        index = np.arange(lengths.sum()) + np.repeat(ends - lengths.cumsum(), lengths)
        return np.asarray(self._map[index]).astype(self.spec.dtype, copy=False), lengths

    def __getitem__(self, n: int) -> list[Any]:
        """A sample's numbers as a plain list, such as its tokens."""
        return self.part(n, 0, None)

    def part(self, n: int, first: int, last: int | None) -> list[Any]:
        """Some of a sample's numbers."""
        found: list[Any] = self.cut(n, first, last).tolist()
        return found

    def cut(self, n: int, first: int, last: int | None) -> NDArray[Any]:
        """Some of a sample's numbers, as an array."""
        begin, end = self.bounds(n, n + 1)
        return self._items(begin + first, end if last is None else min(end, begin + last))

    def read_items(self, begin: int, end: int) -> NDArray[Any]:
        """What is counted from one place of the whole file to another, whichever samples it belongs to."""
        return self._items(begin, end)

    def _items(self, begin: int, end: int) -> NDArray[Any]:
        content = os.pread(self._numbers, max(0, end - begin) * self._size, begin * self._size)
        return np.frombuffer(content, self._type).reshape(-1, *self._item)


class ColumnSet(dict[str, Column]):
    """The columns of a corpus by name."""

    def __init__(self, folder: Path, columns: Mapping[str, Column]) -> None:
        super().__init__(columns)
        self.folder = folder

    def __missing__(self, name: str) -> Column:
        raise CheckpointError(f"{self.folder}: it has no column {name!r}, so it was made ready for another task")


@contextmanager
def write_column(
    path: Path, spec: ColumnSpec, place: Callable[[Path], Path] = lambda path: path
) -> Iterator[Callable[[Any], None]]:
    """A column's file, and the function that adds a sample to it; `place`: where its files are written at first."""
    total, varies, type_of = 0, spec.varies, spec.file_type
    # tokens come as lists, and many small ones are gathered before they are written
    gathers = spec.shape == (None,) and type_of.kind in "iu"
    held, places = array(type_of.char if gathers else "b"), array("q")
    with place(path).open("wb") as numbers, place(path.with_name(f"{path.name}.ends")).open("wb") as ends:

        def flush() -> None:
            numbers.write(np.asarray(held, type_of).tobytes())
            ends.write(np.asarray(places, PLACE).tobytes())
            del held[:], places[:]

        def add(sample: Any) -> None:
            nonlocal total
            if gathers and type(sample) is list:
                try:
                    held.extend(sample)
                except (TypeError, OverflowError) as error:
                    raise ValueError(f"what {spec.dtype} can't hold: {error}") from None
                total += len(sample)
            else:
                packed = spec.pack(sample)
                flush()
                numbers.write(packed.astype(type_of, copy=False).tobytes())
                total += len(packed) if varies else 1
            places.append(total)
            if len(held) > GATHERED:
                flush()

        yield add
        flush()


class Lengths(Sequence[tuple[int, ...]]):
    """The length of every sample in some columns, read when asked for."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, int):
            return self[index : index + 1][0]
        first, last, _ = index.indices(len(self))
        sides = [np.diff(column.bounds(first, last)).tolist() for column in self.columns]
        return list(zip(*sides, strict=True))
