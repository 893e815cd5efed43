"""A folder of modules as a registry: whatever file is in it is imported, and enters itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def import_all(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Import every module of a package, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    return [importlib.import_module(f"{package}.{name}") for name in names]
