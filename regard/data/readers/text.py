"""Two files, line by line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.header import refuse_names
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.reader import PairReader
from regard.data.sample import Form
from regard.data.source import Paths
from regard.errors import DataError


class Text(PairReader):
    """Two files, or two lists of files, whose lines are translations of each other."""

    files: ClassVar[tuple[str, ...]] = ("source", "target")
    kind: Literal["text"] = "text"
    source: Paths
    """The file, or the list of files, of the source language."""
    target: Paths
    """The file, or the list of files, of the target language, line by line the translations."""
    header: bool | None = None
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        return cls(source=names[0], target=names[1]) if len(names) == 2 else None

    @classmethod
    def describe_files(cls) -> str:
        return "a source and a target file"

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        sources, targets = self.find(self.source), self.find(self.target)
        if len(sources) != len(targets):
            raise DataError(f"{len(sources)} source files and {len(targets)} target files", "list them in pairs")
        for source, target in zip(sources, targets, strict=True):
            found = self.aligned(source, target, log)
            if self.header:
                next(found, None)
            for number, (one, other) in enumerate(found):
                if not number and self.header is None:
                    refuse_names(one.place, {"source": one.text or "", "target": other.text or ""})
                yield one, other

    def aligned(self, source: str, target: str, log: Log) -> Iterator[tuple[Line, Line]]:
        ones, others = (lines(side, log, self.longest, self.encoding) for side in (source, target))
        for count, (one, other) in enumerate(itertools.zip_longest(ones, others)):
            if one is None or other is None:
                more = 1 + sum(1 for _ in (others if one is None else ones))
                left, right = (count, count + more) if one is None else (count + more, count)
                raise DataError(
                    f"{source} has {left} lines and {target} has {right}: they can't be translations line by line",
                    "check that both files are whole",
                )
            yield one, other
