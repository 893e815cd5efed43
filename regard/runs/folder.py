"""A run: one file that says everything, and one folder that holds everything.

`run.yaml` is the file as it was resolved, `data/` the corpus made ready, `start/` the model that it began from if it
didn't begin from nothing, `checkpoints/` what was saved, `metrics.jsonl` what was measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, Literal, Self

import torch
import yaml
from pydantic import field_validator, model_validator

import regard
import regard.tasks  # noqa: F401  enters every task
from regard.config import Document, read
from regard.core.model import Model, ModelSpec
from regard.core.spec import Count, FileName, Spec, explain_unknown, show_value
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.lexicon import Lexicon
from regard.data.prepared import REPORT, Prepared, discard, ours, prepare
from regard.data.tokenizer import TokenizerSpec
from regard.errors import Busy, CheckpointError, RegardError, SpecError
from regard.host.files import ASIDE, explain_disk_errors, remove, replace
from regard.host.machine import Device, device, versions
from regard.models import families, preset, presets
from regard.runs.load import load_bundle
from regard.runs.resolve import RUN, no_run
from regard.tasks.bundle import Bundle
from regard.tasks.task import Task, TaskSpec
from regard.tasks.translation import TranslationTaskSpec
from regard.train.adapt import Fresh, freeze
from regard.train.checkpoint import Checkpoint, Store
from regard.train.listener import Listener
from regard.train.trainer import Trainer, TrainSpec, fill

PREPARING = "preparing"  # is there while a run is being made: what stands beside it is ours
MADE = "regard is making a run here: data, start and run.json beside this file are its own.\n"
# what a run may change when it goes on; all else would make another run of it
CHANGEABLE = ("train.", "device", "task.search.")
FIXED = ("train.optimizer.kind", "train.adapt")  # among those: what the optimizer remembers, and the adapters' shapes
PLACES = ("out", "data", "start")  # where things are, which a run that was moved doesn't know
LAYER = r"head\.(pooler\.)?(dense|norm)\."  # weights before the answer
LABELLED = r"head\.(answer\.)?(classes|tags)\."  # weights with a row for each label


class RunSpec(Spec):
    """All that a run is made of."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["run"] = "run"
    task: TaskSpec = TranslationTaskSpec()
    data: FileName = "."  # where the corpus's files are looked for
    corpus: CorpusSpec
    tokenizer: TokenizerSpec = TokenizerSpec()
    batches: BatchSpec = BatchSpec()
    model: dict[str, Any] | None = None  # a preset's name as its kind, and changes to it; or a whole spec, kind `model`
    start: FileName | None = None  # a run, or a folder in Hugging Face layout, whose model is trained further
    train: TrainSpec
    seed: Count = 1
    device: Device = "auto"
    out: FileName

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.model is None) == (self.start is None):
            have = "neither" if self.model is None else "both"
            raise ValueError(f"a model to begin with, or a start to go on from: there are {have}")
        if self.train.adapt is not None and self.start is None:
            raise ValueError("train.adapt: adapters change a model that was trained; try start=RUN")
        if self.tokenizer.dropout and not isinstance(self.task, TranslationTaskSpec):
            raise ValueError(f"tokenizer.dropout: only translation cuts words anew, and the task is {self.task.kind}")
        return self

    @field_validator("model", mode="before")
    @classmethod
    def known(cls, value: Any) -> Any:
        """Validate the settings with the family's own rules, so that each problem is told where it stands."""
        chosen = {"kind": value} if isinstance(value, str) else value
        if not isinstance(chosen, dict):
            return chosen
        name, changes = chosen.get("kind"), {key: item for key, item in chosen.items() if key != "kind"}
        if name == "model":
            ModelSpec.model_validate(chosen)
        elif not isinstance(name, str) or name not in presets():
            raise ValueError(
                f"no preset is called {show_value(name)}{explain_unknown(name, ['model', *presets()])['hint']}"
            )
        else:
            family = presets()[name]
            settings = family.settings.model_validate(family.tree(name, changes))
            try:
                family.compose(settings).build("meta")
            except SpecError as error:
                raise ValueError(str(error)) from None
        return chosen


