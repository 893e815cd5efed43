"""Specs: frozen, validated descriptions that survive JSON and build what they describe.

A spec names itself by `kind`. Where a spec may stand is its role (`MixerSpec`, `NormSpec`, …); a role knows its
kinds because each spec enters itself when its file is imported, so adding one is writing one file. A slot takes a
spec, a mapping with a `kind`, or the bare kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from regard.core.hint import suggest
from regard.core.plugins import load_installed
from regard.core.registry import Kinds
from regard.errors import SpecError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass

else:
    ModelMetaclass = type(BaseModel)

Size = Annotated[int, Field(strict=True, ge=1, le=2**24)]
Depth = Annotated[int, Field(strict=True, ge=1, le=4096)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**24)]
Layers = Annotated[int, Field(strict=True, ge=0, le=4096)]
Rate = Annotated[float, Field(ge=0, lt=1)]
MOST, LONGEST = 200, 200  # problems that are told, and letters of a value that are shown
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _nameable(name: str) -> str:
    """Refuse what no file can be called."""
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ValueError("no file can have this name")
    return name


FileName = Annotated[str, AfterValidator(_nameable)]


class SpecType(ModelMetaclass):
    """Turn pydantic's complaint about a constructor call into ours."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        try:
            return super().__call__(*args, **settings)
        except ValidationError as error:
            from regard.core.advice import explain

            raise SpecError(explain(error, cast(type[Spec], cls), settings)) from None


