"""The plug-ins of a run: loaded where a user names a run file, noted with their digests, and asked for ever after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config import Document
from regard.core.plugins import LOADED, insist_on_plugins, load_installed, use
from regard.core.spec import Spec
from regard.models import Settings
from regard.runs.resolve import RUN
from regard.runs.spec import ModelChoice


def load_uses(document: Document) -> None:
    """Load what a run file that the user trains names in `uses`, before the rest of it is looked at.

    The run.yaml of a run's folder may have come with the folder, so it loads nothing, whoever names it.
    """
    load_installed()
    names, path = list_uses(document.tree), Path(document.name)
    inside = ("uses",) in document.lines  # otherwise it was said in words, here
    if inside and path.name == RUN and any((path.parent / other).exists() for other in ("run.json", "checkpoints")):
        insist_on_plugins(dict.fromkeys(map(_name, names), ""), str(path))
    else:
        for name in names:
            use(name, path.parent if inside else None)


def list_uses(tree: Mapping[str, Any]) -> list[str]:
    """What a run file names in `uses`; what isn't a list of names is left to whoever validates it."""
    told = tree.get("uses")
    return [name for name in told if isinstance(name, str)] if isinstance(told, list) else []


def insist_on_uses(document: Document, noted: object) -> None:
    """Insist that the plug-ins of a run are loaded; `noted`: their digests, from when it was begun."""
    known = noted if isinstance(noted, dict) else {}
    wanted = dict.fromkeys(map(_name, list_uses(document.tree)), "") | known
    insist_on_plugins(wanted, str(Path(document.name).parent))


def _name(word: str) -> str:
    """What a plug-in is called, wherever it lies."""
    return Path(word).name if word.endswith(".py") else word


def note_plugins(names: tuple[str, ...], family: Mapping[str, Any] | None, *specs: Spec) -> dict[str, str]:
    """The plug-ins of a run and their digests: those that it names, and those that its specs or its family are of."""
    kinds = {type(part) for spec in specs for part in list_parts(spec)}
    if family is not None and family.get("kind") in Settings.kinds:
        kinds.add(Settings.kinds[str(family["kind"])])
    named = set(map(_name, names))
    return {
        plugin.name: plugin.digest
        for plugin in LOADED.plugins.values()
        if plugin.name in named or any(plugin.owns(kind) for kind in kinds)
    }


def list_parts(value: object) -> Iterator[Spec]:
    """Every spec in a tree of them."""
    if isinstance(value, Spec):
        yield value
        value = tuple(value.fields().values())
    elif isinstance(value, ModelChoice):
        value = (value.spec, value.family)
    if isinstance(value, tuple | list):
        for item in value:
            yield from list_parts(item)
