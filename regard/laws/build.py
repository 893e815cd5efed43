"""From what a user names to what the laws are tried on: a spec, a mixer, a class, a function that makes one, a module.

A class is built with the width where its signature has a word for it, ours or another toolkit's, and with what the
user sets. What can't be built, or maps (batch, time, width) to something else, is told before any law is tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.foreign import HEADS
from regard.core.foreign import WIDTH as WIDTHS
from regard.core.hint import suggest
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import choose_kind, show_value
from regard.errors import InputError, RegardError, SpecError
from regard.laws.case import ROWS, TIME
from regard.laws.law import describe_error
from regard.laws.subject import WIDTH, Foreign, Subject, copy_module, seed_weights, vary_weights, whole
from regard.laws.variant import list_bases, list_changes, make_small, vary

WIDTH_WORDS = {"width", "features", "channels", "input_size", "size", *WIDTHS.split()}
WIDTH_WORDS |= {"in_features", "out_features", "in_channels", "out_channels", "normalized_shape", "num_features"}
HEAD_WORDS = {"heads", *HEADS.split()}
HEAD_COUNT = 4
LARGEST = 4096  # width that a built module is tried with


def list_subjects(
    thing: Any,
    name: str = "",
    *,
    width: int | None = None,
    settings: Mapping[str, Any] | None = None,
    causal: bool | None = None,
    quick: bool = False,
) -> tuple[list[Subject], dict[str, str]]:
    """All variants of something that can be tried, the usual one first; and those that can't be built, with the reason.

    `causal`: what is said of a module that doesn't say it itself. `quick`: no setting is varied.
    """
    given = dict(settings or {})
    if isinstance(thing, str):
        thing = choose_kind(MixerSpec, thing, "laws")
    name = name or name_thing(thing)
    if isinstance(thing, type) and issubclass(thing, MixerSpec):
        thing = parse_spec(thing, given)
    elif isinstance(thing, MixerSpec):
        thing = thing.replace(**given) if given else thing
    if isinstance(thing, MixerSpec):
        insist_on_its_word(name, causal, None)
        return describe_all(thing, name, width or WIDTH, quick)
    if isinstance(thing, nn.Module):
        if given:
            raise SpecError(f"{name} is built already, so nothing can be set: {', '.join(given)}", "name its class")
        return [examine(name, lambda: copy_module(thing), find_width(thing, width), causal)], {}
    if not callable(thing):
        raise SpecError(
            f"laws are for specs, mixers and torch modules, and {show_value(thing)} is none of them",
            "a class on MixerSpec, Mixer or torch.nn.Module, one of its instances, or a function that makes one",
        )
    size = width or WIDTH
    made = construct(thing, name, size, given)
    if isinstance(made, MixerSpec | type):
        return list_subjects(made, name, width=width, causal=causal, quick=quick)
    if not isinstance(made, nn.Module):
        raise SpecError(
            f"laws are for mixers and torch modules, and {name} makes {show_value(made)}", "return a module"
        )

    def make() -> Mixer:
        seed_weights()
        module = construct(thing, name, size, given)
        return vary_weights(module if isinstance(module, Mixer) else Foreign(module)).eval()

    return [examine(name, make, size, causal)], {}


def name_thing(thing: Any) -> str:
    if isinstance(thing, MixerSpec):
        return thing.kind
    return str(getattr(thing, "__name__", type(thing).__name__))


def parse_spec(kind: type[MixerSpec], given: Mapping[str, Any]) -> MixerSpec:
    """A spec of some class with its defaults and what is given."""
    own = kind.model_fields["kind"].default
    if not isinstance(own, str):
        raise SpecError(
            f"{kind.__name__} has no kind, so nothing can be built of it", f'kind: Literal["{kind.__name__.lower()}"]'
        )
    missing = [key for key, info in kind.model_fields.items() if info.is_required() and key not in given]
    if missing:
        raise SpecError(
            f"{kind.__name__} needs {', '.join(missing)}", f"--set {missing[0]}=…, or a default in the class"
        )
    return kind.parse({"kind": own, **given})


def describe_all(spec: MixerSpec, name: str, width: int, quick: bool) -> tuple[list[Subject], dict[str, str]]:
    """A spec and its variants; settings that exclude each other are no variant."""
    spec = make_small(spec)
    try:
        built: object = spec.build(width)
    except RegardError:
        raise
    except Exception as error:  # of somebody else's code, so it may be anything
        raise SpecError(f"{name} can't be built at width {width}: {describe_error(error)}", "--width, --set") from error
    if not isinstance(built, Mixer):
        raise SpecError(
            f"{name}.build gives a {type(built).__name__}, and no Mixer", "class …(Mixer) of regard.core.mixer"
        )
    subjects, refused = [], {}
    bases = list_bases(spec)
    for variant in dict.fromkeys(bases if quick else [each for base in bases for each in vary(base)]):
        told = ", ".join(f"{key}={value}" for key, value in list_changes(variant).items())
        try:
            subject = Subject.describe(variant, told or "its defaults", width)
        except SpecError:
            continue
        except Exception as error:
            refused[told] = describe_error(error)
            continue
        subjects.append(subject)
    return subjects, refused


def construct(make: Callable[..., Any], name: str, width: int, given: Mapping[str, Any]) -> Any:
    """Call a class or a function with the width, as its signature has it, and with what is given."""
    arguments = choose_arguments(make, name, width, given)
    try:
        return make(**arguments)
    except RegardError:
        raise
    except Exception as error:  # of somebody else's code, so it may be anything
        told = ", ".join(f"{key}={show_value(value)}" for key, value in arguments.items())
        hint = "--width N, --set NAME=VALUE"
        raise SpecError(f"{name}({told}) can't be built: {describe_error(error)}", hint) from error


def choose_arguments(make: Callable[..., Any], name: str, width: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a class or a function is called with: what is given, the width, and a number of heads where it has some."""
    try:
        parameters = list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):  # it has no signature that Python could read
        return dict(given)
    named = {item.name: item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)}
    chosen = {find_parameter(key, named): value for key, value in given.items()}
    strange = [key for key in chosen if key not in named]
    if strange and len(named) == len(parameters):
        raise SpecError(f"{name} takes no {strange[0]!r}{suggest(strange[0], named)}")
    for key, item in named.items():
        needed = item.default is item.empty
        if key in WIDTH_WORDS and (needed or is_size(item.default)):
            chosen.setdefault(key, width)
        elif key in HEAD_WORDS and needed:
            chosen.setdefault(key, HEAD_COUNT)
    missing = [key for key, item in named.items() if item.default is item.empty and key not in chosen]
    if len(missing) == 1 and not chosen and missing != ["spec"]:
        return {missing[0]: width}  # what takes one number takes the width
    if missing:
        hint = "name the spec, which builds it" if "spec" in missing else " ".join(f"--set {key}=…" for key in missing)
        raise SpecError(f"{name} needs {', '.join(missing)}", hint)
    return chosen