def compose(settings: Mapping[str, Any], lexicon: Lexicon) -> ModelSpec:
    """The model that a run file asks for, for the tokens that it reads and writes."""
    source, target = (len(part) for part in lexicon.tokenizers)
    name, changes = settings["kind"], {key: item for key, item in settings.items() if key != "kind"}
    if name == "model":
        spec = ModelSpec.parse(settings)
    else:
        given = changes.setdefault("vocabulary", target)
        if given != target:
            raise SpecError(
                f"model.vocabulary: {given}, and the tokenizer has {target} tokens",
                "leave model.vocabulary out: it follows from the tokenizer",
            )
        if source != target:
            changes["source_vocabulary"] = source
        spec = preset(name, **changes)
    sizes = {"encoder": source if spec.decoder is not None else target, "decoder": target}
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        held = sizes[side] if stack is None else stack.embedding.fields().get("vocabulary")
        if held != sizes[side]:
            raise SpecError(f"model.{side}.embedding.vocabulary: {held}, and the tokenizer has {sizes[side]} tokens")
    return spec


def family_of(spec: RunSpec, lexicon: Lexicon) -> dict[str, Any] | None:
    """A run's model as its family describes it, for those who write it out; None for a model of one's own."""
    if spec.model is None or spec.model["kind"] == "model":
        return None
    name, changes = spec.model["kind"], {key: item for key, item in spec.model.items() if key != "kind"}
    family = presets()[name]
    settings = family.settings.parse(family.tree(name, changes | {"vocabulary": len(lexicon.tokenizers[1])}))
    return dict(settings.model_dump(mode="json"))


def suit_task(spec: RunSpec, origin: ModelSpec | None = None) -> TaskSpec:
    """A run's task as its model can learn it; `origin`: the model that it goes on from."""
    chosen = spec.model
    if origin is None and chosen is not None:
        changes = {key: item for key, item in chosen.items() if key != "kind"}
        origin = ModelSpec.parse(chosen) if chosen["kind"] == "model" else preset(chosen["kind"], **changes)
    assert origin is not None
    return spec.task.adapt_to(origin)


def describe_model(spec: RunSpec, lexicon: Lexicon, origin: Bundle | None = None) -> ModelSpec:
    """A run's model, made for its task."""
    if origin is None:
        assert spec.model is not None
        task, model = suit_task(spec), compose(spec.model, lexicon)
        family = family_of(spec, lexicon)
    else:
        task, family = suit_task(spec, origin.model.spec), origin.family
        model = grow(origin.model.spec, *map(len, lexicon.tokenizers))
    return task.fit_model(give_head(model, task, family), lexicon)


def give_head(model: ModelSpec, task: TaskSpec, settings: Mapping[str, Any] | None) -> ModelSpec:
    """A model with its family's own head for a task, unless its head is of that kind; whoever knows the family knows
    this head too, so what was trained here can be sent out.
    """
    if settings is None or task.head is None or (model.head is not None and model.head.kind == task.head):
        return model
    family = families()[str(settings.get("kind"))]
    make = family.heads.get(task.head)
    return model if make is None else model.replace(head=make(family.settings.parse(settings)))


