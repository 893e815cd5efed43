"""Plug-ins: mixers, families, tasks, corpora, metrics and the like of a user's own, from outside this package.

A plug-in is Python that enters itself in our registries when it is imported, so to load one is to run it. There are two
doors. A user names it in this process: by `use`, by `--uses`, or by `uses` in a run file that they train. Or it is
installed, and an entry point of the group `regard` names its module. What a run's folder says is never imported, since
it may come from anybody: it is compared with what was loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from shlex import quote
from types import CodeType

from regard.errors import CheckpointError, DataError, PluginError, SpecError, warn

GROUP = "regard"  # of entry points
PREFIX = "regard_uses_"  # of a file's module, so that it takes nobody's name
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
MOST, LONGEST = 10, 100  # plug-ins that a message tells, and letters of their names


@dataclass(frozen=True)
class Plugin:
    """What was imported, and what it was at that time."""

    name: str  # the file's, or the module's
    digest: str  # SHA-256 of its source
    module: str
    place: str  # where that source is
    installed: bool = False  # an entry point names it

    def owns(self, kind: type) -> bool:
        """Whether a class comes from it, or from the package that it is the door of."""
        return kind.__module__.partition(".")[0] == self.module.partition(".")[0]


@dataclass
class Loaded:
    """The plug-ins of this process."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)  # what is installed and doesn't import, and why
    scanned: bool = False  # whether the entry points were looked at


LOADED = Loaded()


class _Source(SourceFileLoader):
    """Run the very bytes that the digest was taken of: a cache beside the file could hold others."""

    def __init__(self, module: str, path: Path, source: bytes) -> None:
        super().__init__(module, str(path))
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.source, self.path)


def use(name: str | Path, folder: Path | None = None) -> Plugin:
    """Load a plug-in of one's own: `use("my_mixer.py")`, or a module by its name: `use("my_package")`.

    This runs it. `folder`: where a file is looked for, if not here.

    >>> import pathlib, regard
    >>> _ = pathlib.Path("my_metric.py").write_text("# a class on MetricSpec, which enters itself")
    >>> regard.use("my_metric.py").name
    'my_metric.py'
    """
    word = str(name)
    if word.endswith(".py"):
        return _use_file((folder or Path()) / Path(word).expanduser())
    if MODULE.fullmatch(word):
        return _use_module(word)
    raise SpecError(f"{word[:LONGEST]!r} isn't a plug-in: those are files that end in .py, or modules", "my_mixer.py")


