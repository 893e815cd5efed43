"""How a text becomes a vector: what is read of it, how its states become one, and what is done to that.

What was trained here takes the mean, at unit length. A folder of sentence-transformers says it in files of its own
(Reimers & Gurevych 2019): `modules.json` lists what comes after the encoder, and each module has a config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from regard.core.blueprint import blueprint
from regard.core.dense import Dense
from regard.core.mask import average
from regard.data.origin import Origin
from regard.errors import CheckpointError, InputError

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Step = Callable[[Tensor], Tensor]
# their settings, in the order in which several modes are joined; the mean is on where nothing is said of it
MODES: dict[str, Mode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS: dict[str, Step] = {
    "Tanh": torch.tanh,
    "Identity": lambda x: x,
    "ReLU": torch.relu,
    "GELU": F.gelu,
    "Sigmoid": torch.sigmoid,
    "SiLU": F.silu,
}
MODULES, SETTINGS, READING = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")  # names of prompts for the two sides of a search


def pool(states: Tensor, valid: Tensor, mode: Mode) -> Tensor:
    """One vector of each row's real positions, pads last: (rows, time, width) -> (rows, width)."""
    count = valid.sum(1, keepdim=True)
    if mode == "cls":
        return states[:, 0]
    if mode == "lasttoken":
        return states[torch.arange(len(states), device=states.device), count[:, 0] - 1]
    if mode == "max":
        return states.masked_fill(~valid[..., None], -torch.inf).amax(1)
    if mode == "weightedmean":  # later tokens weigh more (Muennighoff 2022)
        weights = valid * torch.arange(1, valid.shape[1] + 1, device=states.device)
        return (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)
    mean = average(states, valid)
    return mean if mode == "mean" else mean * count.sqrt()


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


@dataclass(frozen=True)
class Projection:
    """A layer after pooling."""

    dense: Dense
    activation: Step

    def __call__(self, x: Tensor) -> Tensor:
        return self.activation(self.dense.to(x)(x))


@dataclass(frozen=True)
class Recipe:
    """From texts to vectors."""

    modes: tuple[Mode, ...] = ("mean",)
    steps: tuple[Step, ...] = (unit,)  # what is done to the pooled vector
    lower: bool = False  # texts are read in lower case
    strip: bool = False  # without the spaces around them
    longest: int | None = None  # tokens that are read of a text, those around it among them
    prompts: Mapping[str, str] = field(default_factory=dict)  # what may be put before a text, by name
    usual: str | None = None  # the prompt unless another is asked for
    similarity: str = "cosine"  # what its vectors are compared by

    def vector(self, states: Tensor, valid: Tensor) -> Tensor:
        """(rows, time, width) -> (rows, size)"""
        found = torch.cat([pool(states, valid, mode) for mode in self.modes], -1)
        for step in self.steps:
            found = step(found)
        return found

    def prepared(self, texts: Sequence[str], prompt: str | None) -> list[str]:
        """Texts as they are read: with a prompt before each, in lower case."""
        name = self.usual if prompt is None else prompt
        if name is not None and name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"prompt {name!r}: this model has no such prompt", f"known: {known}")
        before = "" if name is None else self.prompts[name]
        found = [before + text for text in texts]
        found = [text.strip() for text in found] if self.strip else found
        return [text.lower() for text in found] if self.lower else found

    def prompt(self, names: Sequence[str]) -> str | None:
        """The first of these prompts that it has."""
        return next((name for name in names if name in self.prompts), None)

    def insist_on_cosines(self) -> None:
        """Refuse to rank by cosine what is meant to be compared otherwise."""
        if self.similarity != "cosine" and not (self.similarity == "dot" and self.steps[-1:] == (unit,)):
            raise InputError(
                f"its vectors are compared by {self.similarity}, and regard search ranks by cosine", "regard embed"
            )

    @classmethod
    def read(cls, origin: Origin | None) -> Recipe:
        """What the files of sentence-transformers say; the mean at unit length where there are none."""
        modules = [] if origin is None else origin.entries_of(MODULES)
        if origin is None or not modules:
            return cls()
        names = [str(module.get("type")).rpartition(".")[2] for module in modules]
        if names[:2] != ["Transformer", "Pooling"] or modules[0].get("path"):
            wants = "an encoder in the folder itself, then a pooling"
            raise CheckpointError(
                f"{MODULES}: it lists {', '.join(names)}, and what can be computed begins with {wants}"
            )
        name = f"{modules[1].get('path')}/config.json"
        config = _config(origin, name)
        told, reading = origin.json(SETTINGS), origin.json(READING)
        prompts, usual = told.get("prompts") or {}, told.get("default_prompt_name")
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            raise CheckpointError(f"{SETTINGS}: prompts isn't a table of texts")
        if usual is not None and usual not in prompts:
            raise CheckpointError(f"{SETTINGS}: default_prompt_name {usual!r} is none of its prompts")
        if any(prompts.values()) and not config.get("include_prompt", True):
            raise CheckpointError(f"{name}: include_prompt: only true can be computed here")
        longest = reading.get("max_seq_length")
        if longest is not None and (type(longest) is not int or longest < 1):
            raise CheckpointError(f"{READING}: max_seq_length: {longest!r} isn't a number of tokens")
        later = zip(names[2:], modules[2:], strict=True)
        return cls(
            modes_of(config, name),
            tuple(_step(origin, kind, str(module.get("path"))) for kind, module in later),
            bool(reading.get("do_lower_case")),
            True,
            longest,
            prompts,
            usual,
            told.get("similarity_fn_name") or "cosine",
        )


