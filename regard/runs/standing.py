"""What a trained run reached, by its own journal: measures on validation data, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.runs.folder import Run
from regard.runs.listing import read_object
from regard.train.goal import Goal
from regard.train.listener import read_journal

BOUNDS = ("_low", "_high")  # ends of an interval over samples, which isn't one over seeds


@dataclass(frozen=True)
class Standing:
    """One evaluation on validation data, and the run so far."""

    measures: Mapping[str, float]
    step: int  # of the evaluation
    steps: int
    tokens: int
    seconds: float  # of training by the clock, evaluations included
    peak_memory: int  # bytes of the process that trained it
    parameters: int


def choose_goal(run: Run) -> Goal:
    """The measure that a run is ranked by."""
    task = run.spec.task
    if run.spec.train.goal is not None:
        return Goal.choose(run.spec.train.goal, task.known_measures())
    built = task.build(run.prepared(), run.spec.batches, run.spec.seed)
    return Goal(built.goal, built.rising)


def read_standing(run: Run, best: Goal | None = None) -> Standing:
    """What a run reached at its end; `best`: at its best checkpoint by this measure, which is what RUN means."""
    journal = run.folder / "metrics.jsonl"
    entries = read_journal(journal)
    steps = [entry for entry in entries if entry["event"] == "step"]
    evaluations = [entry for entry in entries if entry["event"] == "evaluation"]
    if not steps or not evaluations:
        raise DataError(f"{journal}: it tells of no evaluation", f"regard rm {run.folder}, to train it again")
    chosen = evaluations[-1] if best is None else _find_best(evaluations, best)
    known = run.spec.task.known_measures()
    names = [name for name in (known or chosen) if _is_measure(name, chosen.get(name))]
    memory = [int(entry["peak_memory"]) for entry in entries if "peak_memory" in entry]
    return Standing(
        {name: float(chosen[name]) for name in names},
        int(chosen["step"]),
        int(steps[-1]["step"]),
        int(steps[-1]["tokens"]),
        float(entries[-1].get("seconds", steps[-1]["seconds"])),
        max(memory, default=0),
        int(read_object(run.folder / "run.json").get("parameters", 0)),
    )


def _find_best(evaluations: list[dict[str, Any]], goal: Goal) -> dict[str, Any]:
    """The first of those with the best finite value; the last, where none is finite."""
    finite = [entry for entry in evaluations if math.isfinite(goal.read(entry))]
    if not finite:
        return evaluations[-1]
    return (max if goal.rising else min)(finite, key=goal.read)


def _is_measure(name: str, value: object) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and not name.endswith(BOUNDS) and name not in ("step", "seconds", "peak_memory")


def insist_on_validation(run: Run) -> None:
    """Refuse a corpus of which nothing is kept for validation."""
    prepared = run.prepared()
    if not prepared.has("validation") or not prepared.samples("validation"):
        told = "the corpus has no validation data, and nothing is chosen or compared on test data"
        raise DataError(told, "corpus.validation=300 for a built-in corpus, corpus.split={validation: 0.05} for files")
