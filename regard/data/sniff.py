"""A look at files before anything is trained on them: the reader that takes them, their fields, and what is in doubt.

Nothing is decided in silence. Each doubt that came up is in the finding, with the settings that would settle it, and
the reader is as the likeliest way of each would have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.cell import CellReader
from regard.data.header import WORD, guess_fields
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.table import TableReader
from regard.errors import DataError, Doubt

HERE = Path()
MOST = 1000  # samples that are looked at
DOUBTS = 5  # of a file: a header, its columns, a delimiter, …
LIKELY: tuple[Form, ...] = ("pairs", "tags", "labels", "documents")  # the order in which fields are taken for a form's


@dataclass(frozen=True)
class Finding:
    """What a look at some files found."""

    reader: ReaderSpec  # settled: its kind, and the columns that names suggest
    form: Form
    fields: tuple[str, ...]  # of the first table; none where columns have only numbers, or where it is no table
    samples: list[Sample]  # the first ones
    doubts: tuple[Doubt, ...]  # what a user may be asked; each has the ways that settle it
    log: Log  # of these samples


def sniff(
    paths: str | Sequence[str], form: Form | None = None, folder: Path = HERE, settings: Mapping[str, Any] | None = None
) -> Finding:
    """Look at files as a run would read them.

    `form`: the one that is wanted, if that is known; `folder`: where they are; `settings`: what is known of the reader.
    """
    told = {"path": paths if isinstance(paths, str) else tuple(paths), **(settings or {})}
    unsettled = ReaderSpec.parse(told)
    form = form or guess_form(_settle(unsettled, folder), folder)
    reader, doubts = unsettled.settle(form, "train", folder), list[Doubt]()
    while True:
        log = Log("skip")
        try:
            found = reader.check_samples(reader.under(folder).read(form, log), form)
            return Finding(reader, form, list_columns(reader, form, folder), list(islice(found, MOST)), (*doubts,), log)
        except Doubt as doubt:
            doubts.append(doubt)
            way = next(iter(doubt.ways.values()), None)
            if way is None or len(doubts) == DOUBTS:
                return Finding(reader, form, (), [], (*doubts,), log)
            reader = take_way(reader, way)


def _settle(reader: ReaderSpec, folder: Path) -> ReaderSpec:
    """A reader of whatever form, a table if it may be one: running text is a table of one column."""
    try:
        return reader.settle("pairs", "train", folder)
    except Doubt:
        raise
    except DataError:
        return reader.settle("documents", "train", folder)


def take_way(reader: ReaderSpec, way: Mapping[str, Any]) -> ReaderSpec:
    """A reader with the settings that settle a doubt; another kind keeps what both know."""
    if way.get("kind", reader.kind) == reader.kind:
        return reader.replace(**way)
    known = ReaderSpec.kinds[way["kind"]].model_fields
    own = {name: value for name, value in reader.fields().items() if name in reader.model_fields_set and name in known}
    return ReaderSpec.parse({**own, **way})


def list_columns(reader: ReaderSpec, form: Form, folder: Path = HERE) -> tuple[str, ...]:
    """The names of the columns of a reader's first table, where they have names."""
    if not isinstance(reader, TableReader):
        return ()
    sheet = next(reader.under(folder).tables(form, Log("skip")), None)
    return () if sheet is None else sheet.fields


def guess_form(reader: ReaderSpec, folder: Path = HERE) -> Form:
    """The form that files most likely hold: by the names of their columns, or by what is in these."""
    forms = reader.forms()
    if not isinstance(reader, TableReader) or len(forms) == 1:
        return forms[0]
    # a first line is taken as it is: whether it is a header is asked when it is read
    raw = reader.replace(header=False) if isinstance(reader, CellReader) and reader.is_headless() else reader
    try:
        sheet = next(raw.under(folder).tables(forms[0], Log("skip")), None)
    except Doubt as doubt:
        way = next(iter(doubt.ways.values()), None)
        return forms[0] if way is None else guess_form(take_way(reader, way), folder)
    rows = [] if sheet is None else [row.cells for row in sheet.peek() if row.cells]
    first = next(iter(rows), [])
    names = list(sheet.fields) if sheet is not None else []
    if not names and isinstance(first, list) and all(WORD.fullmatch(str(cell)) for cell in first):
        names = first
    named = (form for form in LIKELY if form in forms and guess_fields(form, names, strictly=True))
    return next(named, None) or _guess_by_cells([cells for cells in rows if isinstance(cells, list)])


def _guess_by_cells(rows: Sequence[Sequence[Any]]) -> Form:
    """The form of rows whose columns have no names that tell it."""
    wide = [cells for cells in rows if len(cells) > 1]
    if not wide or len(wide) < len(rows) / 2:
        return "documents"
    if any(cells == [""] for cells in rows) and all(len(str(cells[0]).split()) == 1 for cells in wide):
        return "tags"  # words, and empty lines between sentences
    few = min(len({str(cells[column]) for cells in wide}) for column in (0, 1))
    return "labels" if few <= len(wide) / 2 else "pairs"
