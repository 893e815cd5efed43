"""Readers: where samples come from that stand in files; plain or gzip, streamed.

Each is a spec in a file of its own under `readers/`. What can't be used is counted and located in the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from regard.core.spec import FileName, Size, Spec
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.sample import Form, Sample
from regard.errors import DataError, InputError

Paths = FileName | tuple[FileName, ...]
Pair = tuple[str, str]
ANY = ""  # the ending that every name has


class ReaderSpec(Spec):
    """Where samples come from."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    home: ClassVar[str | None] = "corpus.train"
    files: ClassVar[tuple[str, ...]] = ("path",)  # the settings that name files
    form: ClassVar[Form] = "pairs"  # of its samples
    suffixes: ClassVar[tuple[str, ...]] = ()  # endings of the files that it takes where a user names no reader
    meanings: ClassVar[Mapping[str, str]] = {
        "path": "The file, or the list of files, that is read; a name that ends in .gz is unpacked.",
        "longest": "A line with more bytes than this can't be used.",
        "header": "The first line names the columns. Unless given, a line that looks like it is refused.",
    }

    @classmethod
    def take(cls, names: Sequence[str]) -> Self | None:
        """This reader on some files, if their names say that it is meant."""
        fitting = (name.lower().removesuffix(".gz").endswith(cls.suffixes) for name in names)
        return cls.parse({"path": tuple(names)}) if names and all(fitting) else None

    @classmethod
    def describe_files(cls) -> str:
        """The files that it takes, for a user whose files nobody takes."""
        return ", ".join(cls.suffixes)

    def turn_to(self, names: Sequence[str]) -> Self | None:
        """This reader with its settings on other files; None where their names ask for another reader."""
        return self.replace(path=tuple(names))

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

    @classmethod
    def take(cls, names: Sequence[str]) -> Self | None:
        return super().take(names) if len(names) == 1 else None  # two are a source and a target

    def turn_to(self, names: Sequence[str]) -> Self | None:
        asked = choose_reader(self.form, names)
        given = {name: value for name, value in asked.fields().items() if name in asked.model_fields_set - {"kind"}}
        return self.replace(**given) if asked.kind == self.kind else None

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


def list_paths(paths: Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths


def choose_reader(form: Form, names: Sequence[str]) -> ReaderSpec:
    """The reader that a user means by the names of some files, asked of every reader of that form."""
    kinds = [kind for kind in ReaderSpec.kinds.values() if issubclass(kind, ReaderSpec) and kind.form == form]
    if not kinds:
        raise InputError(f"{form} can't be read from files", "leave --data out")
    # a reader of any file comes after those that know an ending
    for kind in sorted(kinds, key=lambda kind: ANY in kind.suffixes):
        if (found := kind.take(names)) is not None:
            return found
    known = "; ".join(kind.describe_files() for kind in kinds)
    raise DataError(f"{', '.join(names) or 'no file'}: no reader of {form} takes such files", f"known: {known}")
