"""Words with tags in columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.data.header import body, check_tags, refuse_names
from regard.data.lines import Line
from regard.data.log import Log
from regard.data.reader import ANY, SentenceReader
from regard.data.sample import Form, Sample


class Columns(SentenceReader):
    """A word and its tag on each line, divided by a tab or by spaces; columns count from 0, and -1 is the last."""

    suffixes: ClassVar[tuple[str, ...]] = (ANY,)
    inside: ClassVar[tuple[str, ...]] = (".txt", ".tsv", ".conll", ".iob", ".bio")
    kind: Literal["columns"] = "columns"
    word: int = 0
    """The column of the word."""
    tag: int = -1
    """The column of the tag."""
    header: bool | None = None
    many: bool = False
    """There may be more different tags than words; else that is taken for a mistake."""

    def cut(self, text: str, place: str, log: Log) -> tuple[str, str] | tuple[()] | None:
        columns = text.split("\t") if "\t" in text else text.split()
        if columns[0] == "-DOCSTART-":  # CoNLL-2003 divides documents by it
            return ()
        try:
            found = columns[self.word].strip(), columns[self.tag].strip()
        except IndexError:
            found = "", ""
        if len(columns) < 2 or not all(found):
            log.reject(place, f"not a word and a tag: {len(columns)} columns")
            return None
        return found

    def lines(self, path: str, log: Log) -> Iterator[Line]:
        for number, line in enumerate(body(super().lines(path, log), self.header)):
            cells = (line.text or "").split()
            if not number and self.header is None and len(cells) > 1:
                refuse_names(line.place, {"word": cells[0], "tag": cells[-1]})
            yield line

    def check_samples(self, samples: Iterator[Sample], form: Form) -> Iterator[Sample]:
        return check_tags(samples, self.many, {"word": 1, "tag": 0})
