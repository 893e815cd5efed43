"""Scripts: what is done to a state, one thing after the other, as plain data.

Rows read chunks, some of them padded; rows are selected, as a beam does it; the end is forgotten; rows of several
states are joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

from regard.laws.case import KEYS, ROWS, Case, count, lessen, list_words


@dataclass(frozen=True)
class Stretch:
    """The real tokens of one row within a chunk: so many pads stand before them, and so many they are."""

    before: int
    real: int


@dataclass(frozen=True)
class Read:
    """Every row reads a chunk; without stretches all of it is real."""

    time: int
    stretches: tuple[Stretch, ...] = ()

    def tell(self) -> str:
        """`read 3 (xx., .xx)`: a sign for each place of each row, x where a token is real."""
        if not self.stretches:
            return f"read {self.time}"
        rows = (f"{'.' * part.before}{'x' * part.real}".ljust(self.time, ".") for part in self.stretches)
        return f"read {self.time} ({list_words(rows)})"


@dataclass(frozen=True)
class Select:
    """Rows are kept, repeated and put in another order."""

    rows: tuple[int, ...]

    def tell(self) -> str:
        return f"select {'row' if len(self.rows) == 1 else 'rows'} {list_words(self.rows)}"


@dataclass(frozen=True)
class Rewind:
    """All but the first positions are forgotten, where the state can."""

    length: int

    def tell(self) -> str:
        return f"rewind to {self.length}"


@dataclass(frozen=True)
class Join:
    """The rows of other states are taken in; each of these had a script of its own."""

    others: tuple[Script, ...]

    def tell(self) -> str:
        return " and ".join(f"join ({other.tell()})" for other in self.others)


Event = Read | Select | Rewind | Join


@dataclass(frozen=True)
class Script(Case):
    """How many rows begin, and what is done then."""

    events: tuple[Event, ...]
    rows: int = ROWS
    room: int = 0  # positions that the state is to have room for
    keys: int = KEYS  # of the memory, where there is one
    ends: tuple[int, ...] = ()  # real keys of each row; without, all are
    dtype: str = "float32"
    seed: int = field(default=2, metadata={"drawn": True})

    @classmethod
    def read(cls, *sizes: int, rows: int = ROWS, dtype: str = "float32") -> Self:
        """Chunks of these sizes, and nothing else."""
        return cls(tuple(map(Read, sizes)), rows, dtype=dtype)

    def all_scripts(self) -> Iterator[Script]:
        """This one, and those that are joined in it."""
        yield self
        for event in self.events:
            for other in event.others if isinstance(event, Join) else ():
                yield from other.all_scripts()

    @property
    def size(self) -> tuple[int, ...]:
        scripts = list(self.all_scripts())
        events = [event for script in scripts for event in script.events]
        time = sum(event.time for event in events if isinstance(event, Read))
        rest = sum(script.room + script.keys + sum(script.ends) + len(script.ends) for script in scripts)
        return sum(script.rows for script in scripts), time, len(events), sum(map(measure, events)), rest

    @property
    def possible(self) -> bool:
        """A row that isn't there is left out by the player, so that needn't be looked at here."""
        scripts = list(self.all_scripts())
        reads = [event for script in scripts for event in script.events if isinstance(event, Read)]
        whole = all(script.rows > 0 and script.keys > 0 and all(script.ends) for script in scripts)
        return whole and bool(reads) and all(event.time for event in reads)

    def smaller(self) -> Iterator[Self]:
        yield from self.drop_rows()
        yield from super().smaller()
        for n, (one, other) in enumerate(zip(self.events, self.events[1:], strict=False)):
            if isinstance(one, Read) and isinstance(other, Read) and not (one.stretches or other.stretches):
                yield replace(self, events=(*self.events[:n], Read(one.time + other.time), *self.events[n + 2 :]))

    def drop_rows(self) -> Iterator[Self]:
        """One row less from the beginning on; where rows are selected first, one choice less too, or as many."""
        first = next((n for n, event in enumerate(self.events) if isinstance(event, Select)), len(self.events))
        chosen = self.events[first] if first < len(self.events) else None
        for row in range(self.rows):
            before = tuple(drop_stretch(event, row) for event in self.events[:first])
            fewer = replace(self, rows=self.rows - 1, ends=self.ends[:row] + self.ends[row + 1 :])
            if not isinstance(chosen, Select):
                yield replace(fewer, events=before)
                continue
            for less in (*lessen(chosen.rows), chosen.rows):
                kept = Select(tuple(number - (number > row) for number in less if number != row))
                yield replace(fewer, events=(*before, kept, *self.events[first + 1 :]))

    def tell(self) -> str:
        words = [count(self.rows, "row"), *(event.tell() for event in self.events)]
        return ", ".join(words) + ("" if self.dtype == "float32" else f" in {self.dtype}")

    def to_json(self) -> dict[str, Any]:
        done = [{type(event).__name__.lower(): spell_event(event)} for event in self.events]
        return {"rows": self.rows, "events": done, "room": self.room, "keys": self.keys, "dtype": self.dtype}


def drop_stretch(event: Event, row: int) -> Event:
    """An event without one row's part in it."""
    if isinstance(event, Read):
        return replace(event, stretches=event.stretches[:row] + event.stretches[row + 1 :])
    return event


def spell_event(event: Event) -> Any:
    """An event as plain data."""
    if isinstance(event, Read):
        return {"time": event.time, "real": [[part.before, part.real] for part in event.stretches]}
    if isinstance(event, Select):
        return list(event.rows)
    return event.length if isinstance(event, Rewind) else [other.to_json() for other in event.others]


def measure(event: Event) -> int:
    """How much there is to an event beside its time."""
    if isinstance(event, Read):
        return sum(1 + part.before + part.real for part in event.stretches)
    if isinstance(event, Select):
        return len(event.rows) + sum(event.rows)
    return event.length if isinstance(event, Rewind) else len(event.others)
