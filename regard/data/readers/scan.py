"""Commands and the actions that they stand for, as SCAN writes them (Lake & Baroni 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, lines
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths

PAIR = re.compile(r"IN:\s*(.*\S)\s+OUT:\s*(.*\S)\s*")


class Commands(ReaderSpec):
    """A command and its actions on each line: `IN: jump twice OUT: I_JUMP I_JUMP`."""

    form: ClassVar[Form] = "pairs"
    inside: ClassVar[tuple[str, ...]] = (".txt",)
    kind: Literal["scan"] = "scan"
    path: Paths
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
            for line in lines(path, log, self.longest, self.encoding):
                if line.text is None:
                    log.drop()
                    continue
                pair = PAIR.fullmatch(line.text)
                if pair is None:
                    log.skip(line.place, "not a command and its actions: IN: … OUT: …")
                    continue
                log.keep(line.repaired)
                yield {"source": pair[1], "target": pair[2], "place": line.place}
