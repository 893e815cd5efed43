"""Several runs, one after the other: those that are there are used, what was stopped goes on, the rest is trained.

A comparison, a sweep and an experiment are each a campaign, so a broken one goes on where it stopped. A corpus is made
ready once: runs that read the same data in the same way share it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from regard.config import Document
from regard.core.spec import show_value
from regard.data.prepared import Prepared
from regard.errors import Divergence, RegardError
from regard.host.files import explain_disk_errors
from regard.host.meter import SILENT, Advance, Meter
from regard.host.meter import ignore as advance_nothing
from regard.runs.apart import train_apart
from regard.runs.folder import Run, flatten
from regard.runs.removal import replace_run
from regard.runs.resolve import RUN
from regard.runs.spec import RunSpec
from regard.runs.train import ignore, resume, train
from regard.train.listener import Listener, Step, read_journal
from regard.train.moment import Moment
from regard.train.spec import TrainSpec

DIVERGENCE = "divergence"  # the last event of a run that diverged
DATA = ("task", "corpus", "tokenizer", "data", "uses")  # the settings that say what is learned from


@dataclass
class Campaign:
    """Run files by name, to be trained or found.

    `redo`: a run that was told something else is ours and is replaced. `lenient`: a run whose loss isn't finite any
    more stays as it is, and the others go on. `apart`: each is trained in a process of its own, so that the peak memory
    in its journal is its own. `ready`: a corpus that was made ready before, in the way of the first run.
    """

    documents: Mapping[str, Document]
    redo: bool = False
    lenient: bool = False
    apart: bool = False
    ready: Prepared | None = None
    found: list[str] = field(default_factory=list)  # names of runs that had come to their end before
    diverged: list[str] = field(default_factory=list)  # names of runs that can't come to it

    def conduct(self, meter: Meter = SILENT) -> dict[str, Run]:
        """Bring every run to its end; all are checked before the first is trained."""
        wanted = {name: RunSpec.parse(document.tree, document.where) for name, document in self.documents.items()}
        self.diverged = []
        self._insist_on_places(wanted)
        due = {name: spec for name, spec in wanted.items() if not self._is_there(name, spec)}
        self.found = [name for name in wanted if name not in due]
        ready = {name_data(spec): self.ready for spec in [*wanted.values()][:1] if self.ready is not None}
        places = {name_data(spec): Path(spec.out) for name, spec in wanted.items() if name not in due}
        count = f"{len(due)} models" if len(due) > 1 else "a model"
        with (
            meter.watch(f"training {count}, percent", 100 * len(due))
            if due
            else nullcontext(advance_nothing) as advance
        ):
            for name, spec in due.items():
                data = name_data(spec)
                if data not in ready and data in places:  # reading it verifies all of it, which takes its time
                    ready[data] = Run.open(places[data]).prepared()
                self._bring_up(name, spec, ready.get(data), Follower(advance))
                places.setdefault(data, Path(spec.out))
        return {name: Run.open(Path(spec.out)) for name, spec in wanted.items()}

    def _insist_on_places(self, wanted: Mapping[str, RunSpec]) -> None:
        places = [Path(spec.out).resolve() for spec in wanted.values()]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise RegardError(f"{twice}: two runs would be trained there", "a folder for each")

    def _is_there(self, name: str, spec: RunSpec) -> bool:
        """Whether a run has come to its end; one that was told something else is refused, or will be replaced."""
        folder = Path(spec.out)
        if not (folder / RUN).exists():
            return False
        differing = compare_told(Run.open(folder).spec, spec)
        if differing and not self.redo:
            key, (there, asked) = next(iter(differing.items()))
            told = (
                f"{folder}: a run is there whose {key} is {show_value(there)}, and {name} asks for {show_value(asked)}"
            )
            raise RegardError(told, f"regard rm {quote(str(folder))}, or another --out")
        if self.lenient and not differing and read_divergence(folder) is not None:
            self.diverged.append(name)  # it would diverge again
            return True
        return not differing and has_ended(folder)

    def _bring_up(self, name: str, spec: RunSpec, ready: Prepared | None, listener: Follower) -> None:
        folder, there = Path(spec.out), (Path(spec.out) / RUN).exists()
        goes_on = there and not compare_told(Run.open(folder).spec, spec)
        try:
            if self.apart:
                if not goes_on:
                    begin = replace_run if there else Run.begin
                    begin(self.documents[name], ready=ready)
                train_apart(folder, listener.reach)
            elif goes_on:
                resume(folder, (), ignore, [listener])
            else:
                train(self.documents[name], ignore, ready, [listener], force=there)
        except Divergence as error:
            if not self.lenient:
                error.message = f"{name}: {error.message}"
                raise
            note_divergence(folder, error.message)
            listener.give_up()
            self.diverged.append(name)


def note_divergence(folder: Path, message: str) -> None:
    """Write into a run's journal that it diverged; whoever resumes the run takes that out again."""
    journal = folder / "metrics.jsonl"
    steps = [entry["step"] for entry in read_journal(journal)]
    told = {"event": DIVERGENCE, "step": max(steps, default=0) + 1, "message": message}
    with explain_disk_errors(folder, 0), journal.open("a") as file:
        file.write(json.dumps(told) + "\n")


