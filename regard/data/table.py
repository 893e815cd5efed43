"""Tables: rows of cells with names or numbers, from which samples of any form are filled.

A format (`readers/csv.py`, `readers/parquet.py`, …) only says how a file becomes a `Sheet`. Which cell is the source,
the text or the label is the same question for all of them, and is answered here, by name (`translation.en` reaches into
a cell) or by number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from regard.core.spec import FileName
from regard.data.header import check_labels, check_tags, guess_fields, spell_settings
from regard.data.illustration import Illustration
from regard.data.lines import clean
from regard.data.log import Log
from regard.data.picture import MOST, Pixels
from regard.data.reader import Key, ReaderSpec, choose_reader
from regard.data.sample import TEXTS, Form, FormSpec, Sample
from regard.data.source import Paths, place_in, split_member
from regard.errors import DataError, Doubt

FIELDS = ("source", "target", "text", "second", "label", "words", "tags", "picture", "texts")
AHEAD = 100  # rows that are looked at before the first is used
SHOWN = 30  # fields that a message lists
TASKS = {"labels": "classification", "tags": "tagging", "pairs": "translation"}  # what mostly learns from such samples
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


class TableReader(ReaderSpec):
    """Rows of named or numbered cells. What isn't told is looked for by its own name, or in the first columns."""

    gives: ClassVar[tuple[Form, ...]] = ("pairs", "documents", "labels", "tags", "images", "captions", "pictures")
    path: Paths
    source: Key | None = None
    """The column of the source text, by name or by number from 0; unless given, `source`, or the first."""
    target: Key | None = None
    """The column of the target text; unless given, `target`, or the second."""
    text: Key | None = None
    """The column of the text of a document or of a sample with a label; unless given, `text`, or the first."""
    second: Key | None = None
    """The column of a second text, where a sample with a label has two."""
    label: Key | None = None
    """The column of the label; unless given, `label`, or the second."""
    words: Key | None = None
    """The column of a sentence's words, a list or a text that spaces divide; unless given, `words`, or the first."""
    tags: Key | None = None
    """The column of its tags, one for each word; unless given, `tags`, or the second."""
    picture: Key | None = None
    """The column of a picture's file; unless given, `picture`, or the first."""
    texts: Key | None = None
    """The column of a caption, or of a list of them; rows of one picture are one sample. Unless given, `texts`."""
    pictures: FileName | None = None
    """Pictures lie here: a folder, a zip or a tar; unless given, beside the table."""
    pixels: Pixels = MOST
    many: bool = False
    """Nearly every text may have a label of its own, or there may be more tags than words; else that is refused."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.forms():
            raise ValueError(f"{', '.join(self.told())}: no sample has these together")
        return self

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        # of two files with pairs, one is the source and the other the target
        return super().take(names, form) if form != "pairs" or len(names) == 1 else None

    def told(self) -> dict[str, Key]:
        """The columns that are named."""
        own = self.fields()
        return {name: own[name] for name in FIELDS if own[name] is not None}

    def forms(self) -> tuple[Form, ...]:
        """Those that have a place for every column that is named."""
        told, specs = set(self.told()), {form: FormSpec.parse(form) for form in self.gives}
        fitting = (form for form, spec in specs.items() if told <= spec.list_fields().keys())
        return tuple(form for form in fitting if self.pictures is None or specs[form].list_pictures())

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        return placed if self.pictures is None else placed.replace(pictures=place_in(folder, self.pictures))

    def turn_to(self, names: Sequence[str], form: Form) -> ReaderSpec | None:
        """Other files, with the same columns; another kind of table keeps those that have names."""
        asked = choose_reader(form, names)
        if asked.kind == self.kind:
            return self.replace(path=tuple(names))
        if not isinstance(asked, TableReader):
            return None
        return asked.replace(**{name: key for name, key in self.told().items() if isinstance(key, str)})

    def tables(self, form: Form, log: Log) -> Iterator[Sheet]:
        """Each file as a table."""
        for path in self.find(self.path):
            yield self.open(path, form, log)

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        """A file as a table."""
        raise NotImplementedError

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read(self.forms()[0], log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        tables = self.tables(form, log)
        if not FormSpec.parse(form).list_pictures():
            yield from (sample for table in tables for sample in self.fill(table, form, log, by))
        elif self.pictures is not None:  # one place for the pictures of all tables
            rows = (row for table in tables for row in self.fill(table, form, log, by))
            yield from Illustration(form, self.pictures, log, self.pixels, thorough=True)(rows)
        else:
            for table in tables:
                beside = Illustration(form, self.find_pictures(table), log, self.pixels)
                yield from beside(self.fill(table, form, log, by))

    def find_pictures(self, table: Sheet) -> str | None:
        """Where the pictures of a table lie if nobody says so: in its folder, or in the archive that it stands in."""
        archive, member = split_member(table.name)
        return archive if member else str(Path(archive).parent)

    def check_samples(self, samples: Iterator[Sample], form: Form) -> Iterator[Sample]:
        told = self.told()
        if form == "tags":
            return check_tags(samples, self.many, {"words": told.get("tags", 1), "tags": told.get("words", 0)})
        if form in ("labels", "images"):
            asked = "text" if form == "labels" else "picture"
            swapped = {asked: told.get("label", 1), "label": told.get(asked, 0)}
            return check_labels(samples, self.many, swapped, self.is_headless())
        return samples

    def is_headless(self) -> bool:
        """Whether nobody has said if a first line names the columns, and it may be so."""
        return False

    def keys(self, table: Sheet, form: Form) -> dict[str, Key]:
        """Where each field of a sample stands in a table."""
        told, usual = self.told(), list(FormSpec.parse(form).holds)
        named = {name: name for name in usual}
        # an old rule first: a header that says nothing of ours leaves the columns their numbers
        by_number = not table.fields or (
            table.numbered
            and all(isinstance(key, int) for key in told.values())
            and not (all(map(table.has, named)) and not told)
        )
        rest: dict[str, Key] = {name: n for n, name in enumerate(usual)} if by_number else {**named}
        return {**rest, **told}

    def fill(self, table: Sheet, form: Form, log: Log, by: Key | None) -> Iterator[Sample]:
        """The samples of a table."""
        spec, keys = FormSpec.parse(form), self.keys(table, form)
        wanted = {**keys, **({} if by is None else {"by": by})}
        insist_on_fields(table, form, wanted)
        most = max((key for key in keys.values() if isinstance(key, int)), default=-1) + 1
        maker = SampleMaker(table, keys, spec, log)
        for row in table.rows:
            if row.cells is None or (whole := self.check_width(row, most, form, log)).cells is None:
                log.drop()
            elif found := maker.fill(whole):
                sample, repaired = found
                if by is not None and (group := plain(table.get(row.cells, by))) is None:
                    log.skip(row.place, f"no value: {by!r}")
                    continue
                log.keep(repaired)
                yield sample if by is None else {**sample, "group": str(group)}

    def check_width(self, row: SheetRow, most: int, form: Form, log: Log) -> SheetRow:
        """The row, if it has as many cells as are wanted; without cells where it hasn't."""
        return row


