"""Variants: a spec as it is, and with one setting changed, so that laws are tried on what its settings allow.

A switch is flipped, a choice takes each of its values, a slot each kind that stands without settings.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal

from regard.core.mixer import MixerSpec
from regard.core.spec import Spec
from regard.errors import SpecError
from regard.laws.subject import WIDTH

SMALL = 8  # what takes the place of a large size


def list_bases(spec: MixerSpec) -> list[MixerSpec]:
    """The spec itself, as a decoder needs it, and as an encoder does; each once, and only where there is such a one."""
    found = [spec]
    ways: tuple[Callable[[], MixerSpec], ...] = (spec.forward_only, spec.both_ways)
    for way in ways:
        with suppress(SpecError):
            found.append(way())
    return list(dict.fromkeys(found))


def make_small(spec: MixerSpec) -> MixerSpec:
    """The same with small sizes where they can be: laws hold at any size, small ones are quick, and windows close."""
    large = {
        name: SMALL
        for name, value in spec.fields().items()
        if isinstance(value, int) and value > WIDTH and name not in spec.model_fields_set
    }
    with suppress(SpecError):
        smaller = spec.replace(**large)
        smaller.build(WIDTH)
        return smaller
    return spec


def vary(spec: MixerSpec) -> Iterator[MixerSpec]:
    """The spec itself, and with one setting changed."""
    yield spec
    for name, info in type(spec).model_fields.items():
        if name == "kind":
            continue
        for value in list_choices(info.annotation, getattr(spec, name)):
            with suppress(SpecError):  # a kind that needs settings
                yield spec.replace(**{name: value})


def list_choices(annotation: Any, now: Any) -> Iterator[Any]:
    """Other values that a setting can take, where they can be listed."""
    origin = typing.get_origin(annotation)
    if annotation is bool:
        yield not now
    elif origin is Literal:
        yield from (value for value in typing.get_args(annotation) if value != now)
    elif origin in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from list_choices(part, now)
    elif isinstance(annotation, type) and issubclass(annotation, Spec):
        yield from (kind for kind in annotation.kinds if now is None or kind != now.kind)


def label(spec: MixerSpec) -> str:
    """A spec in few words: its kind, and the settings that aren't its usual ones."""
    return "-".join([spec.kind, *(f"{name}={told}" for name, told in list_changes(spec).items())])


def list_changes(spec: MixerSpec) -> dict[str, str]:
    """The settings that aren't the usual ones, as they are told."""
    changed = {}
    for name, info in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name != "kind" and value != info.default:
            changed[name] = value.kind if isinstance(value, Spec) else str(value)
    return changed
