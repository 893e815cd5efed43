"""A file as a table: its rows, the names of its fields, and what a cell holds as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np

from regard.data.reader import Key

AHEAD = 100  # rows that are looked at before the first is used
DEEPEST = 5  # levels of cells within cells that have names


@dataclass(frozen=True)
class SheetRow:
    """A row's cells, by number or by name; None where it was rejected. `place` is `file:line`, or `file:row`."""

    place: str
    cells: list[Any] | Mapping[str, Any] | None
    repaired: bool = False


@dataclass
class Sheet:
    """Rows of one file, and the names of its fields; none where columns have only numbers."""

    name: str
    fields: tuple[str, ...]
    rows: Iterator[SheetRow]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names for the numbers of a field
    numbered: bool = False  # cells have numbers; they have names too if a first line has named them

    def peek(self, count: int = AHEAD) -> list[SheetRow]:
        """The first rows, which stay where they are."""
        first = list(islice(self.rows, count))
        self.rows = chain(first, self.rows)
        return first

    @classmethod
    def of_objects(cls, name: str, rows: Iterator[SheetRow]) -> Sheet:
        """A table of rows that name their own cells: its fields are those of the first ones."""
        table = cls(name, (), rows)
        named = (row.cells for row in table.peek() if isinstance(row.cells, Mapping))
        table.fields = tuple(dict.fromkeys(name for cells in named for name in list_fields(cells)))
        return table

    def has(self, key: Key) -> bool:
        """Whether there is such a column."""
        if isinstance(key, int):
            return not self.fields or key < len(self.fields)
        return key in self.fields

    def get(self, cells: list[Any] | Mapping[str, Any], key: Key) -> Any:
        """A cell's value; None where it has none."""
        if isinstance(cells, list):
            number = key if isinstance(key, int) else self.fields.index(key)
            return cells[number] if number < len(cells) else None
        name = key if isinstance(key, str) else self.fields[key]
        value, names = reach(cells, name), self.classes.get(name)
        return value if names is None else _name_classes(value, names)


def list_fields(cells: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The names of an object's cells; those within a cell with its own before them: `translation.en`."""
    for name, value in cells.items():
        if isinstance(value, Mapping) and value and depth < DEEPEST:
            yield from (f"{name}.{inner}" for inner in list_fields(value, depth + 1))
        else:
            yield str(name)


def reach(cells: Mapping[str, Any], name: str) -> Any:
    """The cell of a name, or the one that a name with dots leads to."""
    if name in cells:
        return cells[name]
    outer, dot, inner = name.partition(".")
    while dot:
        if isinstance(found := cells.get(outer), Mapping):
            return reach(found, inner)
        more, dot, inner = inner.partition(".")
        outer = f"{outer}.{more}"
    return None


def _name_classes(value: Any, names: Sequence[str]) -> Any:
    """The names of classes in the place of their numbers; a number that none has (-1: not labelled) is no value."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_name_classes(one, names) for one in value]
    number = plain(value)
    if not isinstance(number, int) or isinstance(number, bool):
        return value
    return names[number] if 0 <= number < len(names) else None


def plain(value: Any) -> Any:
    """A value as Python has it, whatever library it came from."""
    return value.item() if isinstance(value, np.generic) else value


def as_text(value: Any, loose: bool) -> str | None:
    """A cell's text; `loose`: a number will do. None where it has none."""
    if type(value) is str:  # nearly always
        return value
    value = plain(value)
    if isinstance(value, str) or not loose:
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        # libraries make floats of whole numbers where a cell of the column is empty
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else None


def as_texts(value: Any, loose: bool) -> list[str] | None:
    """A cell's list of texts; one text is words that spaces divide."""
    if isinstance(value, str):
        return value.split()
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    found = [as_text(one, loose) for one in value]
    return [one for one in found if one is not None] if None not in found else None
