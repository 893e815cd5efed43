"""Every mixer in the folder, in every variant that its settings allow: what the laws run on.

A variant changes one setting: a switch is flipped, a choice takes each of its values, a slot each kind that stands
without settings. A new file in `regard/mixers` is found by itself.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import pytest
import torch
from torch import Tensor

import regard.mixers  # noqa: F401
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import Probe
from regard.core.spec import Spec
from regard.core.state import Memory, State
from regard.core.view import View
from regard.errors import SpecError

WIDTH, ROWS, TIME, KEYS = 16, 3, 10, 6

EXTRA: list[dict[str, Any]] = [
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True},
    {"kind": "attention", "heads": 4, "kv_heads": 1, "causal": True, "position": "rotary"},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "window": 3, "position": "rotary"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 3, "position": "alibi"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 4, "position": "bucketed"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 1},
    {"kind": "attention", "heads": 3, "size": 6, "causal": True, "norm": "rmsnorm", "position": "alibi"},
    {"kind": "attention", "heads": 4, "window": 3},
    {"kind": "attention", "heads": 4, "position": {"kind": "bucketed", "both": True}},
    {"kind": "attention", "heads": 4, "over": "memory", "kv_heads": 2},
    {"kind": "attention", "heads": 4, "over": "memory", "memory": 24},
    {"kind": "attentive", "memory": 24, "start": "mean"},
    {"kind": "pool", "over": "memory", "memory": 24},
    *(
        {"kind": "attention", "heads": 2, "causal": True, "position": {"kind": "rotary", "scaling": scaling}}
        for scaling in (
            {"kind": "llama3", "context": 8},
            {"kind": "linear", "factor": 2.0},
            {"kind": "yarn", "factor": 4.0, "context": 8},
            {"kind": "dynamic", "factor": 2.0, "context": 512},  # past its context it departs, by nature
        )
    ),
    {"kind": "latent", "heads": 4, "rank": 8, "query_rank": 12, "size": 6, "rotary": 4, "value": 5},
    {"kind": "recurrent", "cell": "gru", "layers": 2, "start": "mean"},
    {"kind": "recurrent", "cell": "lstm", "layers": 3, "direction": "both"},
    *({"kind": "recurrent", "cell": "rnn", "skip": skip} for skip in (1, 3, 20)),
    {"kind": "recurrent", "cell": "lstm", "layers": 2, "skip": 4, "start": "final"},
    *({"kind": "recurrent", "skip": 2, "direction": direction} for direction in ("backward", "both", "apart")),
    {"kind": "convolution", "kernel": 2, "causal": True},
    {"kind": "convolution", "kernel": 4, "dilation": 3, "causal": True},
    {"kind": "convolution", "kernel": 4, "dilation": 2, "gated": False},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "window": 3, "position": "alibi", "hard": True},
    {"kind": "attention", "heads": 4, "over": "memory", "hard": True},
    {"kind": "attentive", "when": "after", "score": "diagonal", "feed": True},
    {"kind": "attentive", "when": "after", "score": "dot", "hard": True},
    {"kind": "attentive", "when": "after", "feed": True, "layers": 2, "cell": "lstm", "start": "bridge"},
    {"kind": "attentive", "when": "before", "feed": True, "query": "both", "score": {"kind": "reduced", "rank": 4}},
    {"kind": "attentive", "when": "after", "score": "location", "readout": "maxout"},
    {"kind": "turing", "slots": 8, "size": 5, "reads": 2, "writes": 3, "shift": 2},
    {"kind": "mamba", "convolution": 1, "states": 3},
    {"kind": "ssm", "states": 2},
]


def bases() -> Iterator[MixerSpec]:
    for kind in sorted(MixerSpec.kinds):
        plain = MixerSpec.parse(kind)
        sizes = {name: 8 for name, value in plain.fields().items() if isinstance(value, int) and value > WIDTH}
        plain = plain.replace(**sizes)  # the laws hold at any size; small ones are quick
        yield from dict.fromkeys((plain, plain.forward_only(), plain.both_ways()))


def variants(spec: MixerSpec) -> Iterator[MixerSpec]:
    """The spec itself, and with one setting changed."""
    yield spec
    for name, info in type(spec).model_fields.items():
        if name == "kind":
            continue
        for value in choices(info.annotation, getattr(spec, name)):
            try:
                yield spec.replace(**{name: value})
            except SpecError:
                continue  # a kind that needs settings


def choices(annotation: Any, now: Any) -> Iterator[Any]:
    """Other values that a setting can take, where they can be listed."""
    origin = typing.get_origin(annotation)
    if annotation is bool:
        yield not now
    elif origin is Literal:
        yield from (value for value in typing.get_args(annotation) if value != now)
    elif origin in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from choices(part, now)
    elif isinstance(annotation, type) and issubclass(annotation, Spec):
        yield from (kind for kind in annotation.kinds if now is None or kind != now.kind)


def every_mixer() -> list[MixerSpec]:
    """Whatever can be built at the laws' width."""
    specs = [variant for base in bases() for variant in variants(base)] + [MixerSpec.parse(extra) for extra in EXTRA]
    built = []
    for spec in dict.fromkeys(specs):
        try:
            spec.build(WIDTH)
        except SpecError:
            continue  # settings that exclude each other
        built.append(spec)
    return built


