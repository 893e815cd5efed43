"""Texts with a label, as tables that tabs divide or as JSON lines: which of both, the ending tells file by file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.data.cell import CellReader
from regard.data.log import Log
from regard.data.packing import strip_packing
from regard.data.reader import ANY, Key
from regard.data.readers.json import open_json
from regard.data.readers.tsv import cut_tabs
from regard.data.sample import Form
from regard.data.sheet import Sheet, SheetRow
from regard.data.source import list_paths

JSON_LINES = (".jsonl", ".ndjson", ".json")  # endings of files with an object a line; others have columns


class Labels(CellReader):
    """A text, or two, and its label: columns divided by tabs (counted from 0, or named), or JSON lines with keys."""

    gives: ClassVar[tuple[Form, ...]] = ("labels",)
    suffixes: ClassVar[tuple[str, ...]] = (ANY,)
    inside: ClassVar[tuple[str, ...]] = (".tsv", ".txt", *JSON_LINES)
    kind: Literal["labels"] = "labels"

    def cut(self, path: str, log: Log) -> Iterator[SheetRow]:
        return cut_tabs(path, log, self.longest, self.encoding)

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        if not strip_packing(path).endswith(JSON_LINES):
            return super().open(path, form, log)
        return open_json(path, log, self.longest, self.encoding)

    def is_headless(self) -> bool:
        tabular = not any(strip_packing(path).endswith(JSON_LINES) for path in list_paths(self.path))
        return tabular and super().is_headless()

    def keys(self, table: Sheet, form: Form) -> dict[str, Key]:
        keys = super().keys(table, form)
        # in an object a number means nothing, and the usual keys are the names
        return keys if table.numbered else {name: name if isinstance(key, int) else key for name, key in keys.items()}
