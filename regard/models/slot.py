"""What a user says of a slot, and no more: what nobody said is left open, so that the family can say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from regard.config import merge
from regard.core.plugins import load_installed
from regard.core.setting import Slot
from regard.core.spec import Spec, explain_unknown, show_value

Said = Mapping[str, Any]  # settings of a part as they were said, and no others
Choice = Said | Literal["none"] | None  # None: as the family has it
R = TypeVar("R", bound=Spec)
# what a part takes over from the one whose place it takes, though it is of another kind
KEPT = ("heads", "cell", "layers", "start", "hidden", "activation", "eps")


@dataclass(frozen=True)
class Say(Slot):
    """A field that keeps what was said, once it is sure that it can be read.

    Settings that nobody said are left open, so that the family can say them; a validated spec would have them all.
    """

    def read(self, value: Any) -> Choice:
        if value is None or value == "none":
            return value
        if isinstance(value, Spec):
            value = {"kind": value.kind} | {name: getattr(value, name) for name in value.model_fields_set}
        said = {"kind": value} if isinstance(value, str) else value
        if not isinstance(said, dict):
            raise ValueError(f"a kind, or settings, and not {show_value(value)}")
        if "kind" in said:
            self.role(said["kind"]).model_validate(said)
        return {name: item.model_dump() if isinstance(item, Spec) else item for name, item in said.items()}

    def role(self, kind: object) -> type[Spec]:
        """The role that has a kind; one that nobody has is refused."""
        if isinstance(kind, str):
            if not any(kind in role.kinds for role in self.roles):
                load_installed()  # it may be of a plug-in
            for role in self.roles:
                if kind in role.kinds:
                    return role
        known = ["none", *(name for role in self.roles for name in role.kinds)]
        raise PydanticCustomError("kind", "unknown kind {kind}{hint}", explain_unknown(kind, known))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)


def takes(own: Spec | None, said: Said) -> bool:
    """Whether something said is for a part: it names a kind, or settings that the part has."""
    return "kind" in said or (own is not None and set(own.rename(said)) <= set(type(own).model_fields))


def settle(own: R | None, said: Said, slot: str, usual: Mapping[str, Any], role: type[R] | None = None) -> R:
    """A part as it was said: over the family's own where it is of that kind, else afresh, but for what stays usual."""
    told = lambda place: f"{slot}." if place else ""  # noqa: E731  before a setting's own name
    if own is not None and said.get("kind", own.kind) == own.kind:
        return type(own).parse(merge(own.model_dump(), own.rename(said)), told)
    assert role is not None
    chosen = role.kinds[said["kind"]]
    before = {} if own is None else {name: value for name, value in own.fields().items() if name in KEPT}
    fitting = {name: value for name, value in {**usual, **before}.items() if name in chosen.model_fields}
    return role.parse({**{name: value for name, value in fitting.items() if value is not None}, **said}, told)
