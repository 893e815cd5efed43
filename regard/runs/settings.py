"""Every key of a run file, from the specs themselves: what it takes, what it is unless given, and what it means.

A page is one spec: what stands at a place of the run file (`train`), or one kind of what may stand there
(`train.optimizer.adamw`). Parts of a model stand in many places, and their pages go by the part's own name (`mix`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from regard.core.foreign import FOREIGN
from regard.core.hint import suggest
from regard.core.plugins import load_installed
from regard.core.setting import Setting, describe_spec, list_settings
from regard.core.spec import Spec
from regard.errors import SpecError
from regard.models import Settings, families
from regard.runs.spec import RunSpec


@dataclass(frozen=True)
class Page:
    """What stands at one place of a run file: its keys, and the kinds that one chooses from; or one such kind."""

    place: str
    kind: str  # nothing: whatever stands there
    summary: str
    settings: list[Setting]
    kinds: Mapping[str, str] = field(default_factory=dict)  # each with what it is

    @property
    def path(self) -> str:
        """What it is found by: `train.optimizer.adamw`."""
        return f"{self.place}.{self.kind}".strip(".")

    def spell(self, setting: Setting) -> str:
        """A key as the command line takes it: `train.optimizer.betas`."""
        return f"{self.place}.{setting.name}".lstrip(".")

    def only(self, name: str) -> Page:
        """One key of it."""
        return replace(self, settings=[setting for setting in self.settings if setting.name == name], kinds={})

    def as_json(self) -> dict[str, Any]:
        """It as plain data."""
        return {
            "path": self.path,
            "place": self.place,
            "kind": self.kind,
            "summary": self.summary,
            "kinds": dict(self.kinds),
            "settings": [{"key": self.spell(setting), **setting.as_json()} for setting in self.settings],
        }


def list_pages() -> list[Page]:
    """Every page: in the order of a run file, and then the parts of models."""
    load_installed()
    families()
    known = -1
    while known != (known := sum(len(role.kinds) for role in list_roles(Spec))):
        pass  # kinds that enter may bring roles of their own
    order = ["", *RunSpec.model_fields]
    pages = {page.path: page for role in list_roles(Spec) for page in list_kind_pages(role)}
    return sorted(pages.values(), key=lambda page: rank(page.path, order))


def rank(path: str, order: list[str]) -> tuple[int, str]:
    first = path.partition(".")[0]
    return (order.index(first) if first in order else len(order), path)


def list_roles(spec: type[Spec]) -> Iterator[type[Spec]]:
    """The specs that have a place of their own in a run file."""
    for role in spec.__subclasses__():
        if vars(role).get("home") is not None:
            yield role
        yield from list_roles(role)


def list_kind_pages(role: type[Spec]) -> Iterator[Page]:
    """The page of a role, and that of each of its kinds."""
    place = str(role.home).lstrip(".")
    own = role.model_fields["kind"].default
    if isinstance(own, str):  # there is no choice; a whole model is a choice beside the families
        yield Page(place, "model" if place == "model" else "", describe_spec(role), list_settings(role))
        return
    kinds = {kind: spec for kind, spec in sorted(role.kinds.items()) if issubclass(spec, role) and spec.home}
    told = {kind: describe_kind(kind, spec) for kind, spec in kinds.items()}
    yield Page(place, "", describe_spec(role), list_settings(role), told)
    for kind, spec in kinds.items():
        yield Page(place, kind, told[kind], list_settings(spec))


def describe_kind(kind: str, spec: type[Spec]) -> str:
    """What a kind is; of a family, with its presets, which are what a run file names."""
    family = families()[kind] if issubclass(spec, Settings) else None
    return describe_spec(spec) + (f" Presets: {', '.join(family.presets)}." if family else "")


def show_usual() -> list[Page]:
    """The pages of a run file whose every kind is the usual one: what most people look for."""
    usual = {"", "task", "task.translation", "task.search", "corpus", "corpus.train", "tokenizer", "batches", "model"}
    usual |= {"train", "train.optimizer", "train.optimizer.adamw", "train.schedule", "train.schedule.linear"}
    return [page for page in list_pages() if page.path in usual]


def find_pages(path: str) -> list[Page]:
    """What a path means: a page, a preset, a key, or what others call one of these."""
    pages, word = list_pages(), path.strip(".")
    there = [page for page in pages if page.path == word]
    ends = there or [page for page in pages if page.path.endswith(f".{word}")]
    found = ends or find_presets(word) or find_inner(pages, word) or find_keys(pages, word)
    if found:
        return found
    for row in FOREIGN.get(word.rpartition(".")[2].lower(), []):
        found = find_keys(pages, row.place.lstrip("."))
        if found:
            return found
    known = {name for page in pages for name in (page.path, page.path.rpartition(".")[2])}
    known |= {setting.name for page in pages for setting in page.settings}
    hint = suggest(word, known)
    told = hint if "known:" not in hint else ""
    raise SpecError(f"no setting is called {path!r}{told}", "regard settings, or regard settings train")


def find_presets(word: str) -> list[Page]:
    """A family's page with a preset's values: `model.transformer-tiny`."""
    name = word.removeprefix("model.")
    found = []
    for family in families().values():
        if name in family.presets:
            values = dict(family.settings.parse(family.presets[name]))
            found.append(Page("model", name, describe_spec(family.settings), list_settings(family.settings, values)))
    return found


def find_inner(pages: list[Page], word: str) -> list[Page]:
    """`corpus.tsv` is `corpus.train.tsv`: nobody needs to know all that is between."""
    first, _, last = word.rpartition(".")
    return [page for page in pages if first and page.path.startswith(f"{first}.") and page.path.endswith(f".{last}")]


def find_keys(pages: list[Page], word: str) -> list[Page]:
    """The pages that have a key, with that key alone: those at its path, or all of them if none is."""
    path, _, name = word.rpartition(".")
    having = [page.only(name) for page in pages if any(setting.name == name for setting in page.settings)]
    there = [page for page in having if page.path == path] or [page for page in having if page.place == path]
    below = [page for page in having if page.path.startswith(f"{path}.") or f".{page.path}".endswith(f".{path}")]
    return there or (below if path else having)


def describe_type(setting: Setting) -> str:
    """What a key takes, in one line."""
    shape = setting.shape
    listed = ", ".join(shape.choices)
    words = re.sub("settings", f"kind: {listed}", shape.words) if listed else shape.words
    words = re.sub("words?", listed, words).replace(f"{listed} or", f"{listed}, or") if listed else words
    if shape.roles and not listed and shape.words.startswith("settings") and shape.roles[0].home:
        words = words.replace("settings", f"settings (see {shape.roles[0].home.lstrip('.')})")
    return f"{words}; {shape.range}" if shape.range else words


def describe_default(setting: Setting) -> str:
    """What a key is unless given."""
    if setting.required:
        return "required"
    value = setting.default
    if setting.shape.roles and isinstance(value, str) and not setting.shape.choices:
        return "its own"  # of the one kind that there is
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_markdown() -> str:
    """`docs/settings.md`."""
    parts = [
        "# Settings",
        "Every key of a run file, written from the code by `regard settings --markdown > docs/settings.md`.\n"
        "`regard settings PATH` prints one place of it, such as `regard settings train.optimizer`, and finds a key by\n"
        "what others call it too: `regard settings learning_rate`. On the command line a key has its place in front,\n"
        "and no kind: `regard train FILE train.optimizer.rate=0.001`. Parts of a model (`mix`, `ffn`, `norm`, …)\n"
        "stand wherever a key takes them.",
    ]
    for page in list_pages():
        parts.append(f"## {page.path or 'The run'}\n{escape(page.summary)}")
        if page.kinds:
            rows = [f"| `{kind}` | {escape(told)} |" for kind, told in page.kinds.items()]
            parts.append("\n".join(["| kind | |", "| --- | --- |", *rows]))
        if page.settings:
            head = ["| key | takes | default | meaning |", "| --- | --- | --- | --- |"]
            parts.append("\n".join([*head, *list_rows(page)]))
    return "\n\n".join(parts) + "\n"


def list_rows(page: Page) -> list[str]:
    """A table's rows."""
    return [
        f"| `{setting.name}` | {escape(describe_type(setting))} | {escape(describe_default(setting))} "
        f"| {escape(setting.meaning)} |"
        for setting in page.settings
    ]


def escape(text: str) -> str:
    """Text inside a table's cell."""
    return text.replace("|", "\\|").replace("*", "\\*")
