"""A corpus made ready: read once, cut into tokens once, and kept on disk, so that memory doesn't grow with it.

Each column that the task wants is a file of numbers, one sample after another, and beside it a file says where every
sample ends: `train.source`, `train.source.ends`. The other splits stay text, one JSON object a line,
and their arrays a file beside it. `data.json` is
written last: it has the counts, the digest of the text and the digests of the files, so a folder without it isn't ready
and a damaged one is found out.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.model import ModelSpec
from regard.data.column import Column, ColumnSet, ColumnSpec, Lengths
from regard.data.corpus import Split
from regard.data.lexicon import Lexicon
from regard.data.sample import FormSpec, Sample
from regard.data.spool import read_spool
from regard.errors import CheckpointError, DataError, SpecError
from regard.host.files import ASIDE, remove, replace

LIST, DATA = "files.json", "data.json"  # which files are ours, written first; and what they hold, written last
REPORT = "rejected.txt"  # every line that was left out or mended, and why


@dataclass
class Prepared:
    """A corpus that is ready to train on."""

    folder: Path
    facts: dict[str, Any]  # what data.json says
    columns: ColumnSet  # of the training split
    lexicon: Lexicon

    def __len__(self) -> int:
        """How many samples there are to train on."""
        return len(next(iter(self.columns.values())))

    def lengths(self, *names: str) -> Lengths:
        return Lengths(*(self.columns[name] for name in names))

    @property
    def digest(self) -> str:
        return str(self.facts["digest"])

    @property
    def limits(self) -> dict[str, int]:
        """Positions of the stacks of the model that it was made ready for, as it is trained."""
        return dict(self.facts["limits"][0])

    def suits(self, model: ModelSpec) -> bool:
        """Whether it was made ready for a model with as many positions."""
        return bool(self.facts["limits"] == list_limits(model))

    def has(self, split: Split) -> bool:
        return split in self.facts["samples"]

    def samples(self, split: Split) -> list[Sample]:
        """The samples of a small split, as text; arrays stay in their file until they are looked at."""
        if split == "train" or not self.has(split):
            there = ", ".join(name for name in self.facts["samples"] if name != "train") or "none"
            raise DataError(f"this run keeps no texts for {split!r}; there are: {there}", "--data FILE")
        return list(read_spool(self.folder, split, self.facts["form"], mapped=True))

    @classmethod
    def load(cls, folder: Path, dropout: float = 0.0) -> Prepared:
        """What `prepare` left in a folder, once its files are what they were."""
        facts = _facts(folder)
        for name, wanted in facts["files"].items():
            if digest(folder / name) != wanted:
                raise CheckpointError(f"{folder / name}: damaged, its digest isn't the one it was written with")
        lexicon = Lexicon.read(lambda name: content(folder, name), str(folder), dropout)
        specs = _read_columns(folder, facts)
        columns = ColumnSet(folder, {name: Column(folder / f"train.{name}", spec) for name, spec in specs.items()})
        for name, column in columns.items():
            if len(column) != facts["samples"]["train"] or not column.is_whole():
                raise CheckpointError(f"{folder}/train.{name}: damaged, its numbers aren't samples of this corpus")
        return cls(folder, facts, columns, lexicon)


def copy_prepared(prepared: Prepared, folder: Path) -> None:
    """The same in another folder, and nothing that others put beside it."""
    own = ours(prepared.folder)
    shutil.copytree(prepared.folder, folder, ignore=lambda _, names: [name for name in names if not own(name)])


def discard(folder: Path) -> bool:
    """Delete what `prepare` left in a folder, whole or not, and the folder if that was all; whether it is gone."""
    return remove(folder, ours(folder))


def ours(folder: Path) -> Callable[[str], bool]:
    """Which names in a folder `prepare` has written, or was about to write when it was killed."""
    names = {LIST}
    for listed in (LIST, DATA):
        try:
            found = json.loads((folder / listed).read_bytes())
            names |= {listed, *(found if isinstance(found, list) else (*found["files"], REPORT))}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # it isn't there, or was cut short
    return lambda name: name in names or bool((match := ASIDE.fullmatch(name)) and match["name"] in names)


def list_file(folder: Path, *names: str) -> None:
    """Enter files that are about to be written beside the data among those that are ours."""
    try:
        known = json.loads((folder / LIST).read_bytes())
    except (OSError, ValueError, RecursionError):
        known = None
    listed = known if isinstance(known, list) else []
    if missing := [name for name in names if name not in listed]:
        replace(folder / LIST, json.dumps([*listed, *missing]).encode())


def content(folder: Path, name: str) -> bytes | None:
    """A file's bytes, or None where there is none."""
    try:
        return (folder / name).read_bytes() if (folder / name).is_file() else None
    except OSError as error:
        raise CheckpointError(f"{folder / name}: {error.strerror}") from None


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / DATA
    try:
        facts = json.loads(path.read_bytes())
        types = (("digest", str), ("files", dict), ("columns", dict), ("samples", dict))
        names = [*facts["files"], *facts["columns"], *facts["samples"]]
        sound = all(isinstance(facts[key], kind) for key, kind in types) and isinstance(facts["form"], str)
        sound = sound and all(re.fullmatch(r"[\w-]+(\.[\w-]+)*", name, re.ASCII) for name in names)
        sound = sound and all(isinstance(column, int | dict) for column in facts["columns"].values())
        sound = sound and set(column_files(facts["columns"])) <= set(facts["files"]) and bool(facts["columns"])
        sound = sound and "train" in facts["samples"]
        facts.setdefault("limits", [{}, {}])  # of a corpus that was made ready before there were any
        sound = sound and len(facts["limits"]) == 2
        sound = sound and all(type(most) is int for part in facts["limits"] for most in part.values())
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}", "train again: the corpus was never made ready") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise CheckpointError(f"{path}: damaged")
    return dict(facts)


def _read_columns(folder: Path, facts: dict[str, Any]) -> dict[str, ColumnSpec]:
    """What each column holds."""
    if facts["form"] not in FormSpec.kinds:
        raise CheckpointError(f"{folder / DATA}: its samples are {facts['form']}, and that form isn't known here")
    try:
        return {name: ColumnSpec.of_fact(fact) for name, fact in facts["columns"].items()}
    except SpecError as error:
        raise CheckpointError(f"{folder / DATA}: damaged: {error}") from None


def column_files(columns: Iterable[str]) -> list[str]:
    return [f"train.{name}{end}" for name in columns for end in ("", ".ends")]


def digest(path: Path) -> str:
    """A file's sha256, read piece by piece."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None


def list_limits(model: ModelSpec) -> list[dict[str, int]]:
    return [model.limits(training=True), model.limits()]
