"""Tables in text files, a row a line: columns have numbers, and names where the first line is a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

from pydantic import model_validator

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.header import WORD, refuse_names, spell_settings
from regard.data.lines import LONGEST
from regard.data.log import Log
from regard.data.sample import Form, FormSpec
from regard.data.sheet import Sheet, SheetRow
from regard.data.table import TableReader
from regard.data.transcription import find_columns
from regard.errors import DataError, Doubt

DIVIDERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MOSTLY = 0.8  # of the first lines that must agree before anything is made of them


class CellReader(TableReader):
    """Lines that are cut into cells."""

    header: bool | None = None
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    @model_validator(mode="after")
    def check_header(self) -> Self:
        named = [str(key) for key in self.told().values() if isinstance(key, str)]
        if named and self.header is False:
            raise ValueError(f"header: false, and {', '.join(named)} would be names that stand in it")
        return self

    def cut(self, path: str, log: Log) -> Iterator[SheetRow]:
        """Every line of a file as cells, the header too."""
        raise NotImplementedError

    @property
    def divider(self) -> str:
        """What stands between cells."""
        return "\t"

    def is_headless(self) -> bool:
        return self.header is None and not any(isinstance(key, str) for key in self.told().values())

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        table = Sheet(path, (), self.cut(path, log), numbered=True)
        doubt_objects(table.peek())
        if self.header or (self.header is None and not self.is_headless()):
            table.fields = read_header(table)
            return table
        first = table.peek()
        if self.is_headless() and first and self.names_fields(first[0], form):
            table.fields = read_header(table)
            return table
        if self.is_headless() and first and first[0].cells is not None:
            cells, keys = [str(cell) for cell in first[0].cells], self.keys(table, form)
            columns = {
                name: cells[key] if key < len(cells) else "" for name, key in keys.items() if isinstance(key, int)
            }
            refuse_names(first[0].place, columns, cells, form)
        self.doubt_divider(first, form, table)
        if form == "tags":
            doubt_words(first, table, self.keys(table, form)["words"])
        return table

    def names_fields(self, row: SheetRow, form: Form) -> bool:
        """Whether a line has the very names that are looked for: that is a header, and no sample."""
        cells = {str(cell).strip() for cell in row.cells or ()}
        if FormSpec.parse(form).parts:  # there are many names for them
            return all(map(WORD.fullmatch, cells)) and bool(find_columns(form, sorted(cells), {}))
        return not self.told() and len(FormSpec.parse(form).holds) > 1 and cells >= set(FormSpec.parse(form).holds)

    def doubt_divider(self, first: Sequence[SheetRow], form: Form, table: Sheet) -> None:
        """Ask whether something else stands between the cells, where no line has as many as are wanted."""
        whole = [row for row in first if row.cells]
        if len(self.keys(table, form)) < 2 or not whole or any(len(row.cells or ()) > 1 for row in whole):
            return
        texts = [str(row.cells[0]) for row in whole if isinstance(row.cells, Sequence)]
        here = DIVIDERS.get(self.divider, self.divider)
        for sign, name in DIVIDERS.items():
            count = texts[0].count(sign)
            if count and sum(text.count(sign) == count for text in texts) >= MOSTLY * len(texts):
                settings = {"kind": "csv"} if sign == "," else {"kind": "csv", "delimiter": repr(sign)}
                told = f"{whole[0].place}: no {here}, but {count} {name}{'s' * (count > 1)} a line"
                raise Doubt(
                    told, spell_settings(settings), {f"{name}s divide the cells": {"kind": "csv", "delimiter": sign}}
                )

    def check_width(self, row: SheetRow, most: int, form: Form, log: Log) -> SheetRow:
        assert row.cells is not None
        if len(row.cells) >= most:
            return row
        empty = not "".join(map(str, row.cells)).strip()
        log.reject(row.place, "empty line" if empty else f"too few columns: {len(row.cells)} of {most}")
        return replace(row, cells=None)


def doubt_objects(first: Sequence[SheetRow]) -> None:
    """Ask about lines that aren't cells at all."""
    whole = [row for row in first if row.cells]
    lines = [" ".join(map(str, row.cells or ())) for row in whole]
    if lines and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines):
        told = f"{whole[0].place}: not cells, but an object of JSON a line"
        raise Doubt(told, "kind: jsonl", {"JSON lines": {"kind": "jsonl"}})


def read_header(table: Sheet) -> tuple[str, ...]:
    """The names in a table's first line, which is taken from it."""
    first = next(table.rows, None)
    if first is None:
        return ()
    if first.cells is None:
        raise DataError(f"{first.place}: this line should name the columns, and can't be read", "mend it")
    names = tuple(str(cell).strip() for cell in first.cells)
    twice = next((name for name in names if names.count(name) > 1 and name), None)
    if twice is not None:
        raise DataError(
            f"{first.place}: two columns are called {twice!r}", "header: true, and columns by their numbers"
        )
    return names


def doubt_words(first: Sequence[SheetRow], table: Sheet, key: int | str) -> None:
    """Ask about rows that have one word each: a sentence is a row here."""
    cells = [str(table.get(row.cells, key) or "") for row in first if row.cells]
    if len(cells) > 2 and all(len(cell.split()) == 1 for cell in cells):
        raise Doubt(
            f"{first[0].place}: one word a row, and a row should be a sentence",
            "kind: columns, for files with a word a line",
            {"a word a line": {"kind": "columns"}},
        )
