"""Proof that a run can be resumed to the bit: it is trained twice, once with a break, and everything is compared."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.data.prepared import Prepared
from regard.host.meter import SILENT, Advance, Meter
from regard.runs.folder import Run
from regard.train.checkpoint import Checkpoint, Store
from regard.train.listener import Listener, Step
from regard.train.moment import Moment
from regard.train.trainer import Trainer


@dataclass
class Proof:
    """Digests of both trainings, side by side."""

    steps: int
    straight: dict[str, str]
    resumed: dict[str, str]

    @property
    def exact(self) -> bool:
        return self.straight == self.resumed


class Losses(Listener):
    """Every loss, to the last bit."""

    def __init__(self, advance: Advance) -> None:
        self.found: list[str] = []
        self.advance = advance

    def on_step(self, step: Step, moment: Moment) -> None:
        self.found.append(f"{step.step} {step.loss.hex()} {step.gradient.hex()}")
        self.advance()


def verify(folder: Path, steps: int = 20, meter: Meter = SILENT) -> Proof:
    """Train so many steps of a run's own settings straight, and again with a break in the middle."""
    run = Run.open(folder)
    prepared = run.prepared()
    with (
        tempfile.TemporaryDirectory(prefix="regard-verify-") as place,
        meter.watch("verifying, steps", 2 * steps) as advance,
    ):
        losses = Losses(advance), Losses(advance)
        straight = _digests(*_train(run, prepared, Store(Path(place) / "straight"), [steps], losses[0]))
        stops = [max(1, steps // 2), steps]
        resumed = _digests(*_train(run, prepared, Store(Path(place) / "resumed"), stops, losses[1]))
    return Proof(steps, straight, resumed)


def _train(
    run: Run, prepared: Prepared, store: Store, stops: list[int], losses: Losses
) -> tuple[Checkpoint, list[str]]:
    """Train to each stop in turn, every time from what the last one left on disk and from nothing else."""
    for stop in stops:
        # the budget is the last stop's, so that the schedule is the same; the break comes by other means
        budget = {"steps": stops[-1], "epochs": None, "tokens": None, "minutes": None, "patience": 0}
        settings = run.spec.train.replace(**budget, evaluate=0, save=stop)
        spec = run.spec.replace(train=settings)
        trainer = Run(run.folder, spec, prepared).trainer([losses])
        trainer.archive.store = store
        torch.manual_seed(stop)  # whatever chance there is must come from the checkpoint
        newest = store.latest()
        if newest is None:
            torch.manual_seed(spec.seed)
        else:
            trainer.restore(newest)
        _until(trainer, stop)
    newest = store.latest()
    assert newest is not None
    return newest, losses.found


def _until(trainer: Trainer, stop: int) -> None:
    """Train up to a step that may come before the end of the budget."""
    whole = trainer.spec
    assert whole.steps is not None
    if stop == whole.steps:
        trainer.run()
        return

    class Break(Listener):
        def on_save(self, path: Path) -> None:
            raise Broken

    trainer.listeners = [*trainer.listeners, Break()]
    try:
        trainer.run()
    except Broken:
        return


class Broken(Exception):
    """The break in the middle."""


def _digests(checkpoint: Checkpoint, losses: list[str]) -> dict[str, str]:
    names = [path.stem for path in sorted(checkpoint.path.glob("*.safetensors"))]
    found = {name: _digest(checkpoint.tensors(name)) for name in names}
    return found | {"losses": hashlib.sha256("\n".join(losses).encode()).hexdigest()}


def _digest(tensors: Mapping[str, Tensor]) -> str:
    hashed = hashlib.sha256()
    for name in sorted(tensors):
        hashed.update(name.encode())
        hashed.update(tensors[name].contiguous().numpy().tobytes())
    return hashed.hexdigest()
