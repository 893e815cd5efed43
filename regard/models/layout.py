"""How a family's checkpoints look in Hugging Face layout, as data: `hub/` reads it in both directions.

A row of the table has their name and ours: `model.layers.{i}.mlp.up_proj -> decoder.blocks.{i}.ffn.inner.up`. It stands
for `.weight` and `.bias` alike, or for one tensor where theirs says so. `=>` turns a matrix on its side; `x.a | b | c`
cuts a tensor that they keep in one; `-name->` calls a change by name; `-> nothing` is a buffer. Where only their side
has a number (`experts.{e}`), ours is a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from regard.errors import CheckpointError

Config = Mapping[str, Any]  # a config.json
Tree = dict[str, Any]
ACTIVATIONS = {
    **{name: name for name in ("relu", "gelu", "silu", "tanh")},
    **{"gelu_new": "gelu-tanh", "gelu_fast": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "swish": "silu"},
}
WANTED = object()  # a key that has no default


@dataclass(frozen=True)
class Key:
    """One of their keys, the value that it has where a file leaves it out, and what its values are called here."""

    name: str
    default: Any = WANTED
    values: Mapping[Any, Any] | None = None

    def read(self, config: Config) -> Any:
        value = config.get(self.name, self.default)
        if value is WANTED:
            raise CheckpointError(f"config.json: {self.name} is missing")
        if self.values is None:
            return value
        if not isinstance(value, str | bool | int) or value not in self.values:
            raise CheckpointError(f"config.json: {self.name}: {value!r} is none of {', '.join(map(str, self.values))}")
        return self.values[value]

    def write(self, value: Any) -> Any:
        if self.values is None:
            return value
        theirs = next((theirs for theirs, ours in self.values.items() if ours == value), WANTED)
        if theirs is WANTED:
            known = ", ".join(map(str, self.values.values()))
            raise CheckpointError(f"{self.name}: there is no value for {value!r}, only for {known}")
        return theirs


def activation(name: str, default: str) -> Key:
    return Key(name, default, ACTIVATIONS)


class Match(Protocol):
    """What a change may ask for: the settings, and the config.json that they stand for."""

    @property
    def settings(self) -> Any: ...

    @property
    def config(self) -> Config: ...

    @property
    def layout(self) -> Layout: ...


@dataclass(frozen=True)
class Change:
    """A change of a tensor, and the change back."""

    read: Callable[[Tensor, Match], Tensor]
    write: Callable[[Tensor, Match], Tensor]


@dataclass(frozen=True)
class Head:
    """One of their classes: the settings that make it, as values or from a config.json, and the rows of its own."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: str = ""
    bare: bool = False  # without a head: names lack the prefix


def no_settings(config: Config, names: Collection[str]) -> Tree:
    return {}


def no_keys(settings: Any) -> Tree:
    return {}


def no_rows(settings: Any) -> str:
    return ""


@dataclass(frozen=True)
class Layout:
    """A table of names, the keys of config.json, and what neither can say."""

    rows: str
    keys: Mapping[str, Key]  # by our settings' names
    heads: Mapping[str, Head]  # by their classes' names; the first is the usual one
    spare: str = ""  # rows that a file may have and a model may lack, such as a tied head's
    # tensors that a file may repeat, and what they must equal; a head that differs is its own, if `tied` can say so
    copies: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""  # of all names but a head's
    fixed: Mapping[str, Any] = field(default_factory=dict)  # keys of which only one value can be computed here
    read: Callable[[Config, Collection[str]], Tree] = no_settings  # further settings, from the names in a file too
    write: Callable[[Any], Tree] = no_keys  # further keys
    changes: Mapping[str, Change] = field(default_factory=dict)
    more: Callable[[Any], str] = no_rows  # rows that depend on the settings


SCALINGS = {
    "linear": {"factor": "factor"},
    "dynamic": {"factor": "factor"},
    "yarn": {
        "factor": "factor",
        "context": "original_max_position_embeddings",
        "fast": "beta_fast",
        "slow": "beta_slow",
        "attention": "attention_factor",
        "mscale": "mscale",
        "mscale_all": "mscale_all_dim",
    },
    "llama3": {
        "factor": "factor",
        "context": "original_max_position_embeddings",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
    },
}


def read_rotary(config: Config, base: float) -> Tree:
    """`base` and `scaling`, from the keys of today (`rope_parameters`) or of before (`rope_theta`, `rope_scaling`)."""
    told = dict(config.get("rope_scaling") or config.get("rope_parameters") or {})
    found = told.pop("rope_theta", config.get("rope_theta", base))
    kind = told.pop("rope_type", told.pop("type", "default"))
    told.pop("type", None)
    if kind == "default":
        return {"base": found, "scaling": None}
    if kind not in SCALINGS:
        raise CheckpointError(f"config.json: rotary scaling {kind!r} is none of {', '.join(SCALINGS)}")
    names = {theirs: ours for ours, theirs in SCALINGS[kind].items()}
    length = config.get("max_position_embeddings")
    scaling: Tree = {"kind": kind}
    if kind == "dynamic":
        scaling["context"] = length
    if kind in ("yarn", "llama3"):
        told.setdefault("original_max_position_embeddings", length)
    for key, value in told.items():
        if key not in names and not (kind == "dynamic" and key == "original_max_position_embeddings"):
            raise CheckpointError(f"config.json: rotary scaling {kind!r} has no {key!r} here")
        if key in names and value is not None:
            scaling[names[key]] = value
    return {"base": found, "scaling": scaling}


def write_rotary(base: float, scaling: Any, context: int) -> Tree:
    """The same keys, as readers of today and of before expect them."""
    plain = {"rope_theta": base, "rope_parameters": {"rope_type": "default", "rope_theta": base}}
    if scaling is None:
        return plain | {"max_position_embeddings": context}
    values = scaling.model_dump()
    told = {theirs: values[ours] for ours, theirs in SCALINGS[scaling.kind].items() if values[ours] is not None}
    told = {"rope_type": scaling.kind, **told}
    length = values.get("context", context)
    length = length if scaling.kind in ("dynamic", "linear") else int(length * scaling.factor)
    return {
        "rope_theta": base,
        "rope_scaling": told,
        "rope_parameters": {**told, "rope_theta": base},
        "max_position_embeddings": length,
    }


def labels(config: Config) -> int:
    """How many classes a classifier has."""
    named = config.get("id2label")
    return len(named) if isinstance(named, dict) and named else int(config.get("num_labels", 2))


def describe_labels(count: int) -> Tree:
    names = [f"LABEL_{n}" for n in range(count)]
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
    }
