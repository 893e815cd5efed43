"""What a noun of the command line means: a run, one of its checkpoints, or a folder in Hugging Face layout.

A run is named by its folder: `RUN` is its average if one was made, otherwise the checkpoint that validated best;
`RUN@best`, `RUN@latest`, `RUN@average` and `RUN@step-2000` say which.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from regard.config import read
from regard.core.model import Model, ModelSpec
from regard.core.packlist import NAME as PACKED
from regard.core.packlist import PackingList
from regard.core.plugins import insist_on_plugins
from regard.core.weights import place
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.decode.pipeline import Pipeline
from regard.decode.translator import Translator
from regard.errors import CheckpointError, Damage, InputError
from regard.host.machine import Device, device
from regard.runs.precision import use_precision
from regard.runs.resolve import RUN, is_folder, read_resolved, split_noun
from regard.tasks.bundle import Bundle
from regard.tasks.task import TaskSpec
from regard.train.checkpoint import Checkpoint, Store, inspect

if TYPE_CHECKING:
    from regard.data.prepared import Prepared
    from regard.hub.load import FamilyMatch

P = TypeVar("P", bound=Pipeline)


def read_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights to use: the running average where there is one."""
    if "adapter.safetensors" in checkpoint.files:
        return merge_adapters(checkpoint)
    if "average.safetensors" not in checkpoint.files:
        return checkpoint.map("model")
    average = checkpoint.map("average")
    if set(checkpoint.names("model")) <= average.keys():
        return average
    return checkpoint.map("model") | average  # buffers have no average


