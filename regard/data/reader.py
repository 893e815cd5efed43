"""Readers: where samples come from that stand in files; packed or not, streamed.

Each is a spec in a file of its own under `readers/`. What can't be used is counted and located in the log. A reader
whose kind isn't told is known by the ending of its files, and where that tells nothing, by looking at them (`auto`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.core.registry import Kinds
from regard.core.spec import Count, Size, Spec
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, Line, lines
from regard.data.log import Log
from regard.data.packing import strip_packing
from regard.data.sample import Form, FormSpec, Sample
from regard.data.source import Paths, find_files, list_paths, place_in
from regard.errors import DataError, InputError, SpecError

Pair = tuple[str, str]
Key = Count | str  # a column: its number from 0, or its name
ANY = ""  # the ending that every name has
UNTOLD = (".txt", ".tsv")  # endings that don't tell a reader before it is known which form is wanted


class ReaderSpec(Spec):
    """Where samples come from."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.data.readers")
    home: ClassVar[str | None] = "corpus.train"
    files: ClassVar[tuple[str, ...]] = ("path",)  # the settings that name files
    form: ClassVar[Form] = "pairs"  # of its samples
    gives: ClassVar[tuple[Form, ...]] = ()  # the forms that it can fill, where it isn't bound to one
    suffixes: ClassVar[tuple[str, ...]] = ()  # endings of the files that it takes where a user names no reader
    inside: ClassVar[tuple[str, ...]] = ()  # endings of those that it takes in a folder or an archive, if others
    meanings: ClassVar[Mapping[str, str]] = {
        "path": "A file, a glob, a folder, a zip archive or a member of it (a.zip:b.csv), - for standard input, or a "
        "list of these; what is packed (gz, xz, bz2, zst) is unpacked.",
        "longest": "A line with more bytes than this can't be used.",
        "header": "The first line names the columns. Unless given, a line that looks like it is refused.",
        "pixels": "A picture with more pixels than this can't be used; its header tells, before it is unpacked.",
        "encoding": "Text is written in this encoding, such as latin-1; a byte order mark tells UTF-16 by itself.",
    }

    @classmethod
    def complete(cls, value: Any) -> Any:
        """Settings from what may stand for a reader: the names of files, settings without a kind, or rows in Python."""
        if isinstance(cls.model_fields["kind"].default, str):
            return value
        if isinstance(value, str) and value not in cls.kinds:
            value = {"path": value}
        if isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value):
            value = {"path": tuple(value)}
        if isinstance(value, Mapping):
            # `train: a.csv` with the word corpus.train.header=true: a bare word is merged as if it were a kind
            name = value.get("kind")
            if isinstance(name, str) and name not in cls.kinds and _names_file(name):
                value = {"path": name, **{key: item for key, item in value.items() if key != "kind"}}
            told = "kind" in value or "path" not in value
            return value if told else {"kind": guess_kind(value["path"]) or "auto", **value}
        return {"kind": "rows", "rows": value} if not isinstance(value, str | Spec | None) else super().complete(value)

    @classmethod
    def list_forms(cls) -> tuple[Form, ...]:
        """The forms in which such readers can give samples, whatever their settings."""
        return cls.gives or (cls.form,)

    def forms(self) -> tuple[Form, ...]:
        """The forms in which it can give its samples."""
        return self.list_forms()

    def guess_form(self) -> Form:
        """The form of its samples where nobody has said which is wanted, as far as its files tell."""
        return self.forms()[0]

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        """This reader on some files, if their names say that it is meant where a form is wanted."""
        fitting = (strip_packing(name).endswith(cls.suffixes) for name in names)
        return cls.parse({"path": tuple(names)}) if names and all(fitting) else None

    @classmethod
    def describe_files(cls) -> str:
        """The files that it takes, for a user whose files nobody takes."""
        return ", ".join(cls.suffixes)

    def turn_to(self, names: Sequence[str], form: Form) -> ReaderSpec | None:
        """This reader with its settings on other files; None where their names ask for another reader."""
        return self.replace(path=tuple(names))

    def under(self, folder: Path) -> Self:
        """The same with its files looked for in a folder; absolute paths and standard input stay."""
        own = self.fields()
        return self.replace(
            **{name: tuple(place_in(folder, path) for path in list_paths(own[name])) for name in self.files}
        )

    def settle(self, form: Form, split: str, folder: Path) -> ReaderSpec:
        """This reader with all decided that was left to the files: it is to read a split, and its files are there."""
        return self

    def find(self, paths: Paths) -> list[str]:
        """The files that are meant by what stands for a path; a folder's or an archive's by this reader's endings."""
        return find_files(paths, self.inside or self.suffixes or (ANY,))

    def samples(self, log: Log) -> Iterator[Sample]:
        """One sample after the other; never the whole corpus in memory."""
        raise NotImplementedError

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        """The samples in one of its forms; `by`: a column of its rows that each sample is to have as its `group`."""
        return add_group(self.samples(log), form, by, self.kind)

    def check_samples(self, samples: Iterator[Sample], form: Form) -> Iterator[Sample]:
        """The same samples; an error where all of them together don't look like something to learn from."""
        return samples