def insist_on_fields(table: Sheet, form: Form, wanted: Mapping[str, Key]) -> None:
    """Refuse a table that hasn't the fields which are looked for, and say how those are named that it has."""
    missing = [str(key) for key in wanted.values() if not table.has(key)]
    if table.numbered and not table.fields and (named := [key for key in wanted.values() if isinstance(key, str)]):
        raise DataError(f"{table.name}: its columns have no names, and {named[0]!r} is one", "header: true")
    if not table.fields or not missing:
        return
    here, guess = ", ".join(table.fields[:SHOWN]), guess_fields(form, table.fields)
    more = f" and {len(table.fields) - SHOWN} more" if len(table.fields) > SHOWN else ""
    settings = guess or {name: "FIELD" for name, key in wanted.items() if not table.has(key)}
    hint = spell_settings(settings)
    if not guess and (fitting := next((other for other in TASKS if _has_fields_of(table, other)), None)):
        hint = f"task: {TASKS[fitting]}, which learns from such fields; or {hint}"
    raise Doubt(
        f"{table.name}: fields here: {here}{more}; looked for: {', '.join(missing)}",
        hint,
        {spell_settings(guess): guess} if guess else {},
    )


def _has_fields_of(table: Sheet, form: Form) -> bool:
    """Whether a table names its fields just as a form does."""
    return all(name in table.fields for name in FormSpec.parse(form).holds)


class SampleMaker:
    """What makes samples of a table's rows."""

    def __init__(self, table: Sheet, keys: Mapping[str, Key], spec: FormSpec, log: Log) -> None:
        fields = spec.list_fields()
        self.table, self.keys, self.spec, self.log = table, keys, spec, log
        self.lists = {name for name in keys if fields[name] == TEXTS}
        self.pictures = set(spec.list_pictures())

    def fill(self, row: SheetRow) -> tuple[Sample, bool] | None:
        """A row as a sample, and whether it was repaired; None where it isn't one, and the log says why."""
        assert row.cells is not None
        sample: Sample = {"place": row.place}
        repaired, loose = row.repaired, self.spec.loose
        for name, key in self.keys.items():
            value = self.table.get(row.cells, key)
            if name in self.pictures and not isinstance(plain(value), str | int | None):
                sample[name] = value  # a picture itself, and not its name
                continue
            if name in self.lists and isinstance(value, str) and not self.spec.spaced:
                value = [value]
            named = loose or name in self.pictures  # a picture may be called by a number
            found = as_texts(value, loose) if name in self.lists else as_text(value, named)
            if found is None:
                self.log.skip(row.place, f"no {'list' if name in self.lists else 'text'}: {key!r}")
                return None
            if not self.table.numbered:  # lines have been cleaned before they were cut into cells
                lines = [clean(text, row.place, self.log) for text in (found if isinstance(found, list) else [found])]
                texts = [line.text for line in lines if line.text is not None]
                if len(texts) < len(lines):
                    self.log.drop()
                    return None
                repaired = repaired or any(line.repaired for line in lines)
                found = texts if name in self.lists else texts[0]
            trim = str.strip if self.spec.trimmed else str
            sample[name] = trim(found) if isinstance(found, str) else found if self.spec.spaced else [*map(trim, found)]
        if fault := self._find_fault(sample):
            self.log.skip(row.place, fault)
            return None
        return sample, repaired

    def _find_fault(self, sample: Sample) -> str:
        for name in self.keys:
            if name in self.pictures and not isinstance(sample[name], str):
                continue
            texts = [sample[name]] if name not in self.lists else sample[name]
            if not texts or not all(text and not text.isspace() for text in texts):
                return f"empty: {name}"
        return self.spec.find_fault(sample) if self.spec.aligned else ""
