"""Settings as YAML with comments: above each setting what it means, and why it has its value."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import yaml

from regard.core.spec import Spec
from regard.models import presets

WIDTH = 100  # columns of a comment
BESIDE = 80  # columns up to which a comment stands beside its setting


@dataclass(frozen=True)
class Comments:
    """What to write beside settings, by their names in a run file, such as `train.minutes`."""

    meanings: Mapping[str, str]  # where a setting has no description of its own
    reasons: Mapping[str, str]  # why it has its value

    def about(self, key: str) -> bool:
        return key in self.meanings or key in self.reasons

    def tell(self, key: str, description: str) -> str:
        meaning = (description or self.meanings.get(key, "")).rstrip(".")
        return "; ".join(filter(None, (meaning, self.reasons.get(key, ""))))


def write_commented(tree: Mapping[str, Any], comments: Comments, about: Sequence[str], spec: type[Spec]) -> str:
    """A run file with comments; `about`: lines at its top."""
    lines = [line for text in about for line in _comment(text, 0)]
    for name, value in tree.items():
        lines += ["", *_write(name, value, "", comments, spec)]
    return "\n".join(lines) + "\n"


def _write(name: str, value: Any, outer: str, comments: Comments, spec: type[Spec] | None) -> Iterator[str]:
    """One setting, with those inside it."""
    key = f"{outer}{name}"
    depth, told = key.count("."), comments.tell(key, describe_setting(spec, name))
    nested = isinstance(value, Mapping) and (_is_deep(value) or any(comments.about(f"{key}.{part}") for part in value))
    written = f"{'  ' * depth}{name}:" + ("" if nested else f" {_spell(value)}")
    if told and len(written) + len(told) + 4 <= BESIDE:
        yield f"{written}  # {told}"
    else:
        yield from _comment(told, depth)
        yield written
    if nested:
        within = find_inner(spec, name, value)
        for part, item in value.items():
            yield from _write(part, item, f"{key}.", comments, within)


def _is_deep(value: Mapping[str, Any]) -> bool:
    """Whether some of its values have settings of their own."""
    return any(isinstance(item, Mapping) for item in value.values())


def _comment(text: str, depth: int) -> list[str]:
    lead = f"{'  ' * depth}# "
    return textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
    )


def _spell(value: Any) -> str:
    """A value on one line."""
    plain = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("...\n").strip()


def describe_setting(spec: type[Spec] | None, name: str) -> str:
    """What a setting means, as the field itself says it; nothing where it doesn't."""
    found = None if spec is None else spec.model_fields.get(name)
    return "" if found is None or found.description is None else found.description


def find_inner(spec: type[Spec] | None, name: str, value: Mapping[str, Any]) -> type[Spec] | None:
    """The spec of the settings that stand inside of one."""
    if name == "model":
        family = presets().get(str(value.get("kind")))
        return None if family is None else family.settings
    found = None if spec is None else spec.model_fields.get(name)
    role = next((kind for kind in _list_types(None if found is None else found.annotation)), None)
    if role is None:
        return None
    return role.kinds.get(str(value.get("kind", role.usual)), role)


def _list_types(annotation: Any) -> Iterator[type[Spec]]:
    """The specs that an annotation allows: those of `AdaptSpec | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for part in get_args(annotation):
        yield from _list_types(part)
