"""The source code of the running Python's own standard library: some ten megabytes that every machine already has.

A file belongs to one split by a stable hash of its name, so that versions of Python mostly agree on who sees what.
Tests are left out, and so is what the machine keeps beside the library.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, get_args

from regard.core.spec import Size
from regard.data.corpus import CorpusSpec
from regard.data.corpus import Split as CorpusSplit
from regard.data.log import Log
from regard.data.sample import Form, Sample
from regard.data.split import split_by_text
from regard.errors import DataError

Split = Literal["train", "validation", "test"]
STRAYS = frozenset(["test", "tests", "idle_test", "__pycache__", "_bundled"])  # inside of modules


class PythonStdlib(CorpusSpec):
    """The source code of Python's own standard library, a document a file."""

    gives: ClassVar[tuple[Form, ...]] = ("documents",)
    kind: Literal["python-stdlib"] = "python-stdlib"
    most: Size | None = None
    """Each split has at most this many documents; unless given, all."""

    def splits(self) -> tuple[CorpusSplit, ...]:
        return ("train", "validation", "test")

    def samples(self, form: Form, split: CorpusSplit, folder: Path, log: Log) -> Iterator[Sample]:
        assert split != "combinations"
        for name, text in islice(documents(split), self.most):
            log.keep()
            yield {"text": text, "place": name}


def documents(split: Split, folder: Path | None = None) -> Iterator[tuple[str, str]]:
    """The name and the text of each file of a split, by name: `json/decoder.py`, …

    `folder`: a library elsewhere than the running Python's. A file that is empty or isn't UTF-8 is left out.
    """
    if split not in get_args(Split):
        raise ValueError(f"split {split} is none of {', '.join(get_args(Split))}")
    library = folder or Path(sysconfig.get_path("stdlib"))
    found = names(library)
    if not found:
        instead = "though the folder is there" if library.is_dir() else "which isn't a folder"
        raise DataError(
            f"{library}: no source of Python's standard library, {instead}",
            "install a Python that comes with its .py files, or train on files of your own",
        )
    return texts(library, [name for name in found if split_by_text(name) == split])


def names(library: Path) -> list[str]:
    """The source files of the library, with / on every system, in order.

    Python names the modules of its library, without the tests, so what else lies in the folder needn't be looked into.
    """
    files = [file for module in sys.stdlib_module_names for file in library.glob(f"{module}.py")]
    files += [file for module in sys.stdlib_module_names for file in (library / module).rglob("*.py")]
    paths = [file.relative_to(library) for file in files]
    return sorted(path.as_posix() for path in paths if STRAYS.isdisjoint(path.parts))


def texts(library: Path, chosen: list[str]) -> Iterator[tuple[str, str]]:
    for name in chosen:
        try:
            text = (library / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if text.strip():
            yield name, text
