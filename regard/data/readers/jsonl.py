"""JSON, an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, lines
from regard.data.log import Log
from regard.data.sample import Form
from regard.data.sheet import Sheet, SheetRow
from regard.data.table import TableReader


class JSONL(TableReader):
    """One JSON object a line; fields by name, `translation.en` for one within another."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    kind: Literal["jsonl"] = "jsonl"
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        return Sheet.of_objects(path, read_objects(path, log, self.longest, self.encoding))


def read_objects(path: str, log: Log, longest: int, encoding: str) -> Iterator[SheetRow]:
    """The object of every line; a row without cells where there is none."""
    for line in lines(path, log, longest, encoding):
        found = None if line.text is None else parse_object(line.text, line.place, log)
        yield SheetRow(line.place, found, line.repaired)


def parse_object(text: str, place: str, log: Log) -> dict[str, Any] | None:
    """An object, or None where the text isn't one, and the log says so."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        log.reject(place, "not JSON" if text.strip() else "empty line")
        return None
    if not isinstance(found, dict):
        log.reject(place, "not an object")
        return None
    return found
