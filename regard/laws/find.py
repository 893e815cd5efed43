"""From the words after `regard laws` to what is meant: a kind of mixer, or something in a file or a module.

To look into a file is to run it, so it goes through the door for plug-ins: the user named it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from regard.core.hint import suggest
from regard.core.mixer import MixerSpec
from regard.core.plugins import use
from regard.core.spec import choose_kind
from regard.errors import RegardError, SpecError
from regard.laws.build import list_subjects


@dataclass
class Found:
    """What can be tried, by its name, and what can't, with the reason."""

    things: dict[str, Any]
    passed_over: dict[str, str] = field(default_factory=dict)


def find(word: str, settings: Mapping[str, Any] | None = None, width: int | None = None) -> Found:
    """What a user means by `FILE.py`, `FILE.py:NAME`, `MODULE:NAME`, or the kind of a mixer."""
    place, name = divide(word)
    if place is None:
        if re.search(r"[./\\]", name):
            raise SpecError(
                f"{name!r} is no kind of mixer, no file that ends in .py, and no MODULE:NAME", "my_mixer.py"
            )
        return Found({name: choose_kind(MixerSpec, name, "laws")})
    module = sys.modules[use(place).module]
    if name:
        return Found({name: take(module, name, place)})
    found = pass_over(list_things(module), settings, width)
    if not found.things:
        reasons = "".join(f"\n  {each}: {reason}" for each, reason in found.passed_over.items())
        raise SpecError(
            f"{place}: there is nothing in it that can be tried{reasons}",
            "a class on MixerSpec, Mixer or torch.nn.Module, or FILE.py:NAME for a function that makes one",
        )
    return found


def divide(word: str) -> tuple[str | None, str]:
    """The file or module, and the name in it; without a place it is the name of a kind."""
    if word.endswith(".py"):
        return word, ""
    place, sign, name = word.rpartition(":")
    if not sign:
        return None, word
    if not place or not name:
        raise SpecError(f"{word!r}: a file or module, and a name in it", "my_mixer.py:MyMixer, torch.nn:Linear")
    return place, name


def take(module: ModuleType, name: str, place: str) -> Any:
    """What a module has under a name."""
    thing: Any = module
    for part in name.split("."):
        if part not in dir(thing):
            known = [key for key, value in vars(thing).items() if is_candidate(value) or callable(value)]
            raise SpecError(f"{place} has no {part!r}{suggest(part, known)}", f"regard laws {Path(place).name}:NAME")
        thing = getattr(thing, part)
    return thing


def is_candidate(value: Any) -> bool:
    """Whether something says by what it is that it can be tried; a function doesn't."""
    kinds = (MixerSpec, nn.Module)
    return isinstance(value, kinds) or (isinstance(value, type) and issubclass(value, kinds))


def list_things(module: ModuleType) -> dict[str, Any]:
    """What a module defines itself and can perhaps be tried, in its order; specs before what they build."""
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and is_candidate(value)
        and (not isinstance(value, type) or value.__module__ == module.__name__)
    }
    specs = {name for name, value in found.items() if isinstance(value, type) and issubclass(value, MixerSpec)}
    return dict(sorted(found.items(), key=lambda item: item[0] not in specs))


def pass_over(things: dict[str, Any], settings: Mapping[str, Any] | None, width: int | None) -> Found:
    """Leave out what can't be built by itself, and what is only a part of something else."""
    found, parts = Found({}), dict[type, str]()
    for name, thing in things.items():
        if isinstance(thing, type) and thing in parts:
            found.passed_over[name] = f"a part of {parts[thing]}"
            continue
        try:
            subjects, _ = list_subjects(thing, name, width=width, settings=settings, quick=True)
        except RegardError as error:
            found.passed_over[name] = f"{error.message}{f'; try {error.hint}' if error.hint else ''}"
            continue
        found.things[name] = thing
        for part in subjects[0].sample.modules():
            if type(part) is not thing:
                parts.setdefault(type(part), name)
    for name in [name for name, thing in found.things.items() if isinstance(thing, type) and thing in parts]:
        found.passed_over[name] = f"a part of {parts[found.things.pop(name)]}"
    return found
