"""A folder with a data set of Hugging Face: as `save_to_disk` leaves it, or files of tables whose names tell splits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from regard.data.arrow import find_classes
from regard.data.encoding import UTF8
from regard.data.log import Log
from regard.data.packing import strip_packing
from regard.data.reader import ReaderSpec, choose_reader, guess_kind
from regard.data.sample import Form
from regard.data.sheet import Sheet
from regard.data.source import list_folder, list_paths
from regard.data.table import TableReader
from regard.errors import DataError

SPLITS, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"  # what `save_to_disk` writes
# what splits are called in the names of files and folders: `train-00000-of-00001.parquet`, `dev.csv`, `test/0.jsonl`
ALIASES = {"train": ("train", "training"), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}


class Dataset(TableReader):
    """A folder of tables with splits: Arrow as `save_to_disk` writes it, Parquet, CSV, JSON."""

    kind: Literal["dataset"] = "dataset"
    split: str | None = None
    """The split that is read; unless given, the one that is wanted, and all rows where there are no splits."""

    def settle(self, form: Form, split: str, folder: Path) -> ReaderSpec:
        return self if self.split is not None else self.replace(split=split)

    def turn_to(self, names: Sequence[str], form: Form) -> ReaderSpec | None:
        asked = choose_reader(form, names)  # of another folder, the split to test on
        return asked.replace(**self.told()) if isinstance(asked, TableReader) else None

    def list_splits(self, folder: Path) -> list[str]:
        """The splits that its folder has."""
        return [split for path in list_paths(self.path) for split in find_splits(folder / path)]

    def tables(self, form: Form, log: Log) -> Iterator[Sheet]:
        for path in list_paths(self.path):
            found = find_splits(Path(path))
            if not found:
                raise DataError(f"{path}: no data set in this folder", "kind: documents, for a folder of texts")
            split = self.split or "train"
            chosen = found.get(split, found.get("") if split == "train" else None)
            if chosen is None:
                there = ", ".join(name or "one without a name" for name in found)
                raise DataError(f"{path}: no split {split!r}; there are: {there}", f"split: {next(iter(found))}")
            classes = read_info(Path(path), split)
            for file in chosen:
                yield self.open_file(str(file), form, log, classes)

    def open_file(self, path: str, form: Form, log: Log, classes: dict[str, list[str]]) -> Sheet:
        reader = ReaderSpec.parse({"kind": guess_kind(path), "path": path, "many": self.many, **self.told()})
        assert isinstance(reader, TableReader)
        table = reader.open(path, form, log)
        table.classes = table.classes or classes
        return table


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """The files of each split, in order; one without a name where names tell none. Empty: there is no data set."""
    listed = read_json(folder / SPLITS).get("splits")
    if isinstance(listed, list):
        names = [name for name in listed if isinstance(name, str) and Path(name).name == name]
        return {name: files for name in names if (files := list_saved(folder / name))}
    if saved := list_saved(folder):
        return {"": saved}
    found: dict[str, list[Path]] = {}
    names = [name for name in list_folder(folder) if is_table(name)] if folder.is_dir() else []
    for name in names:
        found.setdefault(name_split(name), []).append(folder / name)
    # a file that tells no split, beside those that do, is something else
    return {split: files for split, files in found.items() if split} or found


def is_table(name: str) -> bool:
    """Whether a file's ending says that it is a table."""
    kind = guess_kind(name)
    return kind is not None and issubclass(ReaderSpec.kinds[kind], TableReader)


def list_saved(folder: Path) -> list[Path]:
    """The files of one data set, as its state lists them."""
    files = read_json(folder / STATE).get("_data_files")
    names = [file.get("filename") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return [folder / name for name in names if isinstance(name, str) and Path(name).name == name]


def name_split(name: str) -> str:
    """The split that a file's name tells, or its folder's; nothing where none does."""
    for part in reversed(Path(strip_packing(name)).parts):
        word = part.replace("_", "-").replace(".", "-").partition("-")[0]
        if found := next((split for split, words in ALIASES.items() if word in words), None):
            return found
    return ""


def read_info(folder: Path, split: str) -> dict[str, list[str]]:
    """The names of classes that stand beside the rows."""
    info = read_json(folder / split / INFO) or read_json(folder / INFO)
    features = info.get("features")
    return find_classes(features) if isinstance(features, dict) else {}


def read_json(path: Path) -> dict[str, Any]:
    """A small file's object; empty where there is none."""
    try:
        found = json.loads(path.read_text(encoding=UTF8))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
