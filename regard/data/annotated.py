"""Readers of text for other tasks than translation: documents, texts with a label, words with tags.

CoNLL-U (Universal Dependencies) and files of two columns for tags, TSV and JSON lines for labels. What can't be used is
counted and located in the log, like a bad pair.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from regard.core.spec import Count, Size
from regard.data.header import body, check_labels, check_tags, refuse_names
from regard.data.lines import LONGEST, Line, clean, lines
from regard.data.log import Log
from regard.data.readers import Paths, ReaderSpec, list_paths
from regard.data.sample import Form, Sample
from regard.errors import DataError

JSON = (".jsonl", ".json")  # endings of files with an object a line; others have columns


class Documents(ReaderSpec):
    """Running text: a document is a whole file, or a paragraph of it (up to an empty line), or a line."""

    form: ClassVar[Form] = "documents"
    kind: Literal["documents"] = "documents"
    path: Paths
    unit: Literal["file", "paragraph", "line"] = "file"
    longest: Size = LONGEST  # bytes of a line

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in list_paths(self.path):
            for place, text in self._documents(path, log):
                if not text.strip():
                    log.skip(place, "empty document")
                    continue
                log.keep()
                yield {"text": text, "place": place}

    def _documents(self, path: str, log: Log) -> Iterator[tuple[str, str]]:
        begin, held = f"{path}:1", list[str]()
        for line in lines(path, log, self.longest):
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


class Labels(ReaderSpec):
    """A text, or two, and its label: columns divided by tabs (counted from 0), or JSON lines with keys."""

    form: ClassVar[Form] = "labels"
    kind: Literal["labels"] = "labels"
    path: Paths
    text: Count | str = 0
    second: Count | str | None = None
    label: Count | str = 1
    header: bool | None = None  # whether the first line names the columns; None: one that looks like it is refused
    many: bool = False  # whether nearly every text may have a label of its own
    longest: Size = LONGEST

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in list_paths(self.path):
            whole = path.removesuffix(".gz").endswith(JSON)
            named = [key for key in self._wanted().values() if isinstance(key, str)]
            if named and not whole:
                raise DataError(f"{path}: columns that tabs divide have numbers, not names: {named[0]!r}", "text: 0")
            for number, line in enumerate(body(lines(path, log, self.longest), self.header and not whole)):
                entry = None if line.text is None else self._parsed(line, log) if whole else self._cut(line, log)
                if entry is not None and not number and self.header is None and not whole:
                    refuse_names(line.place, entry)
                if entry is None:
                    log.drop()
                elif not all(text.strip() for text in entry.values()):
                    empty = next(name for name, text in entry.items() if not text.strip())
                    log.skip(line.place, f"empty: {empty}")
                else:
                    log.keep(line.repaired)
                    yield {**{name: text.strip() for name, text in entry.items()}, "place": line.place}

    def check_samples(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        tabular = not any(path.removesuffix(".gz").endswith(JSON) for path in list_paths(self.path))
        headless = self.header is None and tabular
        return check_labels(samples, self.many, f"text: {self.label}, label: {self.text}", headless)

    def _wanted(self) -> dict[str, int | str]:
        wanted: dict[str, int | str | None] = {"text": self.text, "second": self.second, "label": self.label}
        return {name: key for name, key in wanted.items() if key is not None}

    def _cut(self, line: Line, log: Log) -> dict[str, str] | None:
        columns = (line.text or "").split("\t")
        wanted = {name: key for name, key in self._wanted().items() if isinstance(key, int)}
        most = max(wanted.values(), default=0) + 1
        if len(columns) < most:
            empty = not (line.text or "").strip()
            log.reject(line.place, "empty line" if empty else f"too few columns: {len(columns)} of {most}")
            return None
        return {name: columns[key] for name, key in wanted.items()}

    def _parsed(self, line: Line, log: Log) -> dict[str, str] | None:
        try:
            entry = json.loads(line.text or "")
        except (ValueError, RecursionError):
            log.reject(line.place, "not JSON" if (line.text or "").strip() else "empty line")
            return None
        found: dict[str, str] = {}
        for name, given in self._wanted().items():
            key = name if isinstance(given, int) else given  # in an object the usual keys are the names
            value = entry.get(key) if isinstance(entry, dict) else None
            if not isinstance(value, str | int) or isinstance(value, bool):
                log.reject(line.place, f"no text: {key!r}")
                return None
            text = clean(str(value), line.place, log).text
            if text is None:
                return None
            found[name] = text
        return found


class SentenceReader(ReaderSpec):
    """Words one a line, sentences divided by an empty line. A sentence with a bad line is left out whole."""

    form: ClassVar[Form] = "tags"
    path: Paths
    longest: Size = LONGEST

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in list_paths(self.path):
            yield from self._sentences(path, log)

    def _sentences(self, path: str, log: Log) -> Iterator[Sample]:
        words, tags, begin, whole = list[str](), list[str](), "", True
        for line in itertools.chain(self.lines(path, log), [Line("", "")]):
            if line.text is not None and not line.text.strip():
                if words and whole:
                    log.keep()
                    yield {"words": words, "tags": tags, "place": begin}
                elif not whole:
                    log.drop()
                words, tags, whole = [], [], True
                continue
            found = None if line.text is None else self.cut(line.text, line.place, log)
            if found is None:
                whole = False
            elif found:
                begin = begin if words else line.place
                words.append(found[0])
                tags.append(found[1])

    def lines(self, path: str, log: Log) -> Iterator[Line]:
        """The lines that hold words."""
        return lines(path, log, self.longest)

    def cut(self, text: str, place: str, log: Log) -> tuple[str, str] | tuple[()] | None:
        """A line's word and tag; () for a line that has none, None for a bad one."""
        raise NotImplementedError


class CoNLLU(SentenceReader):
    """Universal Dependencies' ten columns; words of several tokens (`1-2`) and empty nodes (`1.1`) have no tag."""

    kind: Literal["conllu"] = "conllu"
    column: Literal["upos", "xpos"] = "upos"

    def cut(self, text: str, place: str, log: Log) -> tuple[str, str] | tuple[()] | None:
        if text.startswith("#"):
            return ()
        columns = text.split("\t")
        if len(columns) != 10:
            log.reject(place, f"not CoNLL-U: {len(columns)} columns, and there must be 10, divided by tabs")
            return None
        if re.fullmatch(r"\d+-\d+|\d+\.\d+", columns[0]):
            return ()
        if not columns[0].isdecimal():
            log.reject(place, f"not CoNLL-U: {columns[0][:20]!r} is no word's number")
            return None
        form, tag = columns[1].strip(), columns[3 if self.column == "upos" else 4].strip()
        if not form or tag in ("", "_"):
            log.reject(place, "not CoNLL-U: " + ("there is no word" if not form else f"{form[:20]!r} has no tag"))
            return None
        return form, tag


class Columns(SentenceReader):
    """A word and its tag on each line, divided by a tab or by spaces; columns count from 0, and -1 is the last."""

    kind: Literal["columns"] = "columns"
    word: int = 0
    tag: int = -1
    header: bool | None = None  # whether the first line names the columns; None: one that looks like it is refused
    many: bool = False  # whether there may be more tags than words

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
        for number, line in enumerate(body(lines(path, log, self.longest), self.header)):
            cells = (line.text or "").split()
            if not number and self.header is None and len(cells) > 1:
                refuse_names(line.place, {"word": cells[0], "tag": cells[-1]})
            yield line

    def check_samples(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        return check_tags(samples, self.many)