def add_group(samples: Iterator[Sample], form: Form, by: Key | None, kind: str) -> Iterator[Sample]:
    """Samples with what keeps them together; what isn't a table has no columns but its samples' own fields."""
    if by is None:
        return samples
    spec = FormSpec.parse(form)
    known = [name for name in spec.holds if name not in spec.list_arrays()]
    if by not in known:
        raise SpecError(f"split.by: {kind} has no column {by!r}", f"by: {known[0]}" if known else "leave it out")
    return ({**sample, "group": str(sample[str(by)])} for sample in samples)


def _names_file(text: str) -> bool:
    """Whether a word is the name of a file, and not of a reader, which has no such signs."""
    return "." in text or "/" in text


def guess_kind(paths: Any, inside: bool = False) -> str | None:
    """The kind of reader that the endings of files tell, whatever form is wanted; None where they don't.

    `inside`: they lie in a folder or an archive that is read as a whole.
    """
    names = [paths] if isinstance(paths, str) else paths
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return None
    for kind, reader in ReaderSpec.kinds.items():
        if not issubclass(reader, ReaderSpec):
            continue
        endings = (inside and reader.inside) or reader.suffixes
        told = tuple(end for end in endings if end not in (ANY, *UNTOLD))
        if told and names and all(strip_packing(name).endswith(told) for name in names):
            return kind
    return None


class PairReader(ReaderSpec):
    """Where pairs of source and target come from."""

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        return super().take(names, form) if len(names) == 1 else None  # two are a source and a target

    def turn_to(self, names: Sequence[str], form: Form) -> ReaderSpec | None:
        asked = choose_reader(self.form, names)
        given = {name: value for name, value in asked.fields().items() if name in asked.model_fields_set - {"kind"}}
        return self.replace(**given) if asked.kind == self.kind else None

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
    encoding: Encoding = UTF8

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
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
        return lines(path, log, self.longest, self.encoding)

    def cut(self, text: str, place: str, log: Log) -> tuple[str, str] | tuple[()] | None:
        """A line's word and tag; () for a line that has none, None for a bad one."""
        raise NotImplementedError


def choose_reader(form: Form, names: Sequence[str]) -> ReaderSpec:
    """The reader that a user means by the names of some files, asked of every reader of that form."""
    kinds = [kind for kind in ReaderSpec.kinds.values() if issubclass(kind, ReaderSpec) and form in kind.list_forms()]
    known = "; ".join(filter(None, (kind.describe_files() for kind in kinds)))
    if not known:
        raise InputError(f"{form} can't be read from files", "leave --data out")
    if len(names) == 1 and (
        Path(names[0]).is_dir() or (names[0].lower().endswith(".zip") and Path(names[0]).is_file())
    ):
        return ReaderSpec.parse({"kind": "auto", "path": names[0]}).settle(form, "test", Path())  # it looks inside
    # a reader of any file comes after those that know an ending, and one of any form after those of this one
    for kind in sorted(kinds, key=lambda kind: (ANY in kind.suffixes, bool(kind.gives))):
        if (found := kind.take(names, form)) is not None:
            return found
    raise DataError(f"{', '.join(names) or 'no file'}: no reader of {form} takes such files", f"known: {known}")