def merge_adapters(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """What a run began from, with what its adapters learned added."""
    from regard.train.adapt import Fresh, Lora, merge_lora

    first = Store(checkpoint.path.parent.parent / "start").latest(inspect)
    if first is None:
        raise CheckpointError(
            f"{checkpoint.path}: these are adapters, and the model that they belong to isn't in start/"
        )
    spec = Lora.parse(checkpoint.json("state").get("adapt"))
    return merge_lora(first.map("model"), checkpoint.map("adapter"), spec, Fresh.read(first.json("state")))


def load_model(checkpoint: Checkpoint) -> Model:
    """A checkpoint's model, ready to use: drawn without memory, and then given the weights that were read."""
    name = f"{checkpoint.path}/model.safetensors"
    spec, tensors = ModelSpec.parse(checkpoint.json("spec")), read_weights(checkpoint)
    deepest = max(stack.depth for stack in (spec.encoder, spec.decoder) if stack is not None)
    if deepest > len(tensors):  # drawing so many layers would take its time
        raise CheckpointError(f"{name}: {len(tensors)} weights, and the model has {deepest} layers")
    model = spec.build("meta")
    if f"{PACKED}.json" in checkpoint.files:
        where = f"{checkpoint.path}/{PACKED}.json"
        packing = PackingList.of_fact(checkpoint.json(PACKED), where)
        packing.draw(model, where)
        packing.check_types(model, tensors, name)
    place(model, tensors, name)
    return model.eval()


def load_bundle(noun: str, where: Device = "auto", precision: str | None = None) -> Bundle:
    """The model that a noun names, and what belongs to it; `precision`: what its weights are packed to, or as kept."""
    found = read_noun(noun, where)
    use_precision(found.model, precision, noun)
    return found


def read_noun(noun: str, where: Device) -> Bundle:
    """The same, with weights as they are kept."""
    if is_folder(Path(noun)):
        from regard.hub.load import import_folder
        from regard.runs.uses import note_plugins

        arrived = import_folder(Path(noun))
        lexicon, plan = arrived.lexicon, arrived.plan
        settings = plan.settings.model_dump(mode="json")
        arrived.model.spec.note_family(settings)
        model, about = arrived.model.to(device(where)), describe_import(plan)
        plugins = note_plugins((), settings, plan.spec)
        return Bundle(model, lexicon, None, about, plan.config, settings, arrived.origin, plugins=plugins)
    return read_resolved(noun, lambda checkpoint: read_bundle(checkpoint, where))


def read_bundle(checkpoint: Checkpoint, where: Device) -> Bundle:
    """A checkpoint's model, and what belongs to it; of its files only those that are needed are read."""
    model, about = load_model(checkpoint).to(device(where)), read_import(checkpoint)
    has_lexicon = any(re.fullmatch(r"(tokenizer.*|lexicon)\.json", name) for name in checkpoint.files)

    def file(name: str) -> bytes | None:
        return checkpoint.read(name) if name in checkpoint.files else None

    lexicon = Lexicon.read(file, str(checkpoint.path)) if has_lexicon else None
    told = checkpoint.json("state").get("task", "translation")  # null: a model that was saved by itself
    task = None if about is not None or told is None else TaskSpec.parse(told)
    if task is not None and task.words and (lexicon is None or lexicon.words is None):
        raise Damage(f"{checkpoint.path}: its tokenizer is missing", checkpoint.path)
    if lexicon is not None and lexicon.foreign:
        from regard.hub.load import insist_on_vectors

        insist_on_vectors(str(checkpoint.path), model.spec, lexicon.tokenizers)
    elif lexicon is not None and lexicon.words is not None:
        _agree(checkpoint, model.spec, lexicon)
    family = checkpoint.json("state").get("family") if about is None else about["settings"]
    if family is not None and not isinstance(family, dict):
        raise Damage(f"{checkpoint.path}/state.json: family is {family!r:.40}, and must be settings", checkpoint.path)
    config = {} if about is None else about["config"]
    model.spec.note_family(family)
    beside = partial(load_beside, checkpoint.path.parent.parent)
    plugins = checkpoint.json("state").get("plugins") or {}
    return Bundle(model, lexicon, task, about, config, family, origin_of(checkpoint), beside, plugins)


def load_beside(folder: Path, name: str) -> Pipeline | Prepared | None:
    """What a run keeps in its folder beside its own model: the one that it began as (`start`), the one that judges its
    answers (`judge`), text that is learned beside (`text`).
    """
    if name == "text":
        from regard.data.prepared import Prepared

        return Prepared.load(folder / name) if (folder / name).exists() else None
    found = Store(folder / name).latest()
    if found is None:
        return None
    insist_on_plugins(found.json("state").get("plugins"), str(found.path))
    return read_bundle(found, "auto").pipeline()


def origin_of(checkpoint: Checkpoint) -> Origin | None:
    """What came in with a checkpoint's model: it stands in the checkpoint itself, or where its run began from."""
    begun = Store(checkpoint.path.parent.parent / "start").list_steps()
    for there in (checkpoint, *begun):  # each file's digest is compared when it is read
        found = Origin.recall(there.files, there.read)
        if found is not None:
            return found
    return None


def _agree(checkpoint: Checkpoint, spec: ModelSpec, lexicon: Lexicon) -> None:
    """Insist that the model has a vector for each token."""
    sides = (("encoder", spec.encoder, lexicon.tokenizers[0]), ("decoder", spec.decoder, lexicon.tokenizers[1]))
    for side, stack, tokenizer in sides:
        held = None if stack is None else stack.embedding.token_count
        if held is not None and held != len(tokenizer):
            raise CheckpointError(f"{checkpoint.path}: its {side} knows {held} tokens, its tokenizer {len(tokenizer)}")


@overload
def load(noun: str | Path, where: Device = "auto", *, precision: str | None = None) -> Pipeline: ...


@overload
def load(noun: str | Path, where: Device = "auto", *, kind: type[P], precision: str | None = None) -> P: ...


def load(
    noun: str | Path, where: Device = "auto", *, kind: type[Pipeline] = Pipeline, precision: str | None = None
) -> Pipeline:
    """A run, or a folder in Hugging Face layout, ready to use: `load("runs/en-fr").translate("I like the green cat.")`.

    What comes depends on what was learned: a Translator, a Writer, a Captioner, a Filler, a Classifier, …; the npz file
    of `g2p-en` is a Translator too. All have `model`, `tokenizers`, `task` and `config`; where there is no
    tokenizer, that is all they have. `kind` insists on one of them, and lets an editor know which it will be.
    `precision`: fp32, fp16, bf16, int8 or int4, or auto for what is fastest here; for use, not for training. Unless
    given, it is what the folder holds: fp32, or what it was exported in.

    >>> import regard
    >>> regard.load("runs/nowhere", kind=regard.Translator)
    Traceback (most recent call last):
        ...
    regard.errors.CheckpointError: runs/nowhere: not a run, there is no such folder
      try: regard runs lists those that there are
    """
    noun = str(noun)
    if noun.endswith(".npz"):
        from regard.hub.npz import pronouncer

        pipeline: Pipeline = pronouncer(Path(noun))
        assert isinstance(pipeline.model, Model)
        use_precision(pipeline.model, precision, noun)
    else:
        pipeline = load_bundle(noun, where, precision).pipeline()
        file = Path(split_noun(noun)[0]) / RUN
        if not pipeline.config and file.is_file():
            pipeline.config = read(file).tree
    return pipeline if kind is Pipeline else insist_on_kind(pipeline, noun, kind, f"a {kind.__name__} is wanted")


def load_as(noun: str, kind: type[P], wants: str, precision: str | None = None) -> P:
    """The same, once it is sure that it can do what a verb wants."""
    return insist_on_kind(load(noun, precision=precision), noun, kind, wants)


def insist_on_kind(pipeline: Pipeline, noun: str, kind: type[P], wants: str) -> P:
    """Insist on what a verb wants."""
    if type(pipeline) is Pipeline:
        raise InputError(f"{noun}: there is no tokenizer in it", "regard.load(NOUN).model is the network")
    if not isinstance(pipeline, kind):
        raise InputError(f"{noun}: it is {name_kind(pipeline)}, and {wants}", pipeline.command(noun))
    return pipeline


def name_kind(pipeline: Pipeline) -> str:
    """What a pipeline is, in a sentence: a translator, an image classifier."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(pipeline).__name__).lower()
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def load_translator(noun: str, precision: str | None = None) -> Translator:
    """A translator, for the verbs that translate."""
    return load_as(noun, Translator, "only one that learned to translate translates", precision)


def usage(noun: str) -> str:
    """What one types to use a run; its model isn't loaded for that."""

    def read(checkpoint: Checkpoint) -> str:
        task = TaskSpec.parse(checkpoint.json("state").get("task", "translation"))
        return task.choose_pipeline(ModelSpec.parse(checkpoint.json("spec"))).command(noun)

    return read_resolved(noun, read)


def describe_import(plan: FamilyMatch) -> dict[str, Any]:
    """What is to be known of a model that came from elsewhere, for whoever keeps it."""
    settings = plan.settings.model_dump(mode="json")
    return {"type": plan.kind, "class": plan.architecture, "settings": settings, "config": dict(plan.config)}


def read_import(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What is known of a model that came from elsewhere; None for what was trained here."""
    about = checkpoint.json("state").get("import")
    types = {"type": str, "class": str, "settings": dict, "config": dict}
    if about is None:
        return None
    if not isinstance(about, dict) or not all(isinstance(about.get(key), kind) for key, kind in types.items()):
        raise CheckpointError(f"{checkpoint.path}/state.json: damaged, where the model comes from can't be read")
    return about
