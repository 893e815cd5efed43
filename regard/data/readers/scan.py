"""Commands and the actions that they stand for, as SCAN writes them (Lake & Baroni 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.reader import PairReader
from regard.data.source import Paths, list_paths, place_in

PAIR = re.compile(r"IN:\s*(.*\S)\s+OUT:\s*(.*\S)\s*")


class Commands(PairReader):
    """A command and its actions on each line: `IN: jump twice OUT: I_JUMP I_JUMP`.

    Of one split of SCAN and another's training part, `without` makes a test set of what that training never shows.
    """

    inside: ClassVar[tuple[str, ...]] = (".txt",)
    kind: Literal["scan"] = "scan"
    path: Paths
    without: Paths | None = None
    """Commands that stand in these files too are left out; how many is told."""
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        if self.without is None:
            return placed
        return placed.replace(without=tuple(place_in(folder, path) for path in list_paths(self.without)))

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        # a line that can't be used is told of by who reads that file, not here
        others = [] if self.without is None else self._cut(self.without, Log())
        known, left = {source.text for source, _ in others if source.text is not None}, 0
        for source, target in self._cut(self.path, log):
            if source.text in known:
                left += 1
            else:
                yield source, target
        if self.without is not None:
            told = ", ".join(list_paths(self.without))
            log.notes.append(f"{log.split}: {left:,} commands are left out, which stand in {told} too")

    def _cut(self, paths: Paths, log: Log) -> Iterator[tuple[Line, Line]]:
        for path in self.find(paths):
            for line in lines(path, log, self.longest, self.encoding):
                pair = None if line.text is None else PAIR.fullmatch(line.text)
                if pair is None and line.text is not None:
                    log.reject(line.place, "not a command and its actions: IN: … OUT: …")
                source, target = (None, None) if pair is None else pair.groups()
                yield replace(line, text=source), replace(line, text=target)
