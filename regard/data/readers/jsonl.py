"""Pairs as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.lines import LONGEST, Line, clean, lines
from regard.data.log import Log
from regard.data.reader import Pair, PairReader, Paths, list_paths


class JSONL(PairReader):
    """One JSON object a line."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    kind: Literal["jsonl"] = "jsonl"
    path: Paths
    source: str = "source"
    """The key of the source text."""
    target: str = "target"
    """The key of the target text."""
    longest: Size = LONGEST

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        for path in list_paths(self.path):
            for line in lines(path, log, self.longest):
                found = None if line.text is None else self.parsed(line.text, line.place, log)
                if found is None:
                    yield Line(line.place, None), Line(line.place, None)
                else:
                    source, target = (clean(text, line.place, log) for text in found)
                    yield source, replace(target, repaired=target.repaired or line.repaired)

    def parsed(self, text: str, place: str, log: Log) -> Pair | None:
        if not text.strip():
            log.reject(place, "empty line")
            return None
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            log.reject(place, "not JSON")
            return None
        if not isinstance(entry, dict):
            log.reject(place, "not an object")
            return None
        source, target = entry.get(self.source), entry.get(self.target)
        if not isinstance(source, str) or not isinstance(target, str):
            missing = self.source if not isinstance(source, str) else self.target
            log.reject(place, f"no text: {missing!r}")
            return None
        return source, target
