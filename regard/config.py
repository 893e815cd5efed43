"""Run files: a tree of settings in YAML, where each stands in its file, and words such as `depth=4` that change it.

A run file is data: no tags, no anchors, no aliases, no key twice. Whoever validates the tree can say of every setting
which line it is on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from regard.errors import DataError, SpecError

LARGEST = 2**16  # bytes of a run file: reading one takes a second at most
DEEPEST = 50  # levels of a tree
Place = tuple[str | int, ...]
# what PyYAML raises for `!!bool x`, `!!int ''`, `!!timestamp x`, `2001-99-99`, 1:1:…:1.5
UNREADABLE = (yaml.YAMLError, RecursionError, ValueError, ArithmeticError, LookupError, AttributeError)


@dataclass
class Document:
    """A tree, the file that it comes from, and the line of each of its settings."""

    tree: dict[str, Any]
    name: str = ""
    lines: dict[Place, int] = field(default_factory=dict)
    words: frozenset[Place] = frozenset()  # what was set by words, so it stands in no file

    def where(self, place: Place) -> str:
        """`file:line: ` of a setting, or of the nearest one around it; nothing if it stands in no file."""
        if place not in self.lines and any(_within(place, {word}) or _within(word, {place}) for word in self.words):
            return ""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.name}:{self.lines[place]}: " if place in self.lines else ""

    def change(self, words: Iterable[str]) -> Document:
        """The same with `key=value` words; what they set stands in no file."""
        changes = assignments(words)
        told = {place for place in _places(changes) if place}
        lines = {place: line for place, line in self.lines.items() if not _within(place, told)}
        return Document(merge(self.tree, changes), self.name, lines, self.words | told)


def read(path: Path) -> Document:
    """A run file as a tree; what YAML could do beyond data is refused."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', error)}", "check the path") from None
    if len(raw) > LARGEST:
        raise SpecError(f"{path}: larger than {LARGEST:,} bytes, so it isn't a run file")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not text in UTF-8") from None
    document = Document({}, str(path))
    try:
        _insist_on_data(text, str(path))
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        tree = {} if root is None else _plain(root, loader, document, ())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(f"{path}:{line}: not YAML: {error.problem}") from None
    except UNREADABLE as error:
        raise SpecError(f"{path}: not YAML: {str(error)[:200] or type(error).__name__}") from None
    if not isinstance(tree, dict):
        raise SpecError(f"{path}: a run file is a mapping of settings, as in `model: transformer-tiny`")
    document.tree = tree
    return document


def _insist_on_data(text: str, name: str) -> None:
    """Refuse anchors, aliases and great depth before anything is made of them."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SpecError(f"{name}:{event.start_mark.line + 1}: anchors and aliases aren't for run files")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise SpecError(f"{name}:{event.start_mark.line + 1}: more than {DEEPEST} levels deep")


def _plain(node: yaml.Node, loader: yaml.SafeLoader, document: Document, place: Place) -> Any:
    """A node as plain data; the line of every setting is noted on the way."""
    line = node.start_mark.line + 1
    document.lines.setdefault(place, line)
    if len(place) > DEEPEST:
        raise SpecError(f"{document.name}:{line}: more than {DEEPEST} levels deep")
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_plain(item, loader, document, (*place, n)) for n, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode) or node.tag != "tag:yaml.org,2002:map":
        return loader.construct_object(node, deep=True)
    found: dict[str, Any] = {}
    for key, value in node.value:
        name, here = key.value, key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or name == "<<":
            raise SpecError(f"{document.name}:{here}: a setting's name is a word")
        if name in found:
            first = document.lines[(*place, name)]
            raise SpecError(f"{document.name}:{here}: {name} is set twice, first on line {first}")
        document.lines[(*place, name)] = here
        found[name] = _plain(value, loader, document, (*place, name))
    return found


def _places(tree: Mapping[str, Any], place: Place = ()) -> Iterable[Place]:
    """Where the values of a tree stand."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _places(value, (*place, key))
        else:
            yield (*place, key)


def _within(place: Place, others: set[Place]) -> bool:
    return any(place[: len(other)] == other for other in others)


def assignments(words: Iterable[str]) -> dict[str, Any]:
    """`["depth=4", "score.rank=8"]` to `{"depth": 4, "score": {"rank": 8}}`."""
    tree: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise SpecError(f"{word!r} is not a setting", "key=value, as in depth=4")
        try:
            _insist_on_data(value, key)
            parsed = yaml.safe_load(value)
        except UNREADABLE:
            raise SpecError(f"{key}: can't read {value!r}", f"{key}='\"{value}\"'") from None
        *path, last = key.split(".")
        node = tree
        for part in path:
            if isinstance(node.get(part), str):
                node[part] = {"kind": node[part]}
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise SpecError(f"{key}: {part} was given a value already, so nothing can be set inside it")
        node[last] = parsed
    return tree


def spell_word(key: str, value: Any) -> str:
    """A setting as the word that sets it, ready for a shell: what `assignments` reads back."""
    if isinstance(value, tuple):
        value = list(value)
    plain = isinstance(value, str) and _reads_back(value)
    return quote(f"{key}={value if plain else json.dumps(value, ensure_ascii=False)}")


def _reads_back(text: str) -> bool:
    """Whether YAML takes a text for itself: not for a number, a list or a comment."""
    try:
        return bool(yaml.safe_load(text) == text)
    except UNREADABLE:
        return False


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A tree with changes; a bare word counts as a kind; where a change names another kind, it starts afresh."""
    merged = dict(base)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(old, str) and isinstance(change, Mapping):
            old = {"kind": old}
        if isinstance(old, Mapping) and isinstance(change, Mapping) and change.get("kind") in (None, old.get("kind")):
            merged[key] = merge(old, change)
        else:
            merged[key] = change
    return merged