def is_size(usual: object) -> bool:
    """Whether a default is a number, and no truth."""
    return isinstance(usual, int) and not isinstance(usual, bool)


def find_parameter(key: str, named: Mapping[str, Any]) -> str:
    """A parameter by our word for it, where the signature has another's."""
    for words in (WIDTH_WORDS, HEAD_WORDS):
        others = [name for name in named if name in words]
        if key in words and key not in named and len(others) == 1:
            return others[0]
    return key


def insist_on_its_word(name: str, said: bool | None, own: bool | None) -> None:
    """Refuse what contradicts a mixer, which says itself whether it is causal."""
    if said is not None and own is None:
        raise SpecError(f"{name} says itself whether it is causal", "leave --causal and --any-direction out")
    if said is not None and own != said:
        raise SpecError(f"{name} says that causal is {own}", f"causal = {said} in the class")


def examine(name: str, make: Callable[[], Mixer], width: int, causal: bool | None) -> Subject:
    """A subject without a spec: whether it needs a memory, and what is known of its directions."""
    sample = make()
    if isinstance(sample, Foreign):
        insist_on_shape(name, call(sample, width), width)
        return Subject("as it is", make, width, causal=causal)
    insist_on_its_word(name, causal, sample.causal)
    # one that starts from a memory doesn't say so, and complains
    memory = width if sample.recalls or isinstance(call(sample, width), InputError) else None
    # only a spec can say of who looks at a memory that it takes the same from there for every position
    one, other = (call(sample, width, sample.recalls, seed) for seed in (2, 3))
    blind = sample.recalls and isinstance(one, Tensor) and torch.equal(one, other)
    return Subject("as it is", make, width, memory_width=memory, causal=sample.causal, blind=blind)


def call(mixer: Mixer, width: int, memory: bool = False, seed: int = 2) -> Any:
    """What comes of (batch, time, width), with or without a memory of that width, or the error that does."""
    subject = Subject("", lambda: mixer, width, memory_width=width if memory else None)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return whole(mixer, subject.draw(seed=seed), subject.remember())
    except Exception as error:  # of somebody else's code, so it may be anything
        return error


def insist_on_shape(name: str, found: Any, width: int) -> None:
    """Refuse a module that isn't one of (batch, time, width) to the same."""
    given = (ROWS, TIME, width)
    laws = "and laws are for (batch, time, width) to the same"
    if isinstance(found, Exception):
        raise InputError(f"{name}, called with a tensor {given}, {describe_error(found)}; {laws}", "--width N")
    hint = "a module around it that returns such a tensor"
    if not isinstance(found, Tensor):
        parts = f" of {len(found)}" if isinstance(found, tuple | list) else ""
        raise InputError(f"{name} maps {given} to a {type(found).__name__}{parts}, {laws}", hint)
    if found.shape != given:
        raise InputError(f"{name} maps {given} to {tuple(found.shape)}, {laws}", hint)


def find_width(module: nn.Module, width: int | None) -> int:
    """The width of a module that is built already: what is given, or the size of a weight that suits."""
    if width is not None:
        return width
    sizes = {size for weight in module.parameters() for size in weight.shape if 1 < size <= LARGEST}
    mixer = copy_module(module)
    for size in (WIDTH, *sorted(sizes)):
        for memory in (False, True):
            found = call(mixer, size, memory)
            if isinstance(found, Tensor) and found.shape == (ROWS, TIME, size):
                return size
    return WIDTH
