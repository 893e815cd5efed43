"""What a noun of the command line means: a run, one of its checkpoints, or a folder in Hugging Face layout.

A run is named by its folder: `RUN` is its average if one was made, otherwise the checkpoint that validated best;
`RUN@best`, `RUN@latest`, `RUN@average` and `RUN@step-2000` say which.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import torch

import regard.tasks  # noqa: F401  enters every task
from regard.core.model import Model, ModelSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.errors import CheckpointError, InputError, RegardError
from regard.hub.load import imported, insist_on_vectors, is_folder
from regard.hub.npz import pronouncer
from regard.machine import Device, device
from regard.tasks.task import TaskSpec
from regard.tasks.vector import MODULES
from regard.train.adapt import Fresh, Lora, merged
from regard.train.checkpoint import Checkpoint, Store, manifest
from regard.train.trainer import fill, fits

RUN = "run.yaml"  # of a folder that holds a run
IMPORT = "import.json"  # of a folder that holds a model from elsewhere, and was never trained here
CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx")  # how a config.json calls the longest text
S = TypeVar("S")


def no_run(folder: Path) -> CheckpointError:
    """What there is to say of a folder that isn't a run."""
    there = "there is no such folder" if not folder.exists() else f"there is no {RUN} in it"
    return CheckpointError(f"{folder}: not a run, {there}", f"regard train CONFIG {quote(f'out={folder}')}")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or a model that was brought in and kept."""
    return (folder / RUN).is_file() or (folder / IMPORT).is_file()


def split(noun: str) -> tuple[str, str]:
    """A run's folder, and which of its checkpoints is meant; a folder may have an @ in its own path."""
    name, _, which = noun.rpartition("@")
    return (noun, "") if not name or is_run(Path(noun)) or not is_run(Path(name)) else (name, which)


def found(noun: str) -> Checkpoint:
    """The checkpoint that `RUN`, `RUN@best`, `RUN@latest`, `RUN@average` or `RUN@step-2000` names."""
    name, which = split(noun)
    folder = Path(name)
    if not is_run(folder):
        raise no_run(folder)
    damaged: list[str] = []
    store, average = Store(folder / "checkpoints", warn=damaged.append), Store(folder / "average")
    if match := re.fullmatch(r"step-(\d+)", which):
        return store.at(int(match[1]))
    if which not in ("", "best", "latest", "average"):
        raise RegardError(
            f"{noun}: {which!r} is no checkpoint", f"{quote(f'{name}@best')}, @latest, @average or @step-N"
        )
    wanted = average.latest() if which in ("", "average") else None
    if wanted is None and which == "average":
        raise CheckpointError(f"{name}: there is no average", f"regard average {quote(name)} --last 2")
    newest = wanted or store.latest()
    if newest is None:
        raise CheckpointError(
            damaged[0] if damaged else f"{name}: nothing was saved yet", f"regard resume {quote(name)}"
        )
    for line in damaged:
        print(f"regard: {line}; an older one is used", file=sys.stderr)
    if which in ("latest", "average") or wanted is not None:
        return newest
    best = ranked(newest)
    if not best:
        return newest
    kept = {found.step for found in store.numbered()}
    there = next((step for step in best if step in kept), newest.step)
    if there != best[0]:
        print(f"regard: {name}: step-{best[0]} validated best and isn't there; step-{there} is used", file=sys.stderr)
    return store.at(there)


