"""Running text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, lines
from regard.data.log import Log
from regard.data.reader import ANY, ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths


class Documents(ReaderSpec):
    """Running text: a document is a whole file, or a paragraph of it (up to an empty line), or a line."""

    form: ClassVar[Form] = "documents"
    suffixes: ClassVar[tuple[str, ...]] = (ANY,)
    inside: ClassVar[tuple[str, ...]] = (".txt",)
    kind: Literal["documents"] = "documents"
    path: Paths
    unit: Literal["file", "paragraph", "line"] = "file"
    """A document is a whole file, a paragraph (up to an empty line), or a line."""
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
            for place, text in self._documents(path, log):
                if not text.strip():
                    log.skip(place, "empty document")
                    continue
                log.keep()
                yield {"text": text, "place": place}

    def _documents(self, path: str, log: Log) -> Iterator[tuple[str, str]]:
        begin, held = f"{path}:1", list[str]()
        for line in lines(path, log, self.longest, self.encoding):
            if line.text is None:
                log.drop()
            elif self.unit == "line":
                yield line.place, line.text
            elif self.unit == "paragraph" and not line.text.strip():
                if held:
                    yield begin, "".join(held)
                held = []
            else:
                begin = begin if held else line.place
                held.append(line.text + "\n")
        if held or (self.unit == "file"):
            yield begin, "".join(held)
