"""A folder in Hugging Face layout, read: config.json, safetensors in one file or in shards, tokenizers.

Nothing in it is run. Tensors stay where they are on disk until they are used, so a model costs no second copy; what is
wrong with a checkpoint is told all at once.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.spec import Spec, explain_unknown
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin, content_of, follow_link
from regard.data.processor import read_processor
from regard.data.tokenizer import Tokenizer
from regard.errors import CheckpointError, warn
from regard.host.meter import Advance, ignore
from regard.hub.table import Problems, Table
from regard.hub.words import tokenizers
from regard.models import Family, Settings, families
from regard.models.layout import Layout

PIECE = 2**18  # values that are looked at at once
NOW = {".gamma": ".weight", ".beta": ".bias"}  # how the first BERTs call what a norm has
BEFORE = re.compile(r"\.(gamma|beta)$")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
HEAD = "lm_head.weight"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass
class FamilyMatch:
    """What a config.json describes."""

    kind: str  # their model type
    family: Family[Any]
    layout: Layout
    settings: Settings
    architecture: str  # their class
    config: Mapping[str, Any]  # as it was read, or as it will be written

    @property
    def spec(self) -> ModelSpec:
        return self.family.compose(self.settings)

    def table(self, names: Collection[str] = (), partial: bool = False) -> Table:
        """The rows over this model; a file whose names all lack the prefix is read as it is. `partial`: some of our
        tensors may have no row.
        """
        shapes = {name: tensor.shape for name, tensor in self.spec.build("meta").state_dict().items()}
        prefix = self.layout.prefix
        bare = self.layout.heads[self.architecture].bare
        if names and prefix:
            bare = not any(name.startswith(prefix) for name in names)
        table = Table(self, self.architecture, shapes, bare)
        if table.lacking and not partial:
            raise CheckpointError(f"{table.lacking[0]}: this layout has no row for it")
        return table


@dataclass
class Imported:
    """A model with the weights of a folder."""

    plan: FamilyMatch
    model: Model
    tokenizers: tuple[Tokenizer, Tokenizer] | None  # of the source and the target, mostly one and the same
    unused: list[str]  # tensors of heads that this model doesn't have
    origin: Origin  # what came with it

    @property
    def lexicon(self) -> Lexicon | None:
        """What its numbers stand for; of a model that reads pictures, what these look like too, where that is told."""
        if self.tokenizers is not None:
            return Lexicon(self.tokenizers, self.labels, foreign=True)
        picture = self.model.spec.main.embedding.picture
        if picture is None:
            return None
        found = read_processor(self.origin, picture)
        for line in found.told:
            warn(line)
        return Lexicon(None, self.labels, canvas=found.canvas)

    @property
    def labels(self) -> list[str]:
        """What the classes or tags of its head are called."""
        told = self.plan.config.get("id2label")
        named = told if isinstance(told, dict) else {}
        count = 0 if self.model.spec.head is None else self.model.spec.head.label_count or 0
        names = [str(named.get(str(n), named.get(n, f"LABEL_{n}"))) for n in range(count)]
        if len(set(names)) < count:
            twice = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(f"config.json: id2label: {twice!r} is the name of two classes")
        return names


def match_family(config: Mapping[str, Any], where: str = "config.json", names: Collection[str] = ()) -> FamilyMatch:
    """The family and the settings that a config.json stands for; `names`: of the tensors beside it."""
    if config.get("auto_map"):
        raise CheckpointError(
            f"{where}: auto_map asks to run code that comes with the weights; nothing in a folder is ever run",
            "if its layout is a known one, delete auto_map from config.json",
        )
    known = {kind: (family, layout) for family in families().values() for kind, layout in family.layouts.items()}
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in known:
        raise CheckpointError(f"{where}: model_type {kind!r} isn't known here{explain_unknown(kind, known)['hint']}")
    family, layout = known[kind]
    problems = [
        f"{key} is {config[key]!r}, and only {value!r} can be computed here"
        for key, value in layout.fixed.items()
        if config.get(key, value) != value and config[key] is not None
    ]
    if problems:
        raise CheckpointError(f"{where}: " + "; ".join(problems))
    named = config.get("architectures") or [next(iter(layout.heads))]
    if not isinstance(named, list) or named[0] not in layout.heads:
        raise CheckpointError(f"{where}: architectures {named!r}: none of {', '.join(layout.heads)}")
    tree = {setting: key.read(config) for setting, key in layout.keys.items()}
    chosen = layout.heads[named[0]].settings
    for key, value in chosen.items():  # a spec can be called too, to say that it is none
        tree[key] = value(config) if callable(value) and not isinstance(value, Spec) else value
    tree |= layout.read(config, names)
    return FamilyMatch(kind, family, layout, family.settings.parse(tree), named[0], config)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, if it is one and not absurdly large."""
    try:
        found = json.loads(content_of(path.parent, path.name))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: not an object")
    return found


def shards(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """The files that hold the weights; each must be a plain file of this folder, or a link of Hugging Face's cache."""
    if (folder / WEIGHTS).exists():
        names = [WEIGHTS]
    elif (folder / INDEX).exists():
        index = read_json(folder / INDEX).get("weight_map")
        if not isinstance(index, dict) or not index or not all(isinstance(name, str) for name in index.values()):
            raise CheckpointError(f"{folder / INDEX}: it has no weight_map")
        names = sorted(set(index.values()))
    else:
        pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        if pickles:
            raise CheckpointError(
                f"{folder}: {pickles[0]} is a pickle, which can run code when it is read, so it isn't",
                f"convert a copy where you trust it: {conversion(folder, config)}",
            )
        raise CheckpointError(f"{folder}: there is no {WEIGHTS} and no {INDEX}")
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"{folder / INDEX}: {name!r} isn't the name of a file beside it")
    return [follow_link(folder, name) for name in names]


