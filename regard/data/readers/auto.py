"""Files whose reader isn't told: their names tell it, or what lies in a folder or an archive."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST
from regard.data.log import Log
from regard.data.reader import Key, ReaderSpec, choose_reader, guess_kind
from regard.data.readers.dataset import find_splits
from regard.data.sample import Form, Sample
from regard.data.source import STANDARD_INPUT, list_archive, list_folder, list_paths, split_member
from regard.data.table import TableReader
from regard.errors import DataError, SpecError


class Auto(TableReader):
    """Whichever reader takes the files; columns as of tables, if it is one."""

    kind: Literal["auto"] = "auto"
    header: bool | None = None
    longest: Size = LONGEST
    encoding: Encoding = UTF8
    unit: Literal["file", "paragraph", "line"] | None = None
    """A document is a whole file, a paragraph (up to an empty line), or a line, where the files are running text."""

    def settle(self, form: Form, split: str, folder: Path) -> ReaderSpec:
        """The reader that is meant, on the same paths."""
        told = {name: value for name, value in self.fields().items() if name in self.model_fields_set - {"kind"}}
        kind = self.find_kind(form, folder)
        return ReaderSpec.parse({**told, "kind": kind}).settle(form, split, folder)

    def find_kind(self, form: Form, folder: Path) -> str:
        """The kind of the reader that takes these files."""
        paths = list_paths(self.under(folder).path)
        if len(paths) == 1 and Path(paths[0]).is_dir() and find_splits(Path(paths[0])):
            return "dataset"
        inside = [name for path in paths for name in list_inside(path)]
        if inside:
            return choose_kind(form, inside, str(paths[0]))
        if self.unit is not None:
            return "documents"
        if self.told() and not guess_kind(paths):
            return "tsv"  # columns are named, and nothing says that it isn't the simplest of tables
        return choose_reader(form, paths).kind

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        return self.settle(form, "train", Path()).read(form, log, by)

    def samples(self, log: Log) -> Iterator[Sample]:
        raise SpecError("auto: which form is wanted?", "kind: text, documents, labels, …")


def list_inside(path: str) -> list[str]:
    """The names of the files in a folder or an archive, which tell more than its own; none for a plain file."""
    if path == STANDARD_INPUT or glob.has_magic(path) or split_member(path)[1]:
        return []
    if not Path(path).exists():
        raise DataError(f"{path}: No such file or directory", "check the path")
    found = list_folder(Path(path)) if Path(path).is_dir() else list_archive(path)
    if found is not None and not found:
        raise DataError(f"{path}: it is empty", "check the path")
    return found or []


def choose_kind(form: Form, names: list[str], place: str) -> str:
    """The one kind of reader that takes the files of a folder or an archive; others may lie beside them."""
    readers = {kind: reader for kind, reader in ReaderSpec.kinds.items() if issubclass(reader, ReaderSpec)}
    found = {guess_kind(name, inside=True) for name in names}
    told = {kind for kind in found if kind and form in readers[kind].list_forms()}
    kinds = told or {kind for name in names for kind in _try_kind(form, name)}
    if len(kinds) != 1:
        there = f"files for {', '.join(sorted(kinds))}" if kinds else "no file that a reader knows"
        raise DataError(f"{place}: {there}; there are {', '.join(names[:5])}", "kind: csv, documents, …")
    return kinds.pop()


def _try_kind(form: Form, name: str) -> list[str]:
    try:
        return [choose_reader(form, [name]).kind]
    except DataError:
        return []
