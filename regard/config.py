"""Settings given as words: `depth=4`, `score.rank=8`, read as YAML and merged into what they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from regard.errors import SpecError


def assignments(words: Iterable[str]) -> dict[str, Any]:
    """`["depth=4", "score.rank=8"]` to `{"depth": 4, "score": {"rank": 8}}`."""
    tree: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise SpecError(f"{word!r} is not a setting", "key=value, as in depth=4")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            raise SpecError(f"{key}: can't read {value!r}", f"{key}='\"{value}\"'") from None
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise SpecError(f"{key}: {part} was given a value already, so nothing can be set inside it")
        node[last] = parsed
    return tree


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A tree with changes; where a change names another kind, it starts afresh."""
    merged = dict(base)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(change, Mapping) and change.get("kind") in (None, old.get("kind")):
            merged[key] = merge(old, change)
        else:
            merged[key] = change
    return merged
