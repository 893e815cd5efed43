"""What the model of a run makes of a few of its own samples and of texts that a user chose, to be read and looked at.

One that can't be loaded or asked leaves a note; whoever makes a report of several runs wants to see the others too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.corpus import Split
from regard.data.prepared import DATA, digest
from regard.data.sample import FormSpec, Sample
from regard.data.spool import read_spool, spool_files
from regard.decode.pipeline import Pipeline
from regard.errors import CheckpointError, InputError, RegardError, RegardWarning
from regard.lens.page import Figure
from regard.runs.listing import UNREADABLE, explain, read_object
from regard.runs.load import load_bundle
from regard.runs.resolve import split_noun
from regard.tasks.example import Example
from regard.tasks.task import TaskSpec

SHORT = 40  # tokens of a sample that is looked at unasked
KEPT: tuple[Split, ...] = ("validation", "test")  # splits that samples are taken of, the first that there is


@dataclass
class Asked:
    """What a model was asked, and what it answered."""

    roles: tuple[str, str, str] = ("given", "expected", "answer")
    split: str = ""  # where the samples come from
    examples: list[Example] = field(default_factory=list)  # of samples, then of texts
    looks: dict[str, Figure] = field(default_factory=dict)  # at each text, or at a sample that is short enough
    notes: list[str] = field(default_factory=list)
    precision: str = ""  # what the model's weights were packed to; empty where it couldn't be loaded

    def as_json(self) -> dict[str, Any]:
        told = [example.as_json() for example in self.examples]
        sides = {"roles": list(self.roles), "split": self.split, "precision": self.precision}
        return {**sides, "examples": told, "notes": self.notes}


def ask_run(noun: str, count: int, texts: Sequence[str], precision: str | None = None) -> Asked:
    """Load a run's model, and ask it about so many of its samples and about these texts."""
    found = Asked()
    try:
        with note_warnings(found.notes):
            bundle = load_bundle(noun, precision=precision)
            task, pipeline = bundle.purpose(), bundle.pipeline()
    except UNREADABLE as error:
        found.notes.append(f"no samples: its model can't be loaded: {explain(error)}")
        return found
    found.roles, found.precision = task.roles, pipeline.precision
    found.split, samples = _choose_samples(Path(split_noun(noun)[0]), count, found.notes)
    samples += _make_samples(task, texts, found.notes)
    with note_warnings(found.notes):
        found.examples = _demonstrate(task, pipeline, samples, found.notes)
        found.looks = _look_at(pipeline, texts, found.notes) if texts else _look_at_some(pipeline, found.examples)
    if samples and not found.examples and not found.notes:
        found.notes.append(f"no samples: {task.kind} shows none")
    if found.precision != "fp32":
        found.notes.append(f"it was asked in {found.precision}")
    return found


def _choose_samples(folder: Path, count: int, notes: list[str]) -> tuple[str, list[Sample]]:
    """Samples that were kept from training, from all over their split: the same ones for runs on the same data."""
    facts = read_object(folder / "data" / DATA)
    there = facts.get("samples") if isinstance(facts.get("samples"), dict) else {}
    split = next((name for name in KEPT if there and name in there), None)
    if split is None or not count:
        return "", []
    try:
        FormSpec.parse(facts["form"])
        for name in spool_files(split, facts["form"]):
            inside = name.endswith(".arrays") and name not in facts["files"]  # as earlier versions keep arrays
            if not inside and digest(folder / "data" / name) != facts["files"].get(name):
                raise CheckpointError(
                    f"{folder / 'data' / name}: damaged, its digest isn't the one it was written with"
                )
        samples = list(read_spool(folder / "data", split, facts["form"], mapped=True))
    except UNREADABLE as error:
        notes.append(f"no samples of its own: {explain(error)}")
        return "", []
    kept = min(count, len(samples))
    return split, [samples[n * len(samples) // kept] for n in range(kept)]


def _make_samples(task: TaskSpec, texts: Sequence[str], notes: list[str]) -> list[Sample]:
    """Texts that a user chose, as samples; a task that isn't asked by texts says so once."""
    try:
        return [task.make_sample(text) for text in texts]
    except InputError as error:
        notes.append(error.message)
        return []


def _demonstrate(task: TaskSpec, pipeline: Pipeline, samples: Sequence[Sample], notes: list[str]) -> list[Example]:
    """The examples of these samples; where one can't be answered, each by itself, so that the others aren't lost."""
    if not samples:
        return []
    try:
        return task.demonstrate(pipeline, samples)
    except RegardError as error:
        if len(samples) == 1:
            asked = next((value for value in samples[0].values() if isinstance(value, str)), "a sample")
            notes.append(f"no answer for {asked[:60]!r}: {error.message}")
            return []
    return [example for sample in samples for example in _demonstrate(task, pipeline, [sample], notes)]


def _look_at(
    pipeline: Pipeline, texts: Sequence[str], notes: list[str], longest: int | None = None
) -> dict[str, Figure]:
    """What is seen in each text; why nothing is, where nothing attends or a text can't be read.

    Figures are kept, not looks: a look holds its model, and the next run's may need the memory.
    """
    found = {}
    for text in texts:
        try:
            look = pipeline.look(text)
            if not look.maps():
                notes.append("no attention to look at: nothing in this model attends")
                return {}
            if longest is None or len(look.tokens) <= longest:
                found[text] = look.figure()
        except RegardError as error:
            notes.append(f"no look at {text[:60]!r}: {error.message}")
    return found


def _look_at_some(pipeline: Pipeline, examples: Sequence[Example]) -> dict[str, Figure]:
    """The first sample that fits on a screen, where nobody has chosen a text."""
    for example in examples:
        found = _look_at(pipeline, [" ".join(example.given) if example.aligned else example.given[0]], [], SHORT)
        if found:
            return found
    return {}


@contextmanager
def note_warnings(notes: list[str]) -> Iterator[None]:
    """Our own warnings become notes; others' go their usual way."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RegardWarning)
            yield
    finally:
        for one in caught:
            if issubclass(one.category, RegardWarning):
                notes.append(str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
