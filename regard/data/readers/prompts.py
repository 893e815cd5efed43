"""Prompts in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.dialogue import USER, say
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, lines
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths


class PromptLines(ReaderSpec):
    """One prompt a line, as a user would type it."""

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    form: ClassVar[Form] = "prompts"
    kind: Literal["prompts"] = "prompts"
    path: Paths
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
            for line in lines(path, log, self.longest, self.encoding):
                if line.text is None:
                    log.drop()
                elif not line.text.strip():
                    log.skip(line.place, "empty line")
                else:
                    log.keep(line.repaired)
                    yield {"prompt": [say(USER, line.text)], "place": line.place}