def read_divergence(folder: Path) -> str | None:
    """What was said of a run that diverged when it was last trained; None where it didn't."""
    journal = folder / "metrics.jsonl"
    last = read_journal(journal)[-1:] if journal.exists() else []
    return str(last[0].get("message")) if last and last[0]["event"] == DIVERGENCE else None


def has_ended(folder: Path) -> bool:
    """Whether a run came to its own end, by its journal."""
    journal = folder / "metrics.jsonl"
    return journal.exists() and any(entry["event"] == "end" for entry in read_journal(journal)[-1:])


def compare_told(there: RunSpec, asked: RunSpec) -> dict[str, tuple[Any, Any]]:
    """The settings in which a run that is there differs from one that is asked for, wherever they are."""
    # the file of a run says which readers were meant, and that of a user needn't
    settled = asked.corpus.settle(asked.task.form, Path(asked.data))
    sides = [flatten(_dump(spec)) for spec in (there, asked.model_copy(update={"corpus": settled}))]
    both = {key: (sides[0].get(key), sides[1].get(key)) for key in dict.fromkeys((*sides[0], *sides[1]))}
    return {key: (one, other) for key, (one, other) in both.items() if one != other}


def _dump(spec: RunSpec) -> dict[str, Any]:
    # plug-ins are held to their digests when a run is opened; another start or folder of data is another run
    return {key: value for key, value in spec.model_dump(mode="json").items() if key not in ("out", "uses")}


def name_data(spec: RunSpec) -> str:
    """Equal for runs that read the same data in the same way; a decoder alone reads pairs in one row, for instance."""
    task = spec.task if spec.model is None else spec.task.adapt_to(spec.model.spec)
    tree = spec.model_dump(mode="json") | {"task": task.model_dump(mode="json")}
    return json.dumps([{key: tree[key] for key in DATA}, tree["batches"]["longest"], tree["start"]])


def spell_out(folder: Path) -> str:
    """The word that says where a run goes; it is read as YAML."""
    return f"out={json.dumps(str(folder))}"


class Follower(Listener):
    """Tells a meter how far the runs of a campaign are: so many hundredths of a budget."""

    def __init__(self, advance: Advance) -> None:
        self.advance, self.told = advance, 0

    def on_start(self, moment: Moment, spec: TrainSpec) -> None:
        self.spec, self.told = spec, 0
        self._tell(moment)

    def on_step(self, step: Step, moment: Moment) -> None:
        self._tell(moment)

    def on_finish(self, moment: Moment, reason: str) -> None:
        self.give_up()  # patience ends a run before its budget does

    def give_up(self) -> None:
        """No more comes of this run."""
        self.advance(100 - self.told)
        self.told = 100

    def _tell(self, moment: Moment) -> None:
        self.reach(min(100, int(100 * moment.progress(self.spec))))

    def reach(self, share: int) -> None:
        """So many hundredths are done."""
        self.advance(share - self.told)
        self.told = share
