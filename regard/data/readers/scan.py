"""Commands and the actions that they stand for, as SCAN writes them (Lake & Baroni 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.reader import PairReader
from regard.data.source import Paths

PAIR = re.compile(r"IN:\s*(.*\S)\s+OUT:\s*(.*\S)\s*")


class Commands(PairReader):
    """A command and its actions on each line: `IN: jump twice OUT: I_JUMP I_JUMP`."""

    inside: ClassVar[tuple[str, ...]] = (".txt",)
    kind: Literal["scan"] = "scan"
    path: Paths
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        for path in self.find(self.path):
            for line in lines(path, log, self.longest, self.encoding):
                pair = None if line.text is None else PAIR.fullmatch(line.text)
                if pair is None and line.text is not None:
                    log.reject(line.place, "not a command and its actions: IN: … OUT: …")
                source, target = (None, None) if pair is None else pair.groups()
                yield replace(line, text=source), replace(line, text=target)
