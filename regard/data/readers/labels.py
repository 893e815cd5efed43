"""Texts with a label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Count, Size
from regard.data.header import body, check_labels, refuse_names
from regard.data.lines import LONGEST, Line, clean, lines
from regard.data.log import Log
from regard.data.reader import ANY, Paths, ReaderSpec, list_paths
from regard.data.sample import Form, Sample
from regard.errors import DataError

JSON = (".jsonl", ".json")  # endings of files with an object a line; others have columns


class Labels(ReaderSpec):
    """A text, or two, and its label: columns divided by tabs (counted from 0), or JSON lines with keys."""

    form: ClassVar[Form] = "labels"
    suffixes: ClassVar[tuple[str, ...]] = (ANY,)
    kind: Literal["labels"] = "labels"
    path: Paths
    text: Count | str = 0
    """The column, counted from 0, or the key of the text."""
    second: Count | str | None = None
    """The column or the key of a second text, where a sample has two."""
    label: Count | str = 1
    """The column or the key of the label."""
    header: bool | None = None
    many: bool = False
    """Nearly every text may have a label of its own; else that is taken for a mistake."""
    longest: Size = LONGEST

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in list_paths(self.path):
            whole = path.removesuffix(".gz").endswith(JSON)
            named = [key for key in self._wanted().values() if isinstance(key, str)]
            if named and not whole:
                raise DataError(f"{path}: columns that tabs divide have numbers, not names: {named[0]!r}", "text: 0")
            for number, line in enumerate(body(lines(path, log, self.longest), self.header and not whole)):
                entry = None if line.text is None else self._parsed(line, log) if whole else self._cut(line, log)
                if entry is not None and not number and self.header is None and not whole:
                    refuse_names(line.place, entry)
                if entry is None:
                    log.drop()
                elif not all(text.strip() for text in entry.values()):
                    empty = next(name for name, text in entry.items() if not text.strip())
                    log.skip(line.place, f"empty: {empty}")
                else:
                    log.keep(line.repaired)
                    yield {**{name: text.strip() for name, text in entry.items()}, "place": line.place}

    def check_samples(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        tabular = not any(path.removesuffix(".gz").endswith(JSON) for path in list_paths(self.path))
        headless = self.header is None and tabular
        return check_labels(samples, self.many, f"text: {self.label}, label: {self.text}", headless)

    def _wanted(self) -> dict[str, int | str]:
        wanted: dict[str, int | str | None] = {"text": self.text, "second": self.second, "label": self.label}
        return {name: key for name, key in wanted.items() if key is not None}

    def _cut(self, line: Line, log: Log) -> dict[str, str] | None:
        columns = (line.text or "").split("\t")
        wanted = {name: key for name, key in self._wanted().items() if isinstance(key, int)}
        most = max(wanted.values(), default=0) + 1
        if len(columns) < most:
            empty = not (line.text or "").strip()
            log.reject(line.place, "empty line" if empty else f"too few columns: {len(columns)} of {most}")
            return None
        return {name: columns[key] for name, key in wanted.items()}

    def _parsed(self, line: Line, log: Log) -> dict[str, str] | None:
        try:
            entry = json.loads(line.text or "")
        except (ValueError, RecursionError):
            log.reject(line.place, "not JSON" if (line.text or "").strip() else "empty line")
            return None
        found: dict[str, str] = {}
        for name, given in self._wanted().items():
            key = name if isinstance(given, int) else given  # in an object the usual keys are the names
            value = entry.get(key) if isinstance(entry, dict) else None
            if not isinstance(value, str | int) or isinstance(value, bool):
                log.reject(line.place, f"no text: {key!r}")
                return None
            text = clean(str(value), line.place, log).text
            if text is None:
                return None
            found[name] = text
        return found
