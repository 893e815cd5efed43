"""Folders of modules as registries: a file that is there is known, and enters itself when it is imported.

Whoever asks for one kind gets the file that says it imported, and no other; whoever lists them gets all. So a process
that answers with one model doesn't pay for the rest.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, MutableMapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

# how a spec says its kind; a test holds what is found so to what importing everything gives
KIND = re.compile(r'^    kind: Literal\["([^"\]]+)"\]', re.MULTILINE)
T = TypeVar("T")


def import_all(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Import every module of a package, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    return [importlib.import_module(f"{package}.{name}") for name in names]


@cache
def import_folder(package: str) -> None:
    """Import a package and every module in it, once a process."""
    import_all(package, importlib.import_module(package).__path__)


@cache
def find_kinds(package: str) -> dict[str, list[str]]:
    """The modules of a package that say each kind, read off their sources without importing them."""
    found: dict[str, list[str]] = {}
    for folder in map(Path, importlib.import_module(package).__path__):
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
            for kind in KIND.findall(path.read_text(encoding="utf-8")):
                found.setdefault(kind, []).append(f"{package}.{name}")
    return found


class Kinds(MutableMapping[str, T]):
    """The kinds of a role by their names: those that have entered, and those whose files wait in the role's folder.

    `folder`: a package of ours, named and not imported, since a role stands below those who play it.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self.entered: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self.entered and self.folder is not None:
            said = find_kinds(self.folder)
            for module in said.get(name, ()):
                importlib.import_module(module)
            if not said:  # there are no sources beside what was compiled
                import_folder(self.folder)
        return self.entered[name]

    def __setitem__(self, name: str, kind: T) -> None:
        self.entered[name] = kind

    def __delitem__(self, name: str) -> None:
        del self.entered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._import_all())

    def __len__(self) -> int:
        return len(self._import_all())

    def _import_all(self) -> dict[str, Any]:
        if self.folder is not None:
            import_folder(self.folder)
        return self.entered
