"""Columns: what training reads of each sample, as numbers in files, so that memory doesn't grow with the corpus.

A column is a file of numbers, one sample after another, and beside it a file says where every sample ends:
`train.source`, `train.source.ends`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import overload

import numpy as np

from regard.errors import CheckpointError

PIECE = 2**20  # of a file that is looked at at once
TOKEN, PLACE = np.dtype("<u4"), np.dtype("<i8")


class Column:
    """Samples as numbers in a file."""

    def __init__(self, path: Path) -> None:
        self._tokens = os.open(path, os.O_RDONLY)
        self._ends = os.open(path.with_name(f"{path.name}.ends"), os.O_RDONLY)
        self._count = os.fstat(self._ends).st_size // PLACE.itemsize

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        for file in (self.__dict__.get("_tokens"), self.__dict__.get("_ends")):
            if file is not None:
                os.close(file)

    def whole(self, most: int) -> bool:
        """Whether samples end in order, at the end of the file at last, and hold only numbers below the most."""
        size, last = os.fstat(self._tokens).st_size, 0
        if os.fstat(self._ends).st_size % PLACE.itemsize or size % TOKEN.itemsize:
            return False
        for first in range(0, len(self), PIECE):
            ends = np.frombuffer(os.pread(self._ends, PIECE * PLACE.itemsize, first * PLACE.itemsize), PLACE)
            if ends[0] < last or (ends[1:] < ends[:-1]).any():
                return False
            last = int(ends[-1])
        pieces = (os.pread(self._tokens, PIECE, place) for place in range(0, size, PIECE))
        return last * TOKEN.itemsize == size and all(np.frombuffer(p, TOKEN).max() < most for p in pieces)

    def bounds(self, first: int, last: int) -> list[int]:
        """Where samples begin, from the first to the last, and where that one ends."""
        size = PLACE.itemsize
        before = max(0, first - 1)
        ends = np.frombuffer(os.pread(self._ends, (last - before) * size, before * size), PLACE).tolist()
        return ends if first else [0, *ends]

    def __getitem__(self, n: int) -> list[int]:
        return self.part(n, 0, None)

    def part(self, n: int, first: int, last: int | None) -> list[int]:
        """Some of a sample's numbers."""
        begin, end = self.bounds(n, n + 1)
        begin, end = begin + first, end if last is None else min(end, begin + last)
        size = TOKEN.itemsize
        found: list[int] = np.frombuffer(
            os.pread(self._tokens, max(0, end - begin) * size, begin * size), TOKEN
        ).tolist()
        return found


class ColumnSet(dict[str, Column]):
    """The columns of a corpus by name."""

    def __init__(self, folder: Path, columns: Mapping[str, Column]) -> None:
        super().__init__(columns)
        self.folder = folder

    def __missing__(self, name: str) -> Column:
        raise CheckpointError(f"{self.folder}: it has no column {name!r}, so it was made ready for another task")


@contextmanager
def write_column(path: Path) -> Iterator[Callable[[Sequence[int]], None]]:
    """A column's file, and the function that adds a sample to it."""
    total = 0
    with path.open("wb") as tokens, path.with_name(f"{path.name}.ends").open("wb") as ends:

        def add(sentence: Sequence[int]) -> None:
            nonlocal total
            total += len(sentence)
            tokens.write(np.asarray(sentence, TOKEN).tobytes())
            ends.write(PLACE.type(total).tobytes())

        yield add


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
