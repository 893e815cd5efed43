"""Settings as people read them: what each key of a spec takes, what it is unless given, and what it means.

A meaning is the string under a field, in the source of the class that defines it, or stands among the `meanings` that
kinds of one role share. It is read from the source when somebody asks, because pydantic's own way would read every
source at every start, and that takes a quarter of a second.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from regard.core.spec import FileName, Spec, StandIn

NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "none"}
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "at least"}  # pydantic's names of bounds


@dataclass(frozen=True)
class Slot:
    """Notes on a field that keeps plain data for a spec: which roles the spec may have. `none` may stand there too."""

    roles: tuple[type[Spec], ...]


@dataclass(frozen=True)
class Shape:
    """What a setting takes: its type in words, its range, what to choose from, and the roles of specs."""

    words: str
    range: str = ""
    choices: tuple[str, ...] = ()
    roles: tuple[type[Spec], ...] = ()


@dataclass(frozen=True)
class Setting:
    """One key of a spec."""

    name: str
    shape: Shape
    default: Any  # plain data; `required` says that there is none
    required: bool
    meaning: str

    def as_json(self) -> dict[str, Any]:
        """It as plain data."""
        facts = {"name": self.name, "type": self.shape.words, "required": self.required, "default": self.default}
        if self.required:
            del facts["default"]
        if self.shape.range:
            facts["range"] = self.shape.range
        if self.shape.choices:
            facts["choices"] = list(self.shape.choices)
        return facts | {"meaning": self.meaning}


def list_settings(spec: type[Spec], given: Mapping[str, Any] | None = None) -> list[Setting]:
    """Every key of a spec but its kind, in the order of the source; slots, which all families have, come last.

    `given`: defaults of a preset.
    """
    found = []
    slots = [
        name for name, field in spec.model_fields.items() if any(isinstance(item, Slot) for item in field.metadata)
    ]
    for name in [name for name in spec.model_fields if name not in ("kind", *slots)] + slots:
        field = spec.model_fields[name]
        default = field.get_default(call_default_factory=True)
        required = default is PydanticUndefined
        if given is not None and name in given:
            default, required = given[name], False
        shape = read_shape(field.annotation, field.metadata)
        found.append(
            Setting(name, shape, None if required else make_plain(default), required, explain_setting(spec, name))
        )
    return found


def make_plain(value: Any) -> Any:
    """A default as a run file would have it: a spec whose own settings are the usual ones is its bare kind."""
    if isinstance(value, Spec):
        told = value.model_dump(mode="json")
        usual = type(value).model_fields
        changed = {
            name: item for name, item in told.items() if name != "kind" and getattr(value, name) != usual[name].default
        }
        return {"kind": value.kind, **changed} if changed else value.kind
    if isinstance(value, tuple | list):
        return [make_plain(item) for item in value]
    return value


def read_shape(annotation: Any, metadata: Any = ()) -> Shape:
    """A type in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return read_shape(parts[0], [*parts[1:], *metadata])
    if origin in (Union, types.UnionType) and not any(isinstance(item, Slot) for item in metadata):
        return join_shapes([read_shape(part, metadata) for part in parts])
    if origin is Literal:
        return Shape("word", choices=tuple(map(str, parts)))
    slot = next((item for item in metadata if isinstance(item, Slot)), None)
    if slot or (isinstance(annotation, type) and issubclass(annotation, Spec | StandIn)):
        return read_slot(slot or annotation)
    if origin in (tuple, dict):
        inner = read_shape(parts[-1] if origin is dict else parts[0])
        several = {tuple: str(len(parts)) if Ellipsis not in parts else "list of", dict: "mapping to"}[origin]
        words = f"{several} {make_plural(inner.words)}"
        return replace(inner, words=words, range=inner.range or read_range(metadata))
    names = any(item in get_args(FileName) for item in metadata)
    return Shape("path" if names else NAMES.get(annotation, "text"), read_range(metadata))


def read_slot(role: type[Spec | StandIn] | Slot) -> Shape:
    """What stands where a spec may."""
    if isinstance(role, Slot):
        kinds = [kind for each in role.roles for kind in list_kinds(each)]
        return Shape("settings", choices=("none", *kinds), roles=role.roles)
    if issubclass(role, StandIn):
        return Shape(role.words, roles=role.roles)
    return Shape("settings", choices=tuple(list_kinds(role)), roles=(role,))


