"""One file for each family: its presets, as specs. The folder is the registry.

A family describes itself by a few settings (width, depth, heads, …) and composes them into a model's spec. A preset is
those settings with values; `preset("gpt2", depth=4, width=128)` is one with others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import regard.mixers  # enters every mixer
import regard.parts  # noqa: F401  enters every part
from regard.config import merge
from regard.core.model import ModelSpec
from regard.core.registry import import_all
from regard.core.spec import HeadSpec, Spec, explain_unknown
from regard.errors import SpecError
from regard.models.layout import Layout


class Settings(Spec):
    """What a family lets one choose. Its `kind` is the family's name."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Family(Generic[S]):
    """A name, the settings, how they become a spec, and the presets as settings that differ from the defaults."""

    settings: type[S]
    compose: Callable[[S], ModelSpec]
    presets: Mapping[str, Mapping[str, Any]]
    layouts: Mapping[str, Layout] = field(default_factory=dict)  # of Hugging Face checkpoints, by their model type
    heads: Mapping[str, Callable[[S], HeadSpec]] = field(default_factory=dict)  # how it makes a head for some answers

    def preset(self, name: str, overrides: Mapping[str, Any]) -> ModelSpec:
        return self.compose(self.settings.parse(self.tree(name, overrides)))

    def tree(self, name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of a preset as plain data, with some of them changed; not yet validated."""
        return merge(self.settings.parse(self.presets[name]).model_dump(), overrides)


@cache
def families() -> dict[str, Family[Any]]:
    """Every family in the folder, by the name of its file."""
    found = {
        module.__name__.rpartition(".")[2]: vars(module).get("family") for module in import_all(__name__, __path__)
    }
    return {name: family for name, family in found.items() if isinstance(family, Family)}


@cache
def presets() -> dict[str, Family[Any]]:
    """Every preset's family, by the preset's name."""
    return {name: family for family in families().values() for name in family.presets}


def preset(name: str, /, **overrides: Any) -> ModelSpec:
    """The spec of a preset, with other settings if wanted."""
    if name not in presets():
        raise SpecError(f"no preset is called {name!r}{explain_unknown(name, presets())['hint']}")
    return presets()[name].preset(name, overrides)


def head_count(width: int, heads: int | None, size: int) -> int:
    """How many heads, unless given: one for each `size` channels."""
    return heads or max(1, width // size)
