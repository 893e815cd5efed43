"""The runs below a folder, each in one row. No weights are read and torch isn't needed, so it comes at once.

What can't be read makes a damaged row and never an error: whoever lists runs wants to see the others too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import read
from regard.errors import RegardError
from regard.host.tensors import count_numbers
from regard.runs.lock import is_held
from regard.runs.resolve import IMPORT, PREPARING, RUN
from regard.train.checkpoint import MODEL, Checkpoint, Store, inspect
from regard.train.listener import read_entry

Condition = Literal["training", "done", "stopped", "damaged", "imported", "saved"]
# folders of a run, in which no other is looked for
OWN = ("data", "text", "checkpoints", "start", "judge", "average", "tensorboard")
# what reading a folder that is damaged, or that somebody has changed, may come to
UNREADABLE = (RegardError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
TAIL = 2**16  # bytes at the end of a journal: what happened last


@dataclass
class RunRow:
    """What there is to say of a run."""

    run: str
    state: Condition
    task: str = ""
    model: str = ""
    parameters: int | None = None
    step: int = 0
    measure: str = ""  # what says which checkpoint is best
    best: float | None = None
    changed: float = 0.0  # seconds since 1970
    bytes: int = 0
    problem: str = ""  # what is wrong with a damaged one

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def list_runs(folder: Path) -> Iterator[RunRow]:
    """Every run below a folder, in the order of their names; a folder that is a run itself too."""
    seen = set[str]()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        is_one = bool({RUN, IMPORT, MODEL, PREPARING} & set(names))
        folders[:] = sorted(name for name in folders if not (is_one and name in OWN))
        if is_one:
            yield describe_run(Path(place))


def describe_run(folder: Path) -> RunRow:
    """One run; whatever is wrong with it is said in its row."""
    row = RunRow(str(folder), "stopped")
    try:
        row.changed, row.bytes = _weigh(folder)
        _read_run(folder, row)
    except UNREADABLE as error:
        row.state, row.problem = "damaged", explain(error)
    if is_held(folder):  # a process that works with it will find out what is damaged
        row.state = "training"
    return row


def explain(error: Exception) -> str:
    """What went wrong, without what to do about it."""
    return str(getattr(error, "message", error)) or type(error).__name__


def _weigh(folder: Path) -> tuple[float, int]:
    """When something in a folder changed last, and how many bytes it takes."""
    changed, size = 0.0, 0
    for place, _, names in os.walk(folder):
        for name in names:
            found = os.lstat(os.path.join(place, name))
            size += found.st_size
            if name != "lock":  # who only looks may touch it
                changed = max(changed, found.st_mtime)
    return changed, size


def _read_run(folder: Path, row: RunRow) -> None:
    told: list[str] = []
    newest = Store(folder / "checkpoints", warn=told.append).latest(inspect)
    state = {} if newest is None else newest.json("state")
    if (folder / RUN).is_file():
        tree = read(folder / RUN).tree
        row.task, row.model = _name(tree.get("task", "translation")), _name(tree.get("model") or tree.get("start"))
    elif (folder / IMPORT).is_file():
        tree, row.state, row.model = {}, "imported", str(state["import"]["type"])
    elif (folder / MODEL).is_file():  # a model that was saved by itself
        tree, row.state, row.model = {}, "saved", _name(state.get("family"))
        row.task = _name(state.get("task"))
    else:
        return  # it was never begun
    row.parameters = _count(folder, newest)
    moment = state.get("moment", {})
    last = _read_last(folder / "metrics.jsonl")
    row.step = max(int(moment.get("step", 0)), int(last.get("step", 0)))
    if moment.get("ranking"):
        row.measure, row.best = str(moment.get("goal", "")), float(moment["ranking"][0][0])
    if row.state == "stopped" and (last.get("event") == "end" or _is_over(moment, tree.get("train", {}))):
        row.state = "done"
    if told:  # an older checkpoint may do, but something is damaged
        row.state, row.problem = "damaged", told[0]


def _name(choice: Any) -> str:
    """What a run file calls a task or a model."""
    return str(choice.get("kind", "")) if isinstance(choice, Mapping) else str(choice or "")


def _count(folder: Path, newest: Checkpoint | None) -> int | None:
    """The parameters, as they were noted when the run was begun; those of earlier versions by the weights' header."""
    noted = (read_object(folder / "run.json") or read_object(folder / MODEL)).get("parameters")
    if isinstance(noted, int):
        return noted
    begun = Store(folder / "start").list_steps()[-1:]  # adapters stand beside what they adapt
    for found in ([newest] if newest else []) + begun:
        if "model.safetensors" in found.files:
            return count_numbers(found.path / "model.safetensors")
    return None


def read_object(path: Path) -> dict[str, Any]:
    """A file of facts; nothing where it can't be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_last(path: Path) -> dict[str, Any]:
    """The last entry of a journal, without reading all of it."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    entries = (read_entry(line) for line in reversed(lines))
    return next((entry for entry in entries if entry is not None), {})


def _is_over(moment: Mapping[str, Any], budget: Mapping[str, Any]) -> bool:
    """Whether a budget is used up, for journals of earlier versions, which don't tell the end."""
    minutes = budget.get("minutes")
    pairs = (
        (moment.get("step", 0), budget.get("steps")),
        (moment.get("tokens", 0), budget.get("tokens")),
        (moment.get("epoch", 0) + moment.get("share", 0.0), budget.get("epochs")),
        (moment.get("clock", 0.0), minutes and 60 * minutes),
    )
    patience = budget.get("patience", 0)
    return any(most and used >= most for used, most in pairs) or bool(patience and moment.get("stale", 0) >= patience)
