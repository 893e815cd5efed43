"""A program that trains straight, and again with a kill in the middle, and reports both: run by the trainer's tests.

`python -m tests.train.resuming FOLDER MODEL`. Children are forked, so that each costs milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

from regard.data.prepared import Prepared
from regard.runs.folder import Run
from regard.train.listener import Listener, Step, history
from regard.train.moment import Moment
from tests.train.killing import forked
from tests.train.small import begun, document, trainer

WORDS = ["train.steps=200", "train.accumulate=2", "train.save=100", "train.evaluate=70", "train.ema=0.9"]


class Killer(Listener):
    """Dies without a word at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, step: Step, moment: Moment) -> None:
        if step.step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def left(run: Run) -> dict[str, Any]:
    """What a training left: digests of all tensors, and every loss to the bit."""
    newest = run.store.latest()
    assert newest is not None
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in newest.path.glob("*.safetensors")}
    lines = history(run.folder / "metrics.jsonl")
    losses = [(line["step"], line["event"], line["loss"]) for line in lines]
    moment = newest.json("state")["moment"]
    for name in ("seconds", "clock", "assessment", "worked", "waited"):
        del moment[name]  # by the clock
    del moment["warm"]["clock"]
    return {"step": newest.step, "files": files, "losses": losses, "moment": moment}


def both(folder: Path, model: str) -> dict[str, Any]:
    """Train 200 steps; train until killed at 137, then go on from the checkpoint of step 100."""
    straight = begun(folder / "straight", *WORDS, model=model)
    ready = Prepared.load(straight.folder / "data")
    broken = Run.begin(document(folder / "broken", *WORDS, model=model), ready=ready)
    os.waitpid(forked(lambda: finish(straight)), 0)
    _, status = os.waitpid(forked(lambda: finish(broken, Killer(137))), 0)
    half = left(broken)
    os.waitpid(forked(lambda: finish(broken)), 0)
    killed = os.WIFSIGNALED(status)
    return {"killed": killed, "half": half, "straight": left(straight), "resumed": left(broken)}


def finish(run: Run, *listeners: Listener) -> None:
    torch.manual_seed(os.getpid())
    trainer(run, *listeners).run()


def twice(folder: Path) -> int:
    """The exit status of a training that hears a second signal before it could finish the step."""

    class Impatient(Listener):
        def on_evaluation_start(self, moment: Moment) -> None:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)

    run = begun(folder / "twice")
    _, status = os.waitpid(forked(lambda: finish(run, Impatient())), 0)
    Run.open(run.folder).store.latest()
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    print(json.dumps({"status": twice(place)} if sys.argv[2] == "twice" else both(place, sys.argv[2])))
