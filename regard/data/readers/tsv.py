"""Columns that tabs divide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self

from regard.data.cell import CellReader
from regard.data.lines import lines
from regard.data.log import Log
from regard.data.packing import strip_packing
from regard.data.sample import Form, FormSpec
from regard.data.sheet import SheetRow


class TSV(CellReader):
    """One line a row, columns divided by tabs and by nothing else; columns count from 0, or have names in a header."""

    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".txt")
    kind: Literal["tsv"] = "tsv"

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        # what else may end so: running text, words with tags a line, and labels as `labels` reads them
        if FormSpec.parse(form).parts:  # a file that ends in .txt has a prompt a line
            return super().take(names, form) if all(strip_packing(name).endswith(".tsv") for name in names) else None
        return super().take(names, form) if form in ("pairs", "images", "captions", "pictures") else None

    def cut(self, path: str, log: Log) -> Iterator[SheetRow]:
        return cut_tabs(path, log, self.longest, self.encoding)

    def check_width(self, row: SheetRow, most: int, form: Form, log: Log) -> SheetRow:
        wide = super().check_width(row, most, form, log)
        # a third column beside two texts is more likely a tab in one of them
        if wide.cells is None or form != "pairs" or most != 2 or len(wide.cells) == most:
            return wide
        if not log.mend(row.place, f"too many columns: {len(wide.cells)}, and {most} are wanted"):
            return replace(row, cells=None)
        return replace(row, repaired=True)


def cut_tabs(path: str, log: Log, longest: int, encoding: str) -> Iterator[SheetRow]:
    """The lines of a file, cut at tabs."""
    for line in lines(path, log, longest, encoding):
        yield SheetRow(line.place, None if line.text is None else line.text.split("\t"), line.repaired)
