"""Readers of parallel text: two aligned files, TSV, JSON lines; plain or gzip, streamed.

Each is a spec that yields pairs of source and target. What can't be used is counted and located in the log.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from regard.core.spec import Count, FileName, Size, Spec
from regard.data.header import body, refuse_names
from regard.data.lines import LONGEST, Line, clean, lines
from regard.data.log import Log
from regard.data.sample import Form, Sample
from regard.errors import DataError

Paths = FileName | tuple[FileName, ...]
Pair = tuple[str, str]


class ReaderSpec(Spec):
    """Where samples come from."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    files: ClassVar[tuple[str, ...]] = ("path",)  # the settings that name files
    form: ClassVar[Form] = "pairs"  # of its samples

    def under(self, folder: Path) -> Self:
        """The same with its files looked for in a folder; absolute paths and standard input stay."""

        def placed(path: str) -> str:
            return path if path == "-" else str(folder / path)

        found = {name: tuple(placed(path) for path in list_paths(getattr(self, name))) for name in self.files}
        return self.replace(**found)

    def samples(self, log: Log) -> Iterator[Sample]:
        """One sample after the other; never the whole corpus in memory."""
        raise NotImplementedError

    def check_samples(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The same samples; an error where all of them together don't look like something to learn from."""
        return samples


class PairReader(ReaderSpec):
    """Where pairs of source and target come from."""

    def pairs(self, log: Log) -> Iterator[Pair]:
        """Source and target, one pair after the other; never the whole corpus in memory."""
        return ((sample["source"], sample["target"]) for sample in self.samples(log))

    def samples(self, log: Log) -> Iterator[Sample]:
        for source, target in self.raw(log):
            if source.text is None or target.text is None:
                log.drop()
                continue
            texts = source.text.strip(), target.text.strip()
            if not all(texts):
                log.skip(source.place, "empty: source" if not texts[0] else "empty: target")
                continue
            log.keep(source.repaired or target.repaired)
            yield {"source": texts[0], "target": texts[1], "place": source.place}

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        """Both sides of every entry, as they stand in the file; an unusable one has no text."""
        raise NotImplementedError


def list_paths(paths: Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths


def reader(paths: Sequence[str]) -> PairReader:
    """The reader that a user means by one file, told by its name, or by a source and a target file.

    A translation memory may be followed by its two languages.
    """
    if len(paths) == 2:
        return Text(source=paths[0], target=paths[1])
    kinds = {"tsv": "tsv", "txt": "tsv", "jsonl": "jsonl", "po": "po", "tmx": "tmx"}
    suffix = Path(paths[0].removesuffix(".gz")).suffix.removeprefix(".").lower() if paths else ""
    if len(paths) == 3 and suffix == "tmx":
        return PairReader.parse({"kind": "tmx", "path": paths[0], "source": paths[1], "target": paths[2]})
    if len(paths) != 1:
        raise DataError(f"{len(paths)} files: one with both languages, or a source and a target", "test.en test.fr")
    if suffix not in kinds:
        known = ", ".join(f".{name}" for name in kinds)
        raise DataError(f"{paths[0]}: its name ends in none of {known}", "two files, or a file in one of these formats")
    return PairReader.parse({"kind": kinds[suffix], "path": paths[0]})


class Text(PairReader):
    """Two files, or two lists of files, whose lines are translations of each other."""

    files: ClassVar[tuple[str, ...]] = ("source", "target")
    kind: Literal["text"] = "text"
    source: Paths
    target: Paths
    header: bool | None = None  # whether the first line of each has a name; None: one that looks like it is refused
    longest: Size = LONGEST

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        sources, targets = list_paths(self.source), list_paths(self.target)
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
        ones, others = lines(source, log, self.longest), lines(target, log, self.longest)
        for count, (one, other) in enumerate(itertools.zip_longest(ones, others)):
            if one is None or other is None:
                more = 1 + sum(1 for _ in (others if one is None else ones))
                left, right = (count, count + more) if one is None else (count + more, count)
                raise DataError(
                    f"{source} has {left} lines and {target} has {right}: they can't be translations line by line",
                    "check that both files are whole",
                )
            yield one, other


class TSV(PairReader):
    """One line a pair, columns divided by tabs; columns count from 0."""

    kind: Literal["tsv"] = "tsv"
    path: Paths
    source: Count = 0
    target: Count = 1
    header: bool | None = None  # whether the first line names the columns; None: one that looks like it is refused
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


class JSONL(PairReader):
    """One JSON object a line."""

    kind: Literal["jsonl"] = "jsonl"
    path: Paths
    source: str = "source"
    target: str = "target"
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
