"""The model that a run begins with: drawn by chance, or taken over from another run or a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.packed import insist_on_whole
from regard.core.weights import fill, refit
from regard.data.lexicon import Lexicon
from regard.data.prepared import Prepared, copy_prepared
from regard.errors import CheckpointError
from regard.runs.assembly import Assembly
from regard.runs.load import load_bundle
from regard.runs.resolve import split_noun
from regard.runs.uses import note_plugins
from regard.tasks.bundle import Bundle
from regard.tasks.task import TaskSpec
from regard.train.adapt import NOTHING, Fresh
from regard.train.checkpoint import Store

FOLDER = "start"  # of a run that goes on from another model
JUDGE = "judge"  # of a run whose answers another model judges


@dataclass
class Start:
    """A model before its first step, and what is known of it."""

    model: Model
    family: Mapping[str, Any] | None  # its family's settings; None: a model of one's own
    fresh: Fresh = NOTHING  # what fine-tuning added to it

    @classmethod
    def draw(cls, assembly: Assembly, seed: int) -> Start:
        """Weights by chance."""
        torch.manual_seed(seed)
        return cls(assembly.model.build(), assembly.family)

    @classmethod
    def take_over(cls, assembly: Assembly, seed: int, origin: Bundle, lexicon: Lexicon) -> Start:
        """All weights of another model that fit, and new ones where the task needs them."""
        start = cls.draw(assembly, seed)
        start.fresh = adopt(start.model, origin, lexicon)
        return start

    def keep(self, folder: Path, lexicon: Lexicon, origin: Bundle) -> None:
        """Write it into a run's folder, so that the run needs nothing else to go on from."""
        state: dict[str, Any] = {"moment": {"ranking": []}, "family": self.family, "fresh": asdict(self.fresh)}
        state["task"] = None  # it is asked by the run's own task, and what it did before is no matter
        more = {} if origin.origin is None else origin.origin.entries()
        data = {"spec": self.model.spec.model_dump(mode="json"), "state": state}
        Store(folder / FOLDER).save(0, {"model": self.model.state_dict()}, data, {**lexicon.files(), **more})

    @classmethod
    def recall(cls, folder: Path, seed: int) -> Start:
        """What a run's folder keeps of the model that it began from."""
        first = Store(folder / FOLDER).latest()
        if first is None:
            raise CheckpointError(f"{folder}/{FOLDER}: the model that it began from is missing or damaged")
        torch.manual_seed(seed)
        model = ModelSpec.parse(first.json("spec")).build()
        fill(model, first.tensors("model"), f"{first.path}/model.safetensors")
        known = first.json("state")
        return cls(model, known.get("family"), Fresh.read(known))


def keep_judge(folder: Path, task: TaskSpec) -> None:
    """Copy the model that a task asks into a run's folder, with all that reading it takes; refused if it won't do."""
    noun = task.name_judge()
    if noun is None:
        return
    found = load_bundle(noun, precision="fp32")
    task.insist_on_judge(found.pipeline())
    assert found.lexicon is not None
    # what came from elsewhere has no task of its own, and is asked what its make is for
    purpose = found.purpose()
    state: dict[str, Any] = {"moment": {"ranking": []}, "family": found.family, "task": purpose.model_dump(mode="json")}
    state["plugins"] = note_plugins((), found.family, found.model.spec, purpose)
    data = {"spec": found.model.spec.model_dump(mode="json"), "state": state}
    more = {} if found.origin is None else found.origin.entries()
    files = {**found.lexicon.files(), **more}
    Store(folder / JUDGE).save(0, {"model": found.model.state_dict()}, data, files)


def keep_text(folder: Path, task: TaskSpec, lexicon: Lexicon) -> None:
    """Copy the text that is learned beside into a run's folder; refused if it won't do."""
    noun = task.name_text()
    if noun is not None:
        text = Prepared.load(Path(split_noun(noun)[0]) / "data")
        task.insist_on_text(text, lexicon)
        copy_prepared(text, folder / "text")


def load_start(noun: str) -> Bundle:
    """What another run, or a folder in Hugging Face layout, has to go on from."""
    found = load_bundle(noun)
    insist_on_whole(found.model, noun, "trained")
    if found.lexicon is None:
        raise CheckpointError(f"{noun}: there is no tokenizer in it, and training goes on with the same tokens")
    found.model.float()
    return found


def adopt(model: Model, origin: Bundle, lexicon: Lexicon) -> Fresh:
    """Fill a model with all weights of another that fit; what it has beside them.

    A table that has gained rows keeps the old ones; places of pictures of another size are interpolated. What isn't the
    head's must fit.
    """
    given = usable(model, origin, lexicon)
    fresh, rows = list[str](), dict[str, int]()
    for name, weight in model.state_dict().items():
        there = given.get(name)
        if there is not None and there.shape == weight.shape:
            weight.copy_(there)
        elif there is not None and (fitted := refit(model, name, there, origin.model)) is not None:
            weight.copy_(fitted)
        elif there is not None and there.shape[1:] == weight.shape[1:] and len(there) < len(weight):
            weight[: len(there)].copy_(there)
            rows[name] = len(there)
        elif name.startswith("head.") or there is None:
            fresh.append(name)
        else:
            raise CheckpointError(f"start: {name} has shape {tuple(there.shape)}, and {tuple(weight.shape)} is wanted")
    return Fresh(tuple(fresh), rows)


def usable(model: Model, origin: Bundle, lexicon: Lexicon) -> dict[str, Tensor]:
    """The weights of another model that mean the same in this one, by their names here."""
    given, other = dict(origin.model.state_dict()), origin.model
    # BERT's layer before the words isn't its pooler; where both heads have the same layer, its place may differ
    layer = {part: given.pop(name) for name, part in head_weights(other, "before")}
    if layer_of(other) == layer_of(model):
        places = head_weights(model, "before")
        given |= {name: layer[part] for name, part in places if part in layer}
    assert origin.lexicon is not None
    if origin.lexicon.labels != lexicon.labels:  # the same row would stand for another label
        for name, _ in head_weights(other, "by_label"):
            del given[name]
    for name, _ in head_weights(other, "anew"):
        del given[name]
    return given


def layer_of(model: Model) -> str | None:
    """What a model's head does to its states before the answer."""
    return None if model.spec.head is None else model.spec.head.layer


def head_weights(model: Model, role: Literal["before", "by_label", "anew"]) -> list[tuple[str, str]]:
    """The weights of a head that have a role: each name in the model, and the name without what the part stands in."""
    if model.head is None:
        return []
    parts = {"before": model.head.before, "by_label": model.head.by_label, "anew": model.head.anew}[role]
    names = [name for name, _ in model.named_parameters() if name.startswith("head.")]
    found = [(name, part) for part in parts for name in names if name.startswith(f"head.{part}.")]
    return [(name, part.rpartition(".")[2] + name.removeprefix(f"head.{part}")) for name, part in found]