@dataclass
class Run:
    """A folder with everything that a run needs and left."""

    folder: Path
    spec: RunSpec

    @property
    def store(self) -> Store:
        return Store(self.folder / "checkpoints", self.spec.train.keep)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """A run that was begun."""
        path = folder / RUN
        if not path.is_file():
            raise no_run(folder)
        document = read(path)
        return cls(folder, RunSpec.parse(document.tree | {"out": str(folder)}, document.where))

    @classmethod
    def begin(
        cls, document: Document, report: Callable[[str], None] = lambda _: None, ready: Prepared | None = None
    ) -> Run:
        """Check everything, make the corpus ready, and write the folder; on a mistake nothing is left behind.

        `ready`: what another run has made ready of the same corpus, to be copied.
        """
        spec = RunSpec.parse(document.tree, document.where)
        device(spec.device)
        folder = Path(spec.out)
        run = cls(folder, spec)
        with explain_disk_errors(folder, 0):
            run._claim()
            fresh = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            with run.lock():
                run._claim()  # somebody may have been quicker
                if left := run._clear():
                    raise RegardError(f"{folder / left}: files that aren't a run's are in it", "out=ANOTHER")
                replace(folder / PREPARING, MADE.encode())
                try:
                    run._prepare(report, ready)
                except BaseException:
                    run._clear()
                    for name in (PREPARING, "lock"):
                        (folder / name).unlink()
                    if fresh:
                        remove(folder, lambda _: False)
                    raise
                (folder / PREPARING).unlink()
        return run

    def _claim(self) -> None:
        """Insist that the folder is free: nothing is in it, or only what a killed process of ours left."""
        folder = self.folder
        if (folder / RUN).exists():
            again = f"regard resume {quote(str(folder))}, or out=ANOTHER"
            raise RegardError(f"{folder}: a run is there already", again)
        if folder.exists() and not folder.is_dir():
            raise RegardError(f"{folder}: is there already and isn't a folder", "out=ANOTHER")
        half = _says(folder / PREPARING, re.escape(MADE))
        own = {PREPARING, "data", "start", "run.json"} if half else set[str]()
        own |= {"lock"} if _says(folder / "lock", r"(process \d+)?") else set()
        there = {item.name for item in folder.iterdir()} if folder.exists() else set()
        strange = sorted(name for name in there - own if not _half_written(name))
        if strange:
            raise RegardError(
                f"{folder}: is there already and isn't a run: {strange[0]} is in it", quote(f"out={folder}/run")
            )

    def _clear(self) -> str | None:
        """Delete what a run that was never finished left of its data and its start; what holds others' files."""
        if not _says(self.folder / PREPARING, re.escape(MADE)):
            return None
        for path in self.folder.iterdir():
            if path.name == "run.json" or _half_written(path.name):
                path.unlink()
        gone = {"data": discard(self.folder / "data"), "start": Store(self.folder / "start").discard()}
        return next((name for name in gone if not gone[name]), None)

    def discard(self) -> bool:
        """Delete the run, but nothing in its folder that it didn't write; whether the folder is gone."""
        folder = self.folder
        for name in ("start", "checkpoints", "average"):
            Store(folder / name).discard()
        discard(folder / "data")
        remove(folder / "tensorboard", lambda name: name.startswith("events.out.tfevents."))
        names = {RUN, "run.json", "metrics.jsonl", "lock", PREPARING}
        return remove(folder, lambda name: name in names or _half_written(name))

    def _prepare(self, report: Callable[[str], None], ready: Prepared | None) -> None:
        spec, data = self.spec, self.folder / "data"
        origin = None if spec.start is None else load_start(spec.start)
        made = None if origin is None else origin.model.spec

        def drawn(lexicon: Lexicon) -> Model:
            return describe_model(spec, lexicon, origin).build("meta")

        if ready is not None and ready.suits(drawn(ready.lexicon)):
            own = ours(ready.folder)
            shutil.copytree(ready.folder, data, ignore=lambda _, names: [name for name in names if not own(name)])
            prepared = self.prepared()
        else:
            known = origin.lexicon if origin is not None else like(spec)
            if known is not None:
                report(f"tokens: those of {spec.start or spec.tokenizer.like}")
            limits = (spec.batches.longest, Path(spec.data), data)
            prepared, log = prepare(spec.corpus, suit_task(spec, made), spec.tokenizer, *limits, known, drawn)
            report(f"data: {log.summary()}")
            if log.reasons:
                report(f"data: every such line is in {data / REPORT}")
        fresh = Fresh()
        if origin is None:
            model = drawn(prepared.lexicon)
        else:
            model, fresh = self._begun(origin, prepared, report)
        try_changes(model.spec, spec.train, fresh)
        sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(len(part) for part in prepared.lexicon.tokenizers))
        report(f"model: {model.parameter_count():,} parameters, a vocabulary of {sizes}")
        facts = {"versions": versions(), "data": prepared.digest, "config": self.digest}
        replace(self.folder / "run.json", json.dumps(facts, indent=1).encode())
        self.write()  # last: a folder with it is a run

    def _begun(self, origin: Bundle, prepared: Prepared, report: Callable[[str], None]) -> tuple[Model, Fresh]:
        """The model that a run goes on from, with a head for its task, kept in the run; and what is new in it."""
        torch.manual_seed(self.spec.seed)
        model = describe_model(self.spec, prepared.lexicon, origin).build()
        assert origin.lexicon is not None
        known = origin.model.state_dict()
        if layer(origin.model.spec) != layer(model.spec):  # BERT's layer before the words isn't its pooler
            known = {name: tensor for name, tensor in known.items() if not re.match(LAYER, name)}
        if origin.lexicon.labels != prepared.lexicon.labels:  # the same row would stand for another label
            known = {name: tensor for name, tensor in known.items() if not re.match(LABELLED, name)}
        fresh = warm_up(model, known)
        if fresh.whole:
            report(f"model: new weights for {', '.join(fresh.whole)}")
        state: dict[str, Any] = {"moment": {"ranking": []}, "family": origin.family, "fresh": asdict(fresh)}
        kept = {"spec": model.spec.model_dump(mode="json"), "state": state}
        more = {} if origin.origin is None else origin.origin.entries()
        files = {**prepared.lexicon.files(), **more}
        Store(self.folder / "start").save(0, {"model": model.state_dict()}, kept, files)
        return model, fresh

    def write(self) -> None:
        """Put the run file in its folder."""
        replace(self.folder / RUN, self.dump().encode())

    def dump(self) -> str:
        """The run file with every default filled in."""
        return yaml.safe_dump(self.spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    @property
    def digest(self) -> str:
        """Equal for runs that are told to do the same, wherever they are."""
        return _digest(self.spec.model_dump(mode="json"))

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that make it this run and no other, by their names in the run file."""
        tree = self.spec.model_dump(mode="json")
        told = flatten({name: value for name, value in tree.items() if name not in PLACES})
        return {
            name: value for name, value in told.items() if name.startswith(FIXED) or not name.startswith(CHANGEABLE)
        }

    def change(self, document: Document) -> Run:
        """The same run with other settings from here on; what would make another run of it is refused by name."""
        other = Run(self.folder, RunSpec.parse(document.tree | {"out": str(self.folder)}, document.where))
        before, after = ({**run.identity, "data": run.spec.data, "start": run.spec.start} for run in (self, other))
        nothing = dict.fromkeys({*before, *after})
        told = "can't be changed when a run goes on", "out=ANOTHER makes another run of it"
        self._must_agree(nothing | before, nothing | after, *told)
        return other

    def must_have(self, prepared: Prepared) -> None:
        """Insist that the data is what the run was begun with."""
        if _facts(self.folder).get("data", prepared.digest) != prepared.digest:
            raise CheckpointError(f"{self.folder}/data: other data than the run was begun with")

    def must_continue(self, checkpoint: Checkpoint, prepared: Prepared) -> None:
        """Insist that a checkpoint is of the run that run.yaml describes, and of the data that is there."""
        state = checkpoint.json("state")
        if state.get("data", prepared.digest) != prepared.digest:
            raise CheckpointError(f"{self.folder}/data: {checkpoint.path.name} learned from other data than is there")
        before = state.get("identity")
        if isinstance(before, dict):  # earlier versions don't tell, or know fewer settings
            this = json.loads(json.dumps(self.identity))
            self._must_agree(before, this, "isn't what the checkpoint was trained with", f"mend {self.folder / RUN}")

    def _must_agree(self, before: Mapping[str, Any], after: Mapping[str, Any], told: str, hint: str) -> None:
        names = sorted(name for name in {*before} & {*after} if before[name] != after[name])
        if names:
            sides = {name: (before[name], after[name]) for name in names[:10]}
            shown = {name: ["not set" if side is None else show_value(side) for side in sides[name]] for name in sides}
            lines = "; ".join(f"{name}: {one} -> {other}" for name, (one, other) in shown.items())
            raise SpecError(f"{self.folder}: {told}: {lines}", hint)

    @property
    def untouched(self) -> bool:
        """Whether the run file is to the letter what it was when the run was begun."""
        tree = read(self.folder / RUN).tree
        return _facts(self.folder).get("config") == _digest(tree)

    def prepared(self) -> Prepared:
        return Prepared.load(self.folder / "data", self.spec.tokenizer.dropout)

    def task(self, prepared: Prepared, model: ModelSpec | None = None) -> Task[Any]:
        """What is learned from the run's corpus; `model`: the one that it goes on from, if it does."""
        return suit_task(self.spec, model).build(prepared, self.spec.batches, self.spec.seed)

    def _model(self, prepared: Prepared) -> tuple[Model, dict[str, Any]]:
        """The model as the run begins with it, and what is known of it: its family's settings, what is new in it."""
        torch.manual_seed(self.spec.seed)
        if self.spec.start is None:
            return describe_model(self.spec, prepared.lexicon).build(), {
                "family": family_of(self.spec, prepared.lexicon)
            }
        first = Store(self.folder / "start").latest()
        if first is None:
            raise CheckpointError(f"{self.folder}/start: the model that it began from is missing or damaged")
        model = ModelSpec.parse(first.json("spec")).build()
        fill(model, first.tensors("model"), f"{first.path}/model.safetensors")
        return model, first.json("state")

    def trainer(self, prepared: Prepared, listeners: Sequence[Listener] = ()) -> Trainer:
        """A trainer at the start of the run."""
        model, known = self._model(prepared)
        facts = {"config": self.digest, "data": prepared.digest, "versions": versions(), "family": known.get("family")}
        facts["identity"] = self.identity
        identity = facts | {"task": suit_task(self.spec, model.spec).model_dump()}
        return Trainer(
            model.to(device(self.spec.device)),
            self.task(prepared, model.spec),
            self.spec.train,
            listeners,
            self.store,
            prepared.lexicon.files(),
            identity,
            f"regard resume {quote(str(self.folder))}",
            Fresh.read(known),
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other trainers out, for as long as this process lives."""
        import fcntl

        path = self.folder / "lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise Busy(f"{self.folder}: {owner} is training in it", "wait for it, or out=ANOTHER") from None
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            yield


def _digest(tree: Mapping[str, Any]) -> str:
    """Equal for run files that say the same, wherever they are."""
    told = {name: value for name, value in tree.items() if name not in PLACES}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _facts(folder: Path) -> dict[str, Any]:
    """What was noted when a run was begun; nothing where that can't be read any more."""
    try:
        found = json.loads((folder / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _says(path: Path, wanted: str) -> bool:
    """Whether a small file is one of ours, by what is in it."""
    try:
        return path.stat().st_size < 1000 and re.fullmatch(wanted, path.read_text()) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _half_written(name: str) -> bool:
    """Whether it is a file of a run that was written aside when its writer was killed."""
    match = ASIDE.fullmatch(name)
    return match is not None and match["name"] in (RUN, "run.json", "metrics.jsonl", PREPARING)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of settings as one level: `task.search.beam`."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def like(spec: RunSpec) -> Lexicon | None:
    """The lexicon of another run, where this one is to have the same tokens."""
    return None if spec.tokenizer.like is None else Prepared.load(Path(spec.tokenizer.like) / "data").lexicon


def try_changes(spec: ModelSpec, train: TrainSpec, fresh: Fresh) -> None:
    """Insist that what is to be frozen or adapted is there, before anything is written."""
    model = spec.build("meta")
    if train.freeze:
        freeze(model, train.freeze)
    if train.adapt is not None:
        train.adapt.attach(model, fresh)


def load_start(noun: str) -> Bundle:
    """What another run, or a folder in Hugging Face layout, has to go on from."""
    found = load_bundle(noun)
    if found.lexicon is None:
        raise CheckpointError(f"{noun}: there is no tokenizer in it, and training goes on with the same tokens")
    found.model.float()
    return found


def grow(spec: ModelSpec, source: int, target: int) -> ModelSpec:
    """A model's spec with room for so many tokens, if it has less."""
    changes: dict[str, Any] = {}
    for side, stack, size in (("encoder", spec.encoder, source), ("decoder", spec.decoder, target)):
        held = None if stack is None else stack.embedding.fields().get("vocabulary")
        if stack is not None and isinstance(held, int) and held < size:
            changes[side] = stack.replace(embedding=stack.embedding.replace(vocabulary=size))
    head = spec.head
    if changes and head is not None and head.fields().get("size") is not None:
        changes["head"] = head.replace(size=target)
    return spec.replace(**changes) if changes else spec


def layer(spec: ModelSpec) -> Any:
    """What a head does to its states before the answer."""
    settings = {} if spec.head is None else spec.head.fields()
    return settings.get("transform", settings.get("activation"))


def warm_up(model: Model, tensors: Mapping[str, torch.Tensor]) -> Fresh:
    """Fill a model with all weights of another that fit; what it has beside them.

    A table that has gained rows keeps the old ones. What isn't the head's must fit.
    """
    own, fresh, rows = model.state_dict(), list[str](), dict[str, int]()
    for name, weight in own.items():
        # a head that pools for its classes has the pooler that the model had alone
        given = tensors.get(name, tensors.get(name.replace("head.pooler.", "head.")))
        if given is not None and given.shape == weight.shape:
            weight.copy_(given)
        elif given is not None and given.shape[1:] == weight.shape[1:] and len(given) < len(weight):
            weight[: len(given)].copy_(given)
            rows[name] = len(given)
        elif name.startswith("head.") or given is None:
            fresh.append(name)
        else:
            raise CheckpointError(f"start: {name} has shape {tuple(given.shape)}, and {tuple(weight.shape)} is wanted")
    return Fresh(tuple(fresh), rows)
