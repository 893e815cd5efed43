"""Cases: what a law is tried on, as plain data that can be made smaller.

A case says how many rows there are, how long they are and what is done with them; the numbers themselves are drawn
from a seed. So whatever breaks a law can be cut down, piece by piece, to the smallest case that still breaks it, as
QuickCheck does it (Claessen & Hughes 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Self, TypeVar, cast

from torch import Tensor, arange, tensor

ROWS, TIME, KEYS = 3, 10, 6
TRIES = 400  # smaller cases that are tried before the smallest so far is taken

C = TypeVar("C", bound="Case")
F = TypeVar("F")


@dataclass(frozen=True)
class Case:
    """What a law is tried on."""

    @property
    def size(self) -> tuple[int, ...]:
        """What is made small, the first number first: rows, then positions, then the rest."""
        raise NotImplementedError

    @property
    def possible(self) -> bool:
        """Whether there is such a case."""
        raise NotImplementedError

    def smaller(self) -> Iterator[Self]:
        """Cases with something less."""
        return cast("Iterator[Self]", lessen(self))

    def tell(self) -> str:
        """The case in words."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def lessen(value: Any) -> Iterator[Any]:
    """Plain data with less in it: a number nearer to 0, a tuple without one of its parts or with a smaller one."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield from sorted({number for number in (0, 1, value // 2, value - 1) if 0 <= number < value})
    elif isinstance(value, tuple):
        yield from (value[:n] + value[n + 1 :] for n in range(len(value)))
        yield from ((*value[:n], less, *value[n + 1 :]) for n in range(len(value)) for less in lessen(value[n]))
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            if not item.metadata.get("drawn"):  # a seed isn't better for being small
                yield from (replace(value, **{item.name: less}) for less in lessen(getattr(value, item.name)))


def shrink(case: C, fault: F, attempt: Callable[[C], F | None], tries: int = TRIES) -> tuple[C, F]:
    """The smallest case that still fails, and how it fails; each step takes the first smaller one that does."""
    while True:
        for smaller in case.smaller():
            if not (smaller.possible and smaller.size < case.size):
                continue
            if tries == 0:
                return case, fault
            tries -= 1
            found = attempt(smaller)
            if found is not None:
                case, fault = smaller, found
                break
        else:
            return case, fault


def count(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def list_words(words: Any) -> str:
    return ", ".join(map(str, words))


@dataclass(frozen=True)
class Whole(Case):
    """Rows of one length, all real."""

    rows: int = ROWS
    time: int = TIME

    @property
    def size(self) -> tuple[int, ...]:
        return self.rows, self.time

    @property
    def possible(self) -> bool:
        return self.rows > 0 and self.time > 0

    def tell(self) -> str:
        return f"{count(self.rows, 'row')} of {count(self.time, 'position')}"


@dataclass(frozen=True)
class Typed(Whole):
    """Rows of one length, in numbers of some type."""

    dtype: str = "float32"

    def tell(self) -> str:
        return f"{super().tell()} in {self.dtype}"


@dataclass(frozen=True)
class Cut(Whole):
    """Rows of one length in two parts: what comes before a position, and the rest."""

    at: int = 6

    @property
    def size(self) -> tuple[int, ...]:
        return self.rows, self.time, self.at

    @property
    def possible(self) -> bool:
        return super().possible and 0 < self.at < self.time

    def tell(self) -> str:
        return f"{super().tell()}, cut before position {self.at}"


@dataclass(frozen=True)
class Padded(Case):
    """Rows of their own lengths in one rectangle, with pads on one side."""

    side: Literal["left", "right"]
    lengths: tuple[int, ...] = (5, 8, 2)
    pads: int = 2  # of the longest row

    @property
    def time(self) -> int:
        return max(self.lengths) + self.pads

    @property
    def valid(self) -> Tensor:
        """(rows, time), True where a token is real."""
        place, ends = arange(self.time)[None], tensor(self.lengths)[:, None]
        return place < ends if self.side == "right" else place >= self.time - ends

    @property
    def size(self) -> tuple[int, ...]:
        return len(self.lengths), sum(self.lengths), self.pads

    @property
    def possible(self) -> bool:
        return bool(self.lengths) and min(self.lengths) > 0 and (self.pads > 0 or len(set(self.lengths)) > 1)

    def tell(self) -> str:
        rows, sizes = count(len(self.lengths), "row"), list_words(self.lengths)
        return f"{rows} with {sizes} real, filled up to {self.time} on the {self.side}"


@dataclass(frozen=True)
class Packed(Case):
    """Rows that hold several documents each, by the documents' lengths; short rows are filled up at their end."""

    documents: tuple[tuple[int, ...], ...] = ((2, 5, 3), (10,), (6, 1))

    @property
    def time(self) -> int:
        return max(map(sum, self.documents))

    @property
    def valid(self) -> Tensor:
        """(rows, time), True where a token is real."""
        return arange(self.time)[None] < tensor([sum(row) for row in self.documents])[:, None]

    @property
    def numbers(self) -> Tensor:
        """(rows, time): which document of its row a token belongs to; whose a pad is doesn't matter."""
        owners = [[number for number, size in enumerate(row) for _ in range(size)] for row in self.documents]
        return tensor([own + [0] * (self.time - len(own)) for own in owners])

    def split(self, x: Tensor) -> list[Tensor]:
        """Each document's part of something with a row for each row: (size, width)."""
        return [piece for row, sizes in zip(x, self.documents, strict=True) for piece in row[: sum(sizes)].split(sizes)]

    @property
    def size(self) -> tuple[int, ...]:
        return len(self.documents), sum(map(sum, self.documents)), sum(map(len, self.documents))

    @property
    def possible(self) -> bool:
        return bool(self.documents) and all(row and min(row) > 0 for row in self.documents)

    def tell(self) -> str:
        told = "; ".join(f"row {n}: {list_words(row)}" for n, row in enumerate(self.documents))
        return f"documents of these lengths, one after the other in {told}"


@dataclass(frozen=True)
class Sourced(Case):
    """Rows that look at a memory, of which each row has its own number of real keys."""

    keys: tuple[int, ...] = (4, KEYS, 1)
    time: int = TIME

    @property
    def valid(self) -> Tensor:
        """(rows, keys), True where there is something to look at."""
        return arange(max(self.keys))[None] < tensor(self.keys)[:, None]

    @property
    def size(self) -> tuple[int, ...]:
        return len(self.keys), self.time, sum(self.keys)

    @property
    def possible(self) -> bool:
        return len(set(self.keys)) > 1 and min(self.keys) > 0 and self.time > 0

    def tell(self) -> str:
        rows, sizes = count(len(self.keys), "row"), list_words(self.keys)
        return f"{rows} of {count(self.time, 'position')}, with {sizes} real keys to look at"


@dataclass(frozen=True)
class Described(Case):
    """The description alone: nothing is run."""

    @property
    def size(self) -> tuple[int, ...]:
        return (0,)

    @property
    def possible(self) -> bool:
        return True

    def tell(self) -> str:
        return "the spec as it is"