def join_shapes(shapes: list[Shape]) -> Shape:
    """A choice of several in words; the same kind of thing is said once."""
    kinds = list(dict.fromkeys(shape.words for shape in shapes))
    if "whole number" in kinds and "number" in kinds:
        kinds.remove("whole number")
    if "none" in kinds:
        kinds = [*(kind for kind in kinds if kind != "none"), "none"]
    return Shape(
        " or ".join(kinds),
        next((shape.range for shape in shapes if shape.range), ""),
        tuple(dict.fromkeys(choice for shape in shapes for choice in shape.choices)),
        tuple(dict.fromkeys(role for shape in shapes for role in shape.roles)),
    )


def read_range(metadata: Any) -> str:
    """`≥ 0, < 1` from what pydantic checks."""
    found = []
    for item in metadata:
        for part in [item, *getattr(item, "metadata", ())]:  # a Field inside Annotated has its bounds inside
            bounds = {sign: getattr(part, name, None) for name, sign in SIGNS.items()}
            found += [f"{sign} {format_bound(bound)}" for sign, bound in bounds.items() if bound is not None]
    return ", ".join(dict.fromkeys(found))


def format_bound(number: Any) -> str:
    """A bound as people write it: 2**24 is easier read than 16777216."""
    if isinstance(number, int) and number > 2**16 and number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    return f"{number:g}"


def make_plural(words: str) -> str:
    """`whole numbers`, `paths`; settings are several already."""
    return words if words.endswith("s") else " or ".join(f"{word}s" for word in words.split(" or "))


def list_kinds(role: type[Spec]) -> list[str]:
    """The kinds that may stand for a role, where there is a choice."""
    fitting = sorted(kind for kind, spec in role.kinds.items() if issubclass(spec, role))
    return fitting if len(fitting) > 1 or role.model_fields["kind"].is_required() else []


def explain_setting(spec: type[Spec], name: str) -> str:
    """What a key means: by the class that defines it, or the nearest above that says something of it."""
    for base in spec.__mro__:
        if issubclass(base, Spec):
            found = read_meanings(base).get(name) or vars(base).get("meanings", {}).get(name)
            if found:
                return str(found)
    return ""


@cache
def read_meanings(spec: type[Spec]) -> dict[str, str]:
    """The strings under a class's own fields; nothing where there is no source to read."""
    try:
        tree = ast.parse(dedent(inspect.getsource(spec)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, under in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant) and isinstance(under.value.value, str):
            found[field.target.id] = " ".join(under.value.value.split())
    return found


def describe_spec(spec: type[Spec]) -> str:
    """What a spec is: its own first sentence, or that of its file, where a file is about one thing."""
    told = vars(spec).get("__doc__") or inspect.getmodule(spec).__doc__ or ""
    return " ".join(told.strip().partition("\n\n")[0].split())


def settle(spec: type[Spec] | None, data: Any) -> type[Spec] | None:
    """The class that data is for: what its kind names, or the role's usual kind."""
    if spec is None:
        return None
    own, data = spec.model_fields["kind"].default, spec.complete(data)
    kind = data.get("kind") if isinstance(data, Mapping) else None
    kind = kind or (own if isinstance(own, str) else spec.usual)
    return spec.kinds.get(kind) if isinstance(kind, str) and kind != own else spec


def descend(spec: type[Spec], data: Any, key: str) -> type[Spec] | None:
    """The class of what stands under a key: by what the data says, or else by what stands there unless given."""
    field = spec.model_fields.get(key)
    if field is None:
        return None
    inner = data.get(key) if isinstance(data, Mapping) else None
    default = field.get_default(call_default_factory=True)
    if inner is None and isinstance(default, Spec):
        return type(default)
    if inner is None and not field.is_required():
        return None
    noted = [role for item in field.metadata if isinstance(item, Slot) for role in item.roles]
    for part in [*noted, *list_parts(field.annotation)]:
        if issubclass(part, StandIn):
            return part.find_spec(inner)
        if issubclass(part, Spec) and (found := settle(part, inner)) is not None:
            return found
    return None


def list_parts(annotation: Any) -> list[type]:
    """The classes that a type is made of."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated, tuple):
        return [part for inner in get_args(annotation) for part in list_parts(inner)]
    return [annotation] if isinstance(annotation, type) else []


def has_key(spec: type[Spec] | None, data: Any, path: str) -> bool:
    """Whether data for a spec may have a setting at a path: `optimizer.rate`."""
    key, _, rest = path.partition(".")
    if spec is None or key not in spec.model_fields:
        return False
    return not rest or has_key(descend(spec, data, key), data.get(key) if isinstance(data, Mapping) else None, rest)
