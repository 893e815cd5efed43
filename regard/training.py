"""Training from a run file, and going on with a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Document, read
from regard.data.prepared import Prepared
from regard.errors import CheckpointError
from regard.files import reported
from regard.machine import give_way
from regard.noun import RUN, load
from regard.run import Run
from regard.train.listener import Board, Journal, Listener
from regard.train.screen import Screen
from regard.train.trainer import Report


@dataclass
class Fitted:
    """A run that came to its end."""

    folder: Path
    report: Report

    def model(self) -> Any:
        """What was trained, ready to use: a Translator, a Writer, …"""
        return load(str(self.folder))


def fit(path: str | Path, changes: Mapping[str, Any] | None = None) -> Fitted:
    """Train as a run file says: `fit("recipes/demo.yaml", {"train.minutes": 30})`."""
    words = [f"{key}={json.dumps(value)}" for key, value in (changes or {}).items()]
    return train(read(Path(path)).changed(words))


def train(document: Document, report: Callable[[str], None] | None = None, ready: Prepared | None = None) -> Fitted:
    """Begin a run and train it to its end; `ready`: a corpus that another run has made ready, to be copied."""
    say = report or _say
    return _trained(Run.begin(document, say, ready), say)


def resume(folder: Path, words: Sequence[str] = (), report: Callable[[str], None] | None = None) -> Fitted:
    """Go on with a run from its newest whole checkpoint; `words` change the run from here on."""
    run = Run.open(folder)
    changed = run.changed(read(folder / RUN).changed(words)) if words else run
    return _trained(changed, report or _say, changed=bool(words))


def _trained(run: Run, say: Callable[[str], None], changed: bool = False) -> Fitted:
    with run.lock(), give_way():
        listeners: list[Listener] = [Journal(run.folder / "metrics.jsonl"), Screen()]
        if Board.available():
            listeners.append(Board(run.folder / "tensorboard"))
        prepared = run.prepared()
        trainer = run.trainer(prepared, listeners)
        store = trainer.store
        assert store is not None
        store.warn = say
        if strays := store.clear():
            say(f"{strays} half-written checkpoints of a killed process were cleared")
        newest = store.latest()
        run.must_have(prepared)
        if newest is None and store.numbered():
            raise CheckpointError(f"{store.folder}: none of its checkpoints is whole", "train again with out=ANOTHER")
        if newest is not None:
            run.must_continue(newest, prepared)
            trainer.restore(newest)
        if changed:  # nothing has refused it, so from here on it is so
            with reported(run.folder, 0):
                run.write()
        return Fitted(run.folder, trainer.run())


def _say(line: str) -> None:
    print(line, file=sys.stderr)
