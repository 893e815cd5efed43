"""A run: one file that says everything, and one folder that holds everything.

`run.yaml` is the file as it was resolved, `data/` the corpus made ready, `start/` the model that it began from if it
didn't begin from nothing, `judge/` the model that judges its answers if one does, `text/` what is learned beside if
something is, `checkpoints/` what was saved, `metrics.jsonl` what was measured while it trained, and
`evaluations.jsonl` what was measured and recorded afterwards.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import yaml
from torch import Tensor

from regard.config import Document, read
from regard.core.plugins import insist_on_plugins, spell_program
from regard.core.spec import show_value
from regard.data.lexicon import Lexicon
from regard.data.preparation import prepare
from regard.data.prepared import REPORT, Prepared, copy_prepared, discard
from regard.errors import CheckpointError, RegardError, SpecError
from regard.host.files import ASIDE, explain_disk_errors, remove, replace
from regard.host.machine import describe_machine, device, versions
from regard.host.meter import SILENT, Meter
from regard.runs.assembly import Assembly
from regard.runs.load import load_beside
from regard.runs.lock import LOCK, hold
from regard.runs.resolve import CHOICE, EVALUATIONS, IMPORT, PREPARING, RUN, no_run
from regard.runs.spec import RunSpec
from regard.runs.start import Start, keep_judge, keep_text, load_start
from regard.runs.uses import insist_on_uses, load_uses, note_plugins
from regard.tasks.bundle import Bundle
from regard.tasks.task import TaskSpec
from regard.train.checkpoint import MODEL, Checkpoint, Store
from regard.train.generators import generators, restore_generators
from regard.train.listener import Listener
from regard.train.trainer import Archive, Trainer
from regard.train.world import ALONE, World

STORES, CORPORA = ("start", "judge", "checkpoints", "average"), ("data", "text")
BESIDE = ("run.json", "metrics.jsonl", EVALUATIONS, CHOICE)  # its files beside the run file
MADE = "regard is making a run here: data, text, start, judge and run.json beside this file are its own.\n"
# what a run may change when it goes on; all else would make another run of it
CHANGEABLE = ("train.", "device", "task.search.", "task.metrics")
FIXED = ("train.optimizer.kind", "train.adapt")  # among those: what the optimizer remembers, and the adapters' shapes
# where things are, which a run that was moved doesn't know; plug-ins are known by their digests
PLACES = ("out", "data", "start", "uses")


@dataclass
class Run:
    """A folder with everything that a run needs and left."""

    folder: Path
    spec: RunSpec
    # what this process made of it already: its data is read and verified once, its model is built once
    _prepared: Prepared | None = field(default=None, repr=False, compare=False)
    _begun: tuple[Trainer, dict[str, Tensor]] | None = field(default=None, repr=False, compare=False)

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
        insist_on_uses(document, _facts(folder).get("plugins"))
        return cls(folder, RunSpec.parse(document.tree | {"out": str(folder)}, document.where))

    @classmethod
    def begin(
        cls,
        document: Document,
        report: Callable[[str], None] = lambda _: None,
        ready: Prepared | None = None,
        meter: Meter = SILENT,
    ) -> Run:
        """Check everything, make the corpus ready, and write the folder; on a mistake nothing is left behind.

        `ready`: what another run has made ready of the same corpus, to be copied.
        """
        load_uses(document)
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
                    run._prepare(report, ready, meter)
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
            again = f"regard resume {quote(str(folder))}, or out=ANOTHER, or --force to replace it"
            raise RegardError(f"{folder}: a run is there already", again)
        if folder.exists() and not folder.is_dir():
            raise RegardError(f"{folder}: is there already and isn't a folder", "out=ANOTHER")
        half = _says(folder / PREPARING, re.escape(MADE))
        own = {PREPARING, "start", "judge", *CORPORA, "run.json"} if half else set[str]()
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
        gone = {name: Store(self.folder / name).discard() for name in ("start", "judge")}
        gone |= {name: discard(self.folder / name) for name in CORPORA}
        return next((name for name in gone if not gone[name]), None)

    def discard(self) -> bool:
        """Delete the run, but nothing in its folder that it didn't write; whether the folder is gone."""
        return discard_run(self.folder)

    def _prepare(self, report: Callable[[str], None], ready: Prepared | None, meter: Meter) -> None:
        """Make the corpus and the first model ready; the run file comes last, since a folder with it is a run."""
        origin = None if self.spec.start is None else load_start(self.spec.start)
        assembly = Assembly.make(self.spec, origin)
        if ready is not None and ready.suits(assembly.with_words(ready.lexicon).model):
            copy_prepared(ready, self.folder / "data")
        else:
            self._prepared = self._read_corpus(assembly, origin, report, meter)
        lexicon = self.prepared().lexicon
        assembly = assembly.with_words(lexicon)
        if origin is None:
            start = Start.draw(assembly, self.spec.seed)
        else:
            start = Start.take_over(assembly, self.spec.seed, origin, lexicon)
            start.keep(self.folder, lexicon, origin)
        keep_judge(self.folder, assembly.task)
        keep_text(self.folder, assembly.task, lexicon)
        if origin is not None and start.fresh.whole:
            report(f"model: new weights for {', '.join(start.fresh.whole)}")
        count = start.model.parameter_count()
        trainer = self._trainer(start, assembly.task)  # it finds what can't be frozen, adapted or weighed
        self._begun = trainer, generators(trainer.model.device)
        sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(len(part) for part in lexicon.words or ()))
        report(f"model: {count:,} parameters{', a vocabulary of ' if sizes else ''}{sizes}")
        facts: dict[str, Any] = {"versions": versions(), "data": self.prepared().digest, "config": self.digest}
        facts |= {"plugins": self._note_plugins(start, assembly.task), "parameters": count}
        facts["machine"] = describe_machine()
        replace(self.folder / "run.json", json.dumps(facts, indent=1).encode())
        self.write()

    def _read_corpus(
        self, assembly: Assembly, origin: Bundle | None, report: Callable[[str], None], meter: Meter
    ) -> Prepared:
        # the run file says which readers were meant, so that nobody has to find it out again
        corpus = self.spec.corpus.settle(assembly.task.form, Path(self.spec.data))
        self.spec = self.spec.model_copy(update={"corpus": corpus})
        spec, data = self.spec, self.folder / "data"
        known = borrow_lexicon(spec) if origin is None else origin.lexicon
        if known is not None and assembly.task.words:
            report(f"tokens: those of {spec.start or spec.tokenizer.like}")
        limits = (spec.batches.longest, Path(spec.data), data)
        fitted = lambda lexicon: assembly.with_words(lexicon).model  # noqa: E731
        prepared, log = prepare(spec.corpus, assembly.task, spec.tokenizer, *limits, known, fitted, meter)
        report(f"data: {log.summary()}")
        for note in log.notes:
            report(f"data: {note}")
        if log.reasons:
            report(f"data: every such line is in {data / REPORT}")
        for line in log.seen:
            report(f"data: {line}")
        return prepared

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
        before, after = (run.identity | {name: getattr(run.spec, name) for name in PLACES} for run in (self, other))
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
        insist_on_plugins(state.get("plugins"), str(checkpoint.path))
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
        """The corpus as it was made ready; it is read and verified when it is first asked for."""
        if self._prepared is None:
            self._prepared = Prepared.load(self.folder / "data", self.spec.tokenizer.dropout)
        return self._prepared

    def trainer(self, listeners: Sequence[Listener] = (), world: World = ALONE) -> Trainer:
        """A trainer at the start of the run; the one that was made when it was begun, if that was just now."""
        begun, self._begun = self._begun, None
        if begun is not None and world is ALONE:
            trainer, chance = begun
            restore_generators(chance, trainer.model.device)  # whatever was drawn since belongs to others
        elif self.spec.start is None:
            assembly = self.assembly()
            trainer = self._trainer(Start.draw(assembly, self.spec.seed), assembly.task, world)
        else:
            start = Start.recall(self.folder, self.spec.seed)
            trainer = self._trainer(start, self.spec.task.adapt_to(start.model.spec), world)
        trainer.listeners = listeners
        return trainer

    def assembly(self) -> Assembly:
        """The task and the model of a run that begins from nothing."""
        return Assembly.make(self.spec).with_words(self.prepared().lexicon)

    def _trainer(self, start: Start, task: TaskSpec, world: World = ALONE) -> Trainer:
        prepared = self.prepared()
        facts = {"config": self.digest, "data": prepared.digest, "versions": versions(), "family": start.family}
        facts["plugins"] = self._note_plugins(start, task)
        identity = {**facts, "identity": self.identity, "task": task.model_dump()}
        resume = f"{spell_program()} resume {quote(str(self.folder))}"
        built = task.build(prepared, self.spec.batches, self.spec.seed)
        built.beside = partial(load_beside, self.folder)
        return Trainer(
            start.model.to(device(self.spec.device)),
            built,
            self.spec.train,
            (),
            Archive(self.store, prepared.lexicon.files(), identity, resume),
            start.fresh,
            world,
        )

    def _note_plugins(self, start: Start, task: TaskSpec) -> dict[str, str]:
        return note_plugins(self.spec.uses, start.family, self.spec, task, start.model.spec)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other trainers out, for as long as this process lives."""
        with hold(self.folder):
            yield


def discard_run(folder: Path) -> bool:
    """Delete a run, whatever state it is in, but nothing that it didn't write; whether its folder is gone."""
    for name in STORES:
        Store(folder / name).discard()
    for name in CORPORA:
        discard(folder / name)
    remove(folder / "tensorboard", lambda name: name.startswith("events.out.tfevents."))
    # its own file goes last: until then it can be seen that this is a run
    remove(folder, lambda name: name in (*BESIDE, PREPARING) or _half_written(name))
    return remove(folder, lambda name: name in (RUN, IMPORT, MODEL, LOCK))


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
    return match is not None and match["name"] in (RUN, *BESIDE, PREPARING)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of settings as one level: `task.search.beam`."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def borrow_lexicon(spec: RunSpec) -> Lexicon | None:
    """The lexicon of another run, where this one is to have the same tokens."""
    return None if spec.tokenizer.like is None else Prepared.load(Path(spec.tokenizer.like) / "data").lexicon
