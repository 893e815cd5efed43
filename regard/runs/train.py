"""Training from a run file, and going on with a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Document, read
from regard.data.given import hand_in
from regard.data.prepared import Prepared
from regard.errors import CheckpointError, RegardError
from regard.host.files import explain_disk_errors
from regard.host.machine import give_way
from regard.host.meter import SILENT, Meter
from regard.lens.screen import Screen
from regard.runs.folder import Run
from regard.runs.load import load
from regard.runs.removal import replace_run
from regard.runs.resolve import RUN
from regard.train.listener import Board, Journal, Listener
from regard.train.trainer import Report as Ending
from regard.train.world import ALONE, World

Report = Callable[[str], None]  # what takes lines about the work as it goes


def ignore(line: str) -> None:
    """Report to nobody."""


@dataclass
class TrainedRun:
    """A run that came to its end."""

    folder: Path
    report: Ending

    def model(self) -> Any:
        """What was trained, ready to use: a Translator, a Writer, …"""
        return load(str(self.folder))


def fit(
    settings: str | Path | Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
    data: Any = None,
    *,
    force: bool = False,
) -> TrainedRun:
    """Train as a run file or a tree of settings says: `fit("recipes/demo.yaml", {"train.minutes": 30})`.

    `data`: rows to train on instead of files: any iterable of dicts, a frame of pandas or polars, a table of Arrow,
    a data set of Hugging Face, a dict of columns; or a dict of such by split. The run keeps what it needs of them.
    A path, or a list of paths, is files as a run file would name them. `force`: a run that is there is replaced.

    >>> import regard
    >>> run = regard.fit("en-fr.yaml", {"train.steps": 2, "out": "runs/again"})
    >>> run.report.moment.step
    2
    >>> run.model().translate("the cat sleeps").text == regard.load("runs/again").translate("the cat sleeps").text
    True
    """
    document = Document(dict(settings)) if isinstance(settings, Mapping) else read(Path(settings))
    if data is not None:
        document.tree = hand_in(document.tree, data)
    words = [f"{key}={json.dumps(value)}" for key, value in (changes or {}).items()]
    screen = Screen()
    try:
        return train(document.change(words), screen.say, listeners=[screen], force=force)
    except RegardError as error:
        error.hint = error.hint.replace("--force", "force=True")  # what is an option in a shell is an argument here
        raise


def train(
    document: Document,
    report: Report = ignore,
    ready: Prepared | None = None,
    listeners: Sequence[Listener] = (),
    *,
    force: bool = False,
    meter: Meter = SILENT,
) -> TrainedRun:
    """Begin a run and train it to its end.

    `ready`: a corpus that another run has made ready, to be copied; `force`: a run that is there already is replaced.
    """
    if force:
        return _train(replace_run(document, report, meter, ready), report, listeners)
    return _train(Run.begin(document, report, ready, meter), report, listeners)


def resume(
    folder: Path, words: Sequence[str] = (), report: Report = ignore, listeners: Sequence[Listener] = ()
) -> TrainedRun:
    """Go on with a run from its newest whole checkpoint; `words` change the run from here on."""
    run = Run.open(folder)
    changed = run.change(read(folder / RUN).change(words)) if words else run
    return _train(changed, report, listeners, changed=bool(words))


def _train(
    run: Run, say: Report, others: Sequence[Listener], changed: bool = False, world: World = ALONE
) -> TrainedRun:
    with run.lock() if world.is_writer else nullcontext(), give_way():
        listeners: list[Listener] = [Journal(run.folder / "metrics.jsonl"), *others]
        if Board.available():
            listeners.append(Board(run.folder / "tensorboard"))
        prepared, trainer = run.prepared(), run.trainer(listeners, world)
        store = trainer.archive.store
        assert store is not None
        store.warn = say
        if world.is_writer and (strays := store.clear()):
            say(f"{strays} half-written checkpoints of a killed process were cleared")
        world.barrier()  # all go on from the same checkpoint
        newest = store.latest()
        run.must_have(prepared)
        if newest is None and store.list_steps():
            raise CheckpointError(f"{store.folder}: none of its checkpoints is whole", "train again with out=ANOTHER")
        if newest is not None:
            run.must_continue(newest, prepared)
            trainer.restore(newest)
        if changed and world.is_writer:  # nothing has refused it, so from here on it is so
            with explain_disk_errors(run.folder, 0):
                run.write()
        return TrainedRun(run.folder, trainer.run())