def _use_file(path: Path) -> Plugin:
    try:
        source = path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', error)}", "check the path of the plug-in") from None
    wanted = Plugin(path.name, sha256(source).hexdigest(), f"{PREFIX}{path.stem}", str(path))
    there = _find_loaded(wanted)
    if there is not None:
        return there
    loader = _Source(wanted.module, path, source)
    spec = importlib.util.spec_from_file_location(wanted.module, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[wanted.module] = module  # specs and dataclasses look their module up there
    try:
        _attempt(lambda: loader.exec_module(module), wanted.place, "mend it")
    except PluginError:
        del sys.modules[wanted.module]
        raise
    LOADED.plugins[wanted.name] = wanted
    return wanted


def _use_module(name: str, hint: str = "mend it") -> Plugin:
    found: list[ModuleSpec | None] = []
    _attempt(lambda: found.append(_find_module(name)), name, hint)
    if not found or found[0] is None:
        raise PluginError(f"{name}: there is no such module here", f"install it, or name its file: {name}.py")
    installed = any(entry.module == name for entry in entry_points(group=GROUP))
    wanted = Plugin(name, _digest(found[0]), name, str(found[0].origin or name), installed)
    there = _find_loaded(wanted)
    if there is None:
        _attempt(lambda: importlib.import_module(name), name, hint)
        LOADED.plugins[name] = wanted
    return there or wanted


def _find_module(name: str) -> ModuleSpec | None:
    """Where a module is; to find one inside a package is to import the package."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise
    except ValueError:  # a program's own __main__ and the like
        return None


def _find_loaded(wanted: Plugin) -> Plugin | None:
    """The same plug-in, if it was loaded before; another one of its name is refused."""
    there = LOADED.plugins.get(wanted.name)
    if there is not None and there.digest != wanted.digest:
        raise PluginError(
            f"{wanted.name}: a plug-in of that name was loaded already, {there.place} with SHA-256 {there.digest}; "
            f"{wanted.place} has {wanted.digest}",
            "start again with one of them, or give the other another name",
        )
    return there


def _attempt(work: Callable[[], object], place: str, hint: str) -> None:
    """Do what runs others' code; whatever it raises is told as the plug-in's own fault, with its line."""
    try:
        work()
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
        line = f":{lines[-1]}" if lines else ""
        raise PluginError(f"{place}{line}: it can't be imported: {type(error).__name__}: {error}", hint) from error


def _digest(spec: ModuleSpec) -> str:
    """SHA-256 of a module's file; of a package's, that of the list which `sha256sum` writes for its .py files."""
    roots = [Path(root) for root in spec.submodule_search_locations or ()]
    if not roots:
        path = Path(spec.origin or "")
        if not path.is_file():
            raise PluginError(f"{spec.name}: it has no file, so there is no digest to know it by", "a file of its own")
        return sha256(path.read_bytes()).hexdigest()
    files = sorted((path.relative_to(root).as_posix(), path) for root in roots for path in root.rglob("*.py"))
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {name}\n" for name, path in files]
    return sha256("".join(lines).encode()).hexdigest()


def find_installed() -> Loaded:
    """Import what entry points name, once a process; what can't be imported is noted, and stops nobody who looks."""
    if not LOADED.scanned:
        LOADED.scanned = True  # a plug-in may ask for a kind while it is being imported
        for entry in entry_points(group=GROUP):
            owner = f"pip uninstall {entry.dist.name}" if entry.dist is not None else "uninstall it"
            try:
                _use_module(entry.module, f"mend it, or {owner}")
            except PluginError as error:
                LOADED.broken[entry.module] = str(PluginError(f"plug-in {entry.name}: {error.message}", error.hint))
    return LOADED


def load_installed() -> None:
    """The same for those who need all: an error if one of them can't be imported."""
    for told in find_installed().broken.values():
        raise PluginError(told)


def spell_program() -> str:
    """How the program is called, so that it has the plug-ins of this process: `regard --uses my_mixer.py`."""
    named = [plugin for plugin in LOADED.plugins.values() if not plugin.installed]
    places = [plugin.place if plugin.name.endswith(".py") else plugin.name for plugin in named]
    return " ".join(["regard", *(f"--uses {quote(place)}" for place in places)])


def insist_on_plugins(wanted: object, place: str) -> None:
    """Refuse what was made with plug-ins that aren't loaded, or are others; `wanted`: digests by name, as was noted."""
    load_installed()
    if not isinstance(wanted, dict | None) or not all(
        isinstance(word, str) for item in (wanted or {}).items() for word in item
    ):
        raise CheckpointError(f"{place}: damaged, the plug-ins that it was made with can't be read")
    missing = {name: digest for name, digest in (wanted or {}).items() if name not in LOADED.plugins}
    if missing:
        raise CheckpointError(
            f"{place}: it was made with plug-ins that aren't loaded, and no run loads them by itself: {_list(missing)}",
            _explain_use(list(missing)),
        )
    for name, digest in (wanted or {}).items():
        there = LOADED.plugins[name]
        if digest in ("", there.digest):
            continue
        told = f"{place}: it was made with {name} of SHA-256 {digest}, and {there.place} has {there.digest}"
        if not there.installed:
            raise CheckpointError(told, f"--uses the {name} that it was made with")
        warn(told)


def _list(plugins: dict[str, str]) -> str:
    told = [f"{name[:LONGEST]} (SHA-256 {digest[:LONGEST] or 'unknown'})" for name, digest in plugins.items()]
    return ", ".join(told[:MOST]) + (", …" if len(told) > MOST else "")


def _explain_use(names: list[str]) -> str:
    """What to type so that these are loaded."""
    words = [name[:LONGEST] for name in names[:MOST]]
    options = " ".join(f"--uses {quote(name)}" for name in words)
    calls = ", ".join(f"regard.use({name!r})" for name in words)
    return f"regard {options} VERB RUN, in Python {calls}: this runs them, so be sure whose they are"