def conversion(folder: Path, config: Mapping[str, Any]) -> str:
    """What to type to have safetensors beside all else; the class is named, since AutoModel would drop the head."""
    known = {name for family in families().values() for layout in family.layouts.values() for name in layout.heads}
    told = config.get("architectures")
    # only a name that is known here goes into a command that somebody will type
    kind = next((name for name in told if name in known), "AutoModel") if isinstance(told, list) else "AutoModel"
    code = f"from transformers import {kind}; {kind}.from_pretrained('SAFE').save_pretrained('SAFE')"
    return f'cp -r {shlex.quote(str(folder))} SAFE && python -c "{code}"'


class Weights:
    """The tensors of all shards, mapped into memory and read when they are touched."""

    def __init__(self, paths: list[Path]) -> None:
        self.files: dict[str, Any] = {}
        self.there: dict[str, str] = {}  # a tensor's name as its file has it
        with ExitStack() as stack:
            for path in paths:
                try:
                    file = stack.enter_context(safe_open(path, "pt"))
                    names = list(file.keys())
                except (SafetensorError, OSError) as error:
                    raise CheckpointError(f"{path}: {error}") from None
                for there in names:
                    name = BEFORE.sub(lambda found: NOW[found[0]], there)
                    if name in self.files:
                        raise CheckpointError(f"{path}: {name} is there twice")
                    self.files[name], self.there[name] = file, there
            stack.pop_all()  # a mapping lives as long as its tensors

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(file.get_slice(self.there[name]).get_shape()) for name, file in self.files.items()}

    def __call__(self, name: str) -> Tensor:
        tensor: Tensor = self.files[name].get_tensor(self.there[name])
        return tensor


def finite(tensor: Tensor) -> bool:
    """Whether all values are numbers, looked at piece by piece: a table of words is large."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    rows = max(1, PIECE * len(tensor) // tensor.numel()) if tensor.dim() else 1
    return all(bool(torch.isfinite(piece).all()) for piece in (tensor.split(rows) if tensor.dim() else (tensor,)))


def import_folder(folder: Path, advance: Advance = ignore) -> Imported:
    """A model from a folder, its weights where they are on disk."""
    config = read_json(folder / "config.json")
    weights = Weights(shards(folder, config))
    there = weights.shapes()
    plan = match_family(config, str(folder / "config.json"), there)
    plan = with_own_head(plan, weights, there)
    table = plan.table(there)
    problems = Problems()
    unused = table.compare(there, problems)
    for name in (name for name in table.names() if name in there):
        dtype = weights(name).dtype
        if dtype not in FLOATS:
            problems.add("types that aren't computed with here", f"{name} {dtype}")
        elif not finite(weights(name)):
            problems.add("values that aren't finite", name)
        advance()
    for one, other in table.copies(there):
        if other in there and not torch.equal(weights(one), weights(other)):
            problems.add("copies that differ from what they must equal", f"{one} and {other}")
    problems.raise_if_any(str(folder))
    model = plan.spec.build("meta")
    model.load_state_dict(of_one_type(dict(table.read(weights)), model), assign=True)
    words = tokenizers(folder, config)
    if words is not None:
        insist_on_vectors(str(folder), plan.spec, words)
    return Imported(plan, model.eval(), words, unused, Origin.read(folder))


def with_own_head(plan: FamilyMatch, weights: Weights, there: Collection[str]) -> FamilyMatch:
    """The plan, with words of the head's own where a file has them though its config.json says that they are tied."""
    if "tied" not in plan.layout.keys or not plan.settings.fields()["tied"]:
        return plan  # it isn't, or this layout knows no other
    for one, other in plan.table(there).copies(there):
        if one == HEAD and other in there and not torch.equal(weights(one), weights(other)):
            config = {**plan.config, "tie_word_embeddings": False}
            return replace(plan, settings=plan.settings.replace(tied=False), config=config)
    return plan


def of_one_type(tensors: dict[str, Tensor], model: Model) -> dict[str, Tensor]:
    """All weights in the widest type that one of them has, so that nothing is rounded; buffers keep their own."""
    own = dict(model.named_parameters())
    widest = reduce(torch.promote_types, {tensor.dtype for name, tensor in tensors.items() if name in own})
    return {name: tensor.to(widest) if name in own else tensor for name, tensor in tensors.items()}


def insist_on_vectors(where: str, spec: ModelSpec, words: tuple[Tokenizer, Tokenizer]) -> None:
    """Refuse a tokenizer with tokens that its model has no vectors for."""
    for side, stack, tokenizer in zip(("encoder", "decoder"), (spec.encoder, spec.decoder), words, strict=True):
        held = None if stack is None else stack.embedding.token_count
        numbers = tokenizer.engine.get_vocab()
        beyond = [] if held is None else sorted((n, token) for token, n in numbers.items() if n >= held)
        if beyond:
            number, token = beyond[0]
            raise CheckpointError(
                f"{where}: its {side} has vectors for {held} tokens, and its tokenizer gives numbers up to "
                f"{beyond[-1][0]}: {token!r} is {number}",
                "take those tokens out of tokenizer.json, or give the model rows for them",
            )
