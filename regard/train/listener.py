"""Who hears of a run: the journal that is its source of truth, the screen, TensorBoard. Nothing else prints or logs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import DataError
from regard.host.files import aside
from regard.host.machine import peak_memory

if TYPE_CHECKING:
    from regard.train.moment import Moment
    from regard.train.spec import TrainSpec


TOKENS = "tokens"


@dataclass
class Step:
    """One step of training."""

    step: int
    loss: float  # with smoothing, a mean over the tokens
    rate: float
    gradient: float  # its norm before clipping
    tokens: int  # so far
    seconds: float
    tokens_per_second: float
    costs: Mapping[str, float] = field(
        default_factory=dict
    )  # what the model's parts and the task reported, by name, unweighted
    waiting: float = 0.0  # the share of the time of all steps so far in which they waited for batches
    counted: str = TOKENS  # what `tokens` are, where a task predicts something else


class Listener:
    """Hears what happens; what it doesn't care for, it leaves as it is."""

    def on_start(self, moment: Moment, spec: TrainSpec) -> None: ...

    def on_preparation(self, done: int) -> None:
        """The task asks the model as the run began, before the first step; so many batches are done."""

    def on_step(self, step: Step, moment: Moment) -> None: ...

    def on_evaluation_start(self, moment: Moment) -> None: ...

    def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None: ...

    def on_save(self, path: Path) -> None: ...

    def on_finish(self, moment: Moment, reason: str) -> None:
        """The run has come to its own end, by its budget or its patience; nothing stopped it."""

    def on_end(self, moment: Moment) -> None: ...


class Journal(Listener):
    """`metrics.jsonl`: one object a line, every step and every evaluation, once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(self, moment: Moment, spec: TrainSpec) -> None:
        """Forget what came after the checkpoint that a run goes on from: it will come again."""
        text = self.path.read_bytes() if self.path.exists() else b""
        # a step may be saved before it is evaluated; and a run that goes on isn't at its end
        last = {"evaluation": moment.evaluated, "end": -1}
        self.spec = spec

        def comes_again(line: bytes) -> bool:
            entry = read_entry(line)
            return entry is not None and entry["step"] > last.get(entry["event"], moment.step)

        kept = [line + b"\n" for line in text.split(b"\n")[:-1] if not comes_again(line)]
        beside = aside(self.path)
        beside.write_bytes(b"".join(kept))
        os.replace(beside, self.path)
        self.file = self.path.open("a", buffering=1)

    def on_step(self, step: Step, moment: Moment) -> None:
        told = {name: value for name, value in asdict(step).items() if name != "costs" or value}
        if step.counted == TOKENS:
            del told["counted"]
        told["waiting"] = round(step.waiting, 6)
        told["progress"] = round(moment.progress(self.spec), 6)  # of its budget, which whoever follows can't know
        self.file.write(json.dumps({"event": "step"} | told) + "\n")

    def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
        told = {"event": "evaluation", "step": moment.step, "seconds": moment.seconds, "best": best}
        told |= {"peak_memory": peak_memory(), **measures}
        self.file.write(json.dumps(told) + "\n")

    def on_finish(self, moment: Moment, reason: str) -> None:
        told = {"event": "end", "step": moment.step, "seconds": moment.seconds, "reason": reason}
        told |= {"peak_memory": peak_memory()}
        self.file.write(json.dumps(told) + "\n")

    def on_end(self, moment: Moment) -> None:
        self.file.close()


def history(path: Path) -> list[dict[str, Any]]:
    """The steps and evaluations of a journal. What can't be read is left out: a log must not stop those who use it."""
    return [entry for entry in read_journal(path) if entry["event"] != "end"]


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The same with the end, if a run came to it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "a run folder that was trained") from None
    entries = (read_entry(line) for line in content.split(b"\n"))
    return [entry for entry in entries if entry is not None]


def read_entry(line: bytes) -> dict[str, Any] | None:
    """What a line of a journal tells; None for a line that a crash or a disk has damaged."""
    try:
        entry = json.loads(line)
        return entry if type(entry["step"]) is int and isinstance(entry["event"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Board(Listener):
    """TensorBoard's event files, where it is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def available() -> bool:
        from importlib.util import find_spec

        return find_spec("tensorboard") is not None

    def on_start(self, moment: Moment, spec: TrainSpec) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder), purge_step=moment.step + 1 if moment.step else None)

    def on_step(self, step: Step, moment: Moment) -> None:
        for name in ("loss", "rate", "gradient", "tokens_per_second"):
            self.writer.add_scalar(f"train/{name}", vars(step)[name], step.step)
        for name, value in step.costs.items():
            self.writer.add_scalar(f"costs/{name}", value, step.step)

    def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
        for name, value in measures.items():
            if isinstance(value, int | float):
                self.writer.add_scalar(f"validation/{name}", value, moment.step)

    def on_end(self, moment: Moment) -> None:
        self.writer.close()