class Spec(BaseModel, metaclass=SpecType):
    """A description of something to build: it is checked when it is made, it can't be changed, and it is plain data.

    >>> from regard.mixers.attention import Attention
    >>> Attention(heads=8).replace(causal=True).model_dump()["heads"]
    8
    """

    # a process uses few of the kinds that it imports, so pydantic makes what validates one when it is first used
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    usual: ClassVar[str | None] = None  # the kind of settings that name none
    renamed: ClassVar[Mapping[str, str]] = {}  # settings that earlier versions called otherwise: old name, new name
    meanings: ClassVar[Mapping[str, str]] = {}  # what settings mean that several kinds of a role have; see setting.py
    home: ClassVar[str | None] = None  # where a run file has it; with a dot in front: anywhere within a model
    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        name = cls.model_fields["kind"].default
        if not isinstance(name, str):
            return
        ours = cls.__module__.startswith("regard.")
        # one of ours that waits in its file has its name already; another file of ours can't have it too
        there = (cls.kinds.entered if ours else cls.kinds).get(name, cls)
        if (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
            # whoever defines the same class again, in a notebook, means the new one
            raise SpecError(f"kind {name!r} is taken by {there.__module__}.{there.__qualname__}", "another kind")
        cls.kinds[name] = cls
        if not ours:
            cls.model_rebuild(raise_errors=False)  # a mistake in a field is told where a plug-in is loaded

    @classmethod
    def parse(cls, settings: Any, where: Callable[[tuple[str | int, ...]], str] = lambda _: "") -> Self:
        """Read a spec from plain data; every problem in it is reported at once, with where it stands."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            from regard.core.advice import explain

            raise SpecError(explain(error, cls, settings, where)) from None

    def replace(self, **settings: Any) -> Self:
        """This spec with other settings, validated again."""
        return self.parse({**self.fields(), **self.rename(settings)})

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """A description computes nothing: who takes it for the module is told how to make that."""
        name = type(self).__name__
        raise SpecError(f"{name}(…) describes a module and isn't one", f"{name}(…).build(width) makes the module")

    @classmethod
    def rename(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings by the names that they have now; what is given by both names is refused later."""
        old = {name: new for name, new in cls.renamed.items() if name in settings and new not in settings}
        return {old.get(name, name): value for name, value in settings.items()}

    @model_serializer(mode="plain")
    def fields(self) -> dict[str, Any]:
        """Every setting, those of a subclass too where a slot names only the role."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @classmethod
    def complete(cls, value: Any) -> Any:
        """Settings from what stands for them: a bare word is a kind."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="wrap")
    @classmethod
    def choose(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Send data to the class that its kind names, and say which settings it doesn't know."""
        value = cls.complete(value)
        if not isinstance(value, dict):
            return handler(value)
        own = cls.model_fields["kind"].default
        kind = value.get("kind", own if isinstance(own, str) else cls.usual)
        if isinstance(kind, str) and kind not in cls.kinds:
            load_installed()  # it may be of a plug-in
        chosen = cls.kinds.get(kind) if isinstance(kind, str) else None
        if chosen is None or not issubclass(chosen, cls):
            fitting = [name for name, spec in cls.kinds.items() if issubclass(spec, cls)]
            if kind is None:
                raise PydanticCustomError("kind", "which kind? known: {known}", {"known": ", ".join(sorted(fitting))})
            raise PydanticCustomError("kind", "unknown kind {kind}{hint}", explain_unknown(kind, fitting))
        if chosen is not cls:
            return chosen.model_validate(value)
        value = cls.rename(value)
        strange = [name for name in value if name not in cls.model_fields]
        if not strange:
            return handler(value)
        known = {name: item for name, item in value.items() if name in cls.model_fields}
        errors = [
            InitErrorDetails(
                # what may have been meant is found by `advice`, which knows what is around
                type=PydanticCustomError("unknown", "unknown setting", {"known": list(cls.model_fields)}),
                loc=(name,),
                input=value[name],
            )
            for name in strange[:MOST]
        ]
        try:
            handler(known)
        except ValidationError as error:
            errors += [
                InitErrorDetails(
                    type=PydanticCustomError(
                        "unknown" if item["type"] == "unknown" else "other",
                        "{message}",
                        {"message": item["msg"], "known": item.get("ctx", {}).get("known", [])},
                    ),
                    loc=item["loc"],
                    input=item["input"],
                )
                for item in error.errors()
            ]
        raise ValidationError.from_exception_data(cls.__name__, errors)


class StandIn:
    """What stands in a field for a spec of some roles, and says itself which of their classes it means."""

    roles: ClassVar[tuple[type[Spec], ...]] = ()
    words: ClassVar[str] = "settings"  # what people write there

    @classmethod
    def find_spec(cls, data: Any) -> type[Spec] | None:
        """The class that data is for, if it is clear."""
        raise NotImplementedError


R = TypeVar("R", bound=Spec)


def choose_kind(role: type[R], kind: str, option: str) -> R:
    """What a user means by the bare kind after an option, with its defaults."""
    if kind not in role.kinds:
        load_installed()  # it may be of a plug-in
    if kind not in role.kinds:
        raise SpecError(f"{option}: unknown kind {show_value(kind)}{suggest(kind, role.kinds)}")
    return role.parse(kind)


def explain_unknown(word: object, known: Iterable[str]) -> dict[str, str]:
    """What a message about an unknown word needs: the word, and what it may have meant."""
    return {"kind": show_value(word), "hint": suggest(word, known)}


def show_value(given: object) -> str:
    """A value as it is shown in a message, however large or deep it is."""
    try:
        text = repr(given)
    except (ValueError, RecursionError):
        return f"a {type(given).__name__} too large to show"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def divides(part: int, whole: int, name: str, whole_name: str, fixed: bool = False) -> None:
    """Insist that a size splits evenly, and offer the nearest number that does; `fixed`: only the whole can change."""
    if whole % part:
        near = min((n for n in range(1, whole + 1) if whole % n == 0), key=lambda n: (abs(n - part), n))
        hint = f"{whole_name}={whole + part - whole % part}" if fixed else f"{name}={near}"
        raise SpecError(f"{name}: {whole_name} {whole} is not divisible by {name} {part}", hint)


def build_optional(spec: Any, *sizes: Any) -> Any:
    """What an optional spec describes, or None."""
    return None if spec is None else spec.build(*sizes)