def modes_of(config: Mapping[str, Any], name: str) -> tuple[Mode, ...]:
    """Which states of a text count, by the config of a pooling."""
    strange = [key for key, on in config.items() if key.startswith("pooling_mode_") and on and key not in MODES]
    if strange:
        raise CheckpointError(f"{name}: {strange[0]} can't be computed here", f"known: {', '.join(MODES)}")
    said = config.get("pooling_mode")
    if said is not None:
        chosen = [mode for mode in MODES.values() if mode in ([said] if isinstance(said, str) else said)]
        if len(chosen) != (1 if isinstance(said, str) else len(said)):
            known = ", ".join(MODES.values())
            raise CheckpointError(f"{name}: pooling_mode {said!r} isn't known here", f"known: {known}")
        return tuple(chosen)
    found = tuple(mode for key, mode in MODES.items() if config.get(key, mode == "mean"))
    if not found:
        raise CheckpointError(f"{name}: no mode of pooling is on")
    return found


def _config(origin: Origin, name: str) -> dict[str, Any]:
    """The config of a module that is listed: without it nobody knows what is computed."""
    if name not in origin.files:
        kept = "the folders of modules are called 1_Pooling, 2_Dense, …, in modules.json too"
        raise CheckpointError(f"{MODULES}: it lists a module whose {name} isn't among the files that are read", kept)
    return origin.json(name)


def _step(origin: Origin, kind: str, path: str) -> Step:
    if kind == "Normalize":
        return unit
    if kind != "Dense":
        raise CheckpointError(f"{MODULES}: {kind} can't be computed here", "known: Pooling, Dense, Normalize")
    config = _config(origin, f"{path}/config.json")
    named = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if named not in ACTIVATIONS:
        raise CheckpointError(f"{path}/config.json: activation_function {named!r} isn't known here")
    places = [config.get(key, "sentence_embedding") for key in ("module_input_name", "module_output_name")]
    if set(places) - {"sentence_embedding", None}:
        raise CheckpointError(f"{path}/config.json: a layer from {places[0]!r} to {places[1]!r} can't be computed here")
    content = origin.files.get(f"{path}/model.safetensors")
    if content is None:
        raise CheckpointError(f"{path}/model.safetensors: the weights of this layer are missing")
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path}/model.safetensors: {error}") from None
    wanted: dict[str, tuple[Any, ...]] = {"linear.weight": (config.get("out_features"), config.get("in_features"))}
    wanted |= {"linear.bias": (config.get("out_features"),)} if config.get("bias", True) else {}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes != wanted or not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise CheckpointError(f"{path}/model.safetensors: it has {shapes}, and its config says {wanted}, all finite")
    with blueprint():
        dense = Dense(config["in_features"], config["out_features"], bias="linear.bias" in tensors)
    dense.load_state_dict({name.removeprefix("linear."): tensor for name, tensor in tensors.items()}, assign=True)
    return Projection(dense.requires_grad_(False), ACTIVATIONS[named])
