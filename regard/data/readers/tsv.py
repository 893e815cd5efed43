"""Pairs in columns that tabs divide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Count, Size
from regard.data.header import body, refuse_names
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.reader import PairReader, Paths, list_paths


class TSV(PairReader):
    """One line a pair, columns divided by tabs; columns count from 0."""

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")
    kind: Literal["tsv"] = "tsv"
    path: Paths
    source: Count = 0
    """The column of the source text, counted from 0."""
    target: Count = 1
    """The column of the target text, counted from 0."""
    header: bool | None = None
    longest: Size = LONGEST

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        wanted = max(self.source, self.target) + 1
        for path in list_paths(self.path):
            for number, line in enumerate(body(lines(path, log, self.longest), self.header)):
                if not number and self.header is None:
                    cells = [*(line.text or "").split("\t"), *[""] * wanted]
                    refuse_names(line.place, {"source": cells[self.source], "target": cells[self.target]})
                yield self.columns(line, wanted, log)

    def columns(self, line: Line, wanted: int, log: Log) -> tuple[Line, Line]:
        """The two columns of a line, without text where they can't be had."""
        nothing = Line(line.place, None)
        if line.text is None:
            return nothing, nothing
        found, repaired = line.text.split("\t"), line.repaired
        if len(found) < wanted:
            empty = not line.text.strip()
            log.reject(line.place, "empty line" if empty else f"too few columns: {len(found)} of {wanted}")
            return nothing, nothing
        if len(found) > wanted and wanted == 2:
            if not log.mend(line.place, f"too many columns: {len(found)}, and {wanted} are wanted"):
                return nothing, nothing
            repaired = True
        return Line(line.place, found[self.source], repaired), Line(line.place, found[self.target])
