"""Columns that commas or other signs divide, with quotes around cells that hold such signs, quotes or newlines.

A row that can't be cut is left out by itself: reading goes on at the next line, so that one quote which never ends
doesn't swallow the file.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from itertools import chain, islice
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.data.cell import DIVIDERS, CellReader
from regard.data.lines import Line, lines
from regard.data.log import Log
from regard.data.sheet import AHEAD, SheetRow


class CSV(CellReader):
    """One row a line, or more lines where a quoted cell holds newlines; a quote within quotes is written twice."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    kind: Literal["csv"] = "csv"
    delimiter: str | None = None
    """This sign divides cells; unless given, a comma, semicolon, tab or bar, whichever the first lines agree on."""
    quote: str = '"'
    """This sign stands around cells that hold others; where it is nothing, quotes are letters like others."""

    @model_validator(mode="after")
    def check_signs(self) -> Self:
        for name, sign in (("delimiter", self.delimiter), ("quote", self.quote)):
            if sign is not None and (len(sign) > 1 or sign in ("\n", "\r") or (name == "delimiter" and not sign)):
                raise ValueError(f"{name}: one sign, and not {sign!r}")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote: both are {self.quote!r}")
        return self

    @property
    def divider(self) -> str:
        return self.delimiter or ","

    def cut(self, path: str, log: Log) -> Iterator[SheetRow]:
        found = lines(path, log, self.longest, self.encoding)
        first = list(islice(found, AHEAD))
        delimiter = self.delimiter or choose_delimiter([line.text for line in first if line.text], self.quote)
        width = 0  # of the first row; another is a sign that stands unquoted in a text
        for row in cut_records(chain(first, found), delimiter, self.quote, self.longest, log):
            blank = row.cells is None or row.cells == [""]
            width = width if blank else width or len(row.cells or ())
            if not blank and len(row.cells or ()) != width:
                log.reject(row.place, f"columns: {len(row.cells or ())}, and the first row has {width}")
                yield SheetRow(row.place, None)
            else:
                yield row


def choose_delimiter(texts: list[str], quote: str) -> str:
    """The sign that cuts the most of the first lines into equally many cells, and most cells at that."""

    def agree(sign: str) -> tuple[int, int]:
        rows = (cut_cells(text, sign, quote) for text in texts)
        widths = Counter(len(cells) for cells in rows if isinstance(cells, list))
        width, lines = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(0, 0))
        return (lines, width) if width > 1 else (0, 0)

    return max(DIVIDERS, key=agree)


def cut_cells(text: str, delimiter: str, quote: str) -> list[str] | Literal["open", "torn"]:
    """The cells of a row; `open` where a quoted cell goes on in the next line, `torn` where text follows a quote."""
    if not quote or quote not in text:
        return text.split(delimiter)
    mark, end = re.escape(quote), re.escape(delimiter)
    inside = f"{mark}((?:[^{mark}]|{mark}{mark})*+)"
    quoted, unended = re.compile(rf"{inside}{mark}(?={end}|\Z)", re.DOTALL), re.compile(rf"{inside}\Z", re.DOTALL)
    cells, at = list[str](), 0
    while True:
        if not text.startswith(quote, at):
            border = text.find(delimiter, at)
            cells.append(text[at:] if border < 0 else text[at:border])
            at = len(text) if border < 0 else border
        elif found := quoted.match(text, at):
            cells.append(found[1].replace(quote * 2, quote))
            at = found.end()
        else:
            return "open" if unended.match(text, at) else "torn"
        if at == len(text):
            return cells
        at += len(delimiter)


def cut_records(found: Iterator[Line], delimiter: str, quote: str, longest: int, log: Log) -> Iterator[SheetRow]:
    """Rows of cells; what follows a bad one is read again from its second line on."""
    waiting = deque[Line]()
    while (line := waiting.popleft() if waiting else next(found, None)) is not None:
        if line.text is None:
            yield SheetRow(line.place, None)
            continue
        held, size, quotes = [line], len(line.text), line.text.count(quote) if quote else 0
        cells = cut_cells(line.text, delimiter, quote)
        while cells == "open" and size <= longest:
            more = waiting.popleft() if waiting else next(found, None)
            if more is None or more.text is None:
                waiting.extendleft([more] if more is not None else [])
                break
            held.append(more)
            size, quotes = size + len(more.text) + 1, quotes + more.text.count(quote)
            if quotes % 2 == 0:  # a whole row has an even number, so it is cut again only once
                cells = cut_cells("\n".join(str(part.text) for part in held), delimiter, quote)
        if isinstance(cells, list):
            yield SheetRow(line.place, cells, any(part.repaired for part in held))
            continue
        log.reject(line.place, "a quote that never ends" if cells == "open" else "text after a closing quote")
        waiting.extendleft(reversed(held[1:]))
        yield SheetRow(line.place, None)