def ranked(newest: Checkpoint) -> list[int]:
    """The steps that validated best, by what the newest checkpoint says; a measure that isn't finite says nothing."""
    try:
        ranking = newest.json("state")["moment"]["ranking"]
        return [int(step) for value, step in ranking if math.isfinite(value)]
    except (TypeError, LookupError, ValueError, OverflowError):
        raise CheckpointError(f"{newest.path}/state.json: damaged, its ranking can't be read") from None


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights to use: the running average where there is one."""
    if (checkpoint.path / "adapter.safetensors").exists():
        return adapted(checkpoint)
    tensors = checkpoint.tensors("model")
    if (checkpoint.path / "average.safetensors").exists():
        tensors |= checkpoint.tensors("average")
    return tensors


def adapted(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """What a run began from, with what its adapters learned added."""
    first = Store(checkpoint.path.parent.parent / "start").latest()
    if first is None:
        raise CheckpointError(
            f"{checkpoint.path}: these are adapters, and the model that they belong to isn't in start/"
        )
    spec = Lora.parse(checkpoint.json("state").get("adapt"))
    return merged(first.tensors("model"), checkpoint.tensors("adapter"), spec, Fresh.read(first.json("state")))


def network(checkpoint: Checkpoint) -> Model:
    """A checkpoint's model, ready to use. Shapes are compared before memory is taken."""
    name = f"{checkpoint.path}/model.safetensors"
    spec, tensors = ModelSpec.parse(checkpoint.json("spec")), weights(checkpoint)
    deepest = max(stack.depth for stack in (spec.encoder, spec.decoder) if stack is not None)
    if deepest > len(tensors):  # drawing so many layers would take its time
        raise CheckpointError(f"{name}: {len(tensors)} weights, and the model has {deepest} layers")
    fits(spec.build("meta"), tensors, name)
    model = spec.build()
    fill(model, tensors, name)
    return model.eval()


@dataclass
class Parts:
    """A model and all that belongs to it, wherever it comes from."""

    model: Model
    lexicon: Lexicon | None  # None: there is no tokenizer
    task: TaskSpec | None  # what it was trained for, if it was trained here
    about: dict[str, Any] | None = None  # what is known of a model that was brought in and kept
    config: Mapping[str, Any] = field(default_factory=dict)  # the config.json of a model from elsewhere
    family: dict[str, Any] | None = None  # the model as its family describes it
    origin: Origin | None = None  # what came with a model from elsewhere, or with the one that it was trained from

    def speaker(self, noun: str, purpose: TaskSpec | None = None) -> Any:
        """What a user asks: a translator, a writer, …; `purpose`: another than its own, where it will serve."""
        if self.lexicon is None:
            raise InputError(f"{noun}: there is no tokenizer in it", "regard.load(NOUN).model is the network")
        # what was trained here reads texts as it did then; what wasn't, as its tokenizer's file says
        lexicon = self.lexicon if self.task is None else replace(self.lexicon, foreign=False)
        kept = {"config.json": json.dumps(dict(self.config)).encode()} if self.config else {}
        return (purpose or self.purpose()).speaker(self.model, lexicon, self.origin or Origin(kept))

    def purpose(self) -> TaskSpec:
        """What it was trained for, or what it can do by its make."""
        return self.task or able(self.model.spec, self.config, self.origin)


def parts(noun: str, where: Device = "auto") -> Parts:
    """The model that a noun names, and what belongs to it."""
    if is_folder(Path(noun)):
        arrived = imported(Path(noun))
        lexicon = None if arrived.tokenizers is None else Lexicon(arrived.tokenizers, arrived.labels, foreign=True)
        plan = arrived.plan
        settings = plan.settings.model_dump(mode="json")
        return Parts(arrived.model.to(device(where)), lexicon, None, None, plan.config, settings, arrived.origin)
    checkpoint = found(noun)
    model, about = network(checkpoint).to(device(where)), brought(checkpoint)
    listed = manifest(checkpoint.path)["files"]
    has_words = any(re.fullmatch(r"tokenizer.*\.json", name) for name in listed)

    def file(name: str) -> bytes | None:
        return checkpoint.read(name) if name in listed else None

    lexicon = Lexicon.read(file, str(checkpoint.path)) if has_words else None
    task = None if about is not None else TaskSpec.parse(checkpoint.json("state").get("task", "translation"))
    if lexicon is not None and lexicon.foreign:
        insist_on_vectors(str(checkpoint.path), model.spec, lexicon.tokenizers)
    elif lexicon is not None:
        _agree(checkpoint, model.spec, lexicon)
    family = checkpoint.json("state").get("family") if about is None else about["settings"]
    config = {} if about is None else about["config"]
    return Parts(model, lexicon, task, about, config, family, origin_of(checkpoint))


