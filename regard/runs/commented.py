"""Settings as YAML with comments: above each setting what it means, and why it has its value."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from regard.core.setting import descend, explain_setting
from regard.core.spec import Spec

WIDTH = 100  # columns of a comment
NESTED = ("task", "corpus", "tokenizer", "batches", "model", "train")  # what has a line for each of its settings
BESIDE = 80  # columns up to which a comment stands beside its setting


def write_commented(tree: Mapping[str, Any], reasons: Mapping[str, str], about: Sequence[str], spec: type[Spec]) -> str:
    """A run file; `reasons`: by a setting's name in the file, such as `train.minutes`; `about`: lines at its top."""
    lines = [line for text in about for line in _comment(text, 0)]
    for name, value in tree.items():
        lines += ["", *_write(name, value, "", reasons, (spec, tree))]
    return "\n".join(lines) + "\n"


def _write(
    name: str, value: Any, outer: str, reasons: Mapping[str, str], around: tuple[type[Spec] | None, Mapping[str, Any]]
) -> Iterator[str]:
    """One setting, with those inside it; `around`: the spec and the settings among which it stands."""
    spec, beside = around
    key = f"{outer}{name}"
    meaning = "" if spec is None or name == "kind" else explain_setting(spec, name).rstrip(".")
    depth, told = key.count("."), ". Here: ".join(filter(None, (meaning, reasons.get(key, ""))))
    nested = isinstance(value, Mapping) and (key in NESTED or any(f"{key}.{part}" in reasons for part in value))
    written = f"{'  ' * depth}{name}:" + ("" if nested else f" {_spell(value)}")
    if told and len(written) + len(told) + 4 <= BESIDE:
        yield f"{written}  # {told}"
    else:
        yield from _comment(told, depth)
        yield written
    if nested:
        within = None if spec is None else descend(spec, beside, name)
        for part, item in value.items():
            yield from _write(part, item, f"{key}.", reasons, (within, value))


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