def label(spec: MixerSpec) -> str:
    changed = []
    for name, info in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name != "kind" and value != info.default:
            changed.append(f"{name}={value.kind if isinstance(value, Spec) else value}")
    return "-".join([spec.kind, *changed])


def blind(spec: MixerSpec) -> bool:
    """Whether its output doesn't depend on its input: the mean of a memory is the same for every query."""
    return spec.kind == "pool" and spec.over_memory


SPECS = every_mixer()
CAUSAL = [spec for spec in SPECS if spec.build(WIDTH).causal]
Test = TypeVar("Test", bound=Callable[..., None])


@dataclass
class Law:
    """A test of one mixer, and which mixers it speaks of: so that it can be applied to mixers from elsewhere, too."""

    test: Callable[..., None]
    speaks_of: Callable[[MixerSpec], bool]

    def cases(self, spec: MixerSpec) -> Iterator[dict[str, Any]]:
        """What to call it with, for one mixer; nothing where it doesn't speak of it, or takes minutes."""
        marks = vars(self.test).get("pytestmark", [])
        if not self.speaks_of(spec) or any(mark.name == "long" for mark in marks):
            return
        tables = {mark.args[0]: mark.args[1] for mark in marks if mark.name == "parametrize"} | {"spec": [spec]}
        for values in itertools.product(*tables.values()):
            yield dict(zip(tables, values, strict=True))


LAWS: list[Law] = []


def law(speaks_of: Callable[[MixerSpec], bool]) -> Callable[[Test], Test]:
    """Make a test of every mixer here that it speaks of."""

    def make(test: Test) -> Test:
        test = pytest.mark.parametrize("spec", [spec for spec in SPECS if speaks_of(spec)], ids=label)(test)
        LAWS.append(Law(test, speaks_of))
        return test

    return make


@cache
def is_causal(spec: MixerSpec) -> bool:
    return spec.build(WIDTH).causal


every = law(lambda _: True)
causal = law(is_causal)


def build(spec: MixerSpec) -> Mixer:
    torch.manual_seed(1)
    return spec.build(WIDTH).eval()


def inputs(time: int = TIME, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, time, WIDTH, generator=torch.Generator().manual_seed(2))


def memory(spec: MixerSpec, rows: int = ROWS, keys: int = KEYS) -> Memory | None:
    """Something to look at, for the mixers that do."""
    if not spec.over_memory:
        return None
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(rows, keys, spec.memory_width(WIDTH) or WIDTH, generator=generator)
    layers = spec.fields().get("layers", 1)
    return Memory(tensors=(states,), final=torch.randn(rows, 2, layers, states.shape[-1], generator=generator))


def whole(
    mixer: Mixer, x: Tensor, memory: Memory | None, valid: Tensor | None = None, probe: Probe | None = None
) -> Tensor:
    return mixer(x, View.of(x, valid, memory=memory, probe=probe))


def fresh(mixer: Mixer, x: Tensor, memory: Memory | None, room: int = 0) -> State | None:
    view = View.of(x[:, :0], memory=memory)
    view.room = room
    return mixer.start(x.shape[0], view)


def follow(
    mixer: Mixer,
    x: Tensor,
    state: State | None,
    memory: Memory | None,
    valid: Tensor | None = None,
    probe: Probe | None = None,
) -> Tensor:
    """The next chunk."""
    return mixer(x, View.of(x, valid, state, memory=memory, probe=probe), state)