def origin_of(checkpoint: Checkpoint) -> Origin | None:
    """What came in with a checkpoint's model: it stands in the checkpoint itself, or where its run began from."""
    begun = Store(checkpoint.path.parent.parent / "start").numbered()
    for there in (checkpoint, *begun):  # each file's digest is compared when it is read
        found = Origin.recall(manifest(there.path)["files"], there.read)
        if found is not None:
            return found
    return None


def _agree(checkpoint: Checkpoint, spec: ModelSpec, lexicon: Lexicon) -> None:
    """Insist that the model has a vector for each token."""
    sides = (("encoder", spec.encoder, lexicon.tokenizers[0]), ("decoder", spec.decoder, lexicon.tokenizers[1]))
    for side, stack, tokenizer in sides:
        held = len(tokenizer) if stack is None else stack.embedding.fields().get("vocabulary", len(tokenizer))
        if held != len(tokenizer):
            raise CheckpointError(f"{checkpoint.path}: its {side} knows {held} tokens, its tokenizer {len(tokenizer)}")


def able(spec: ModelSpec, config: Mapping[str, Any], origin: Origin | None = None) -> TaskSpec:
    """What a model from elsewhere can do, by its make; a folder of sentence-transformers makes vectors."""
    head = None if spec.head is None else spec.head.kind
    if origin is not None and MODULES in origin.files and head not in ("classes", "tags"):
        return TaskSpec.parse("embedding")
    if spec.encoder is not None and spec.decoder is not None:
        return TaskSpec.parse("translation")
    if spec.decoder is not None and head == "vocabulary":
        told = next((config[key] for key in CONTEXT if isinstance(config.get(key), int)), None)
        return TaskSpec.parse({"kind": "language"} | ({} if told is None else {"context": told}))
    kinds = {"vocabulary": "masking", "classes": "classification", "tags": "tagging"}
    return TaskSpec.parse(kinds.get(head or "", "embedding"))


def load(noun: str, where: Device = "auto") -> Any:
    """A run, or a folder in Hugging Face layout, ready to use: `load("runs/en-fr").translate("I like the green cat.")`.

    What comes depends on what was learned: a Translator, a Writer, a Filler, a Classifier, a Tagger, an Embedder. The
    npz file of `g2p-en` is a Translator too. Where there is no tokenizer, its parts come: `load("folder").model`.
    """
    if noun.endswith(".npz"):
        return pronouncer(Path(noun))
    found = parts(noun, where)
    return found if found.lexicon is None else found.speaker(noun)


def asked(noun: str, kind: type[S], wants: str) -> S:
    """The same, once it is sure that it can do what a verb wants."""
    return fitting(load(noun), noun, kind, wants)


def fitting(speaker: Any, noun: str, kind: type[S], wants: str) -> S:
    """Insist on what a verb wants."""
    if isinstance(speaker, Parts):
        raise InputError(f"{noun}: there is no tokenizer in it", "regard.load(NOUN).model is the network")
    if not isinstance(speaker, kind):
        raise InputError(f"{noun}: it is a {type(speaker).__name__.lower()}, and {wants}", speaker.command(noun))
    return speaker


def usage(noun: str) -> str:
    """What one types to use a run; its model isn't loaded for that."""
    checkpoint = found(noun)
    task = TaskSpec.parse(checkpoint.json("state").get("task", "translation"))
    return task.choose_speaker(ModelSpec.parse(checkpoint.json("spec"))).command(noun)


def brought(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What is known of a model that came from elsewhere; None for what was trained here."""
    about = checkpoint.json("state").get("import")
    types = {"type": str, "class": str, "settings": dict, "config": dict}
    if about is None:
        return None
    if not isinstance(about, dict) or not all(isinstance(about.get(key), kind) for key, kind in types.items()):
        raise CheckpointError(f"{checkpoint.path}/state.json: damaged, where the model comes from can't be read")
    return about
