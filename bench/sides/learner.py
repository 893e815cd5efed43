"""Ours, learning: the trainer that `regard train` runs, with a clock beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from bench.harness import Missing, serve
from bench.sides.ours import behave
from bench.sides.work import gauge, rate, tell_in_turn
from regard.core.grid import Grid
from regard.core.mixer import MixerSpec
from regard.core.state import State
from regard.core.view import View
from regard.host.machine import keep_memory
from regard.mixers.attention import Attention
from regard.mixers.mamba import Mamba
from regard.runs.folder import Run
from regard.tasks.translation import TranslationTaskSpec, sum_losses
from regard.train.listener import Listener, Step
from regard.train.moment import Moment
from regard.train.trainer import Trainer

WARMUP = 5  # steps that don't count


class Clock(Listener):
    """Tokens and seconds between the warm-up and now."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None
        self.last = (0, 0.0)

    def on_step(self, step: Step, moment: Moment) -> None:
        self.last = step.tokens, time.perf_counter()
        if step.step == WARMUP:
            self.first = self.last

    @property
    def speed(self) -> float:
        if self.first is None or self.last == self.first:
            raise Missing("too few steps to measure; try --seconds 30")
        return (self.last[0] - self.first[0]) / (self.last[1] - self.first[1])


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Predicted tokens a second; the run's own budget ends it."""
    torch.set_num_threads(settings["threads"])
    keep_memory()
    run = Run.open(Path(settings["run"]))

    def measure() -> float:
        clock = Clock()
        run.trainer([clock]).run()
        return clock.speed

    return behave(measure, settings)


class Finished(Exception):
    """All points were passed."""


class Milestones(Listener):
    """The validation loss whenever so many tokens have been predicted."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.ahead = list(settings["points"])
        sides = (Path(path).read_text(encoding="utf-8").splitlines() for path in settings["validation"])
        self.pairs = list(zip(*sides, strict=True))
        self.losses: list[float] = []

    def attend(self, trainer: Trainer) -> None:
        self.trainer, trainer.listeners = trainer, [self]

    def on_step(self, step: Step, moment: Moment) -> None:
        while self.ahead and step.tokens >= self.ahead[0]:
            del self.ahead[0]
            self.losses.append(self.measure())
        if not self.ahead:
            raise Finished  # nothing of it is kept

    def measure(self) -> float:
        """Nats a target token, without smoothing, in single precision."""
        model, task = self.trainer.model.eval(), self.trainer.task  # each step turns training on again
        assert isinstance(task.spec, TranslationTaskSpec)
        sums, counts = sum_losses(model, task.spec.pipeline(model, task.lexicon), self.pairs, lambda: None)
        return sum(sums) / sum(counts)


def learn(settings: Mapping[str, Any]) -> Callable[[], float]:
    """The validation loss after so many target tokens, one point after the other; the run says how it learns."""
    torch.set_num_threads(settings["threads"])
    keep_memory()
    run = Run.open(Path(settings["run"]))

    def train_once() -> list[float]:
        milestones = Milestones(settings)
        trainer = run.trainer()
        milestones.attend(trainer)
        with suppress(Finished):
            trainer.run()
        return milestones.losses

    return tell_in_turn(train_once)


def scan(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second through Mamba's mixer and back: the whole sequence at once, or position by position."""
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    keep_memory()
    mixer = Mamba().build(settings["width"])
    x = torch.randn(settings["batch"], settings["time"], settings["width"], requires_grad=True)

    def learn() -> int:
        if settings["whole"]:
            mixer(x, View.of(x)).sum().backward()
        else:
            state = mixer.start(len(x), View.of(x))
            outputs = [mixer(at, View.of(at, state=state), state) for at in x.split(1, 1)]
            torch.cat(outputs, 1).sum().backward()
        return x[..., 0].numel()

    return rate(learn, settings)


def paint(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Pictures a second through a mixer of planes: whole, or pixel by pixel."""
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    keep_memory()
    grid = Grid(settings["side"], settings["side"])
    mixer = MixerSpec.parse({"kind": settings["kind"]}).lie_on(grid).build(settings["width"]).eval()
    x = torch.randn(settings["batch"], settings["side"] ** 2, settings["width"])

    def look(part: torch.Tensor, state: State | None = None) -> View:
        view = View.of(part, state=state)
        view.grid = grid
        return view

    @torch.no_grad()
    def see() -> int:
        if settings["whole"]:
            mixer(x, look(x))
        else:
            state = mixer.start(len(x), look(x[:, :0]))
            for at in x.split(1, 1):
                mixer(at, look(at, state), state)
        return len(x)

    return rate(see, settings)


def remember(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Megabytes at most that attention takes, forward and backward, above what it is given."""
    torch.set_num_threads(settings["threads"])
    mixer = Attention(heads=settings["heads"], causal=True).build(settings["width"])
    x = torch.randn(1, settings["time"], settings["width"], requires_grad=True)
    return gauge("memory", lambda: mixer(x, View.of(x)).sum().backward())


def slide(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Milliseconds or megabytes of attention within a window, forward and backward."""
    torch.set_num_threads(settings["threads"])
    mixer = Attention(heads=settings["heads"], causal=True, window=settings["window"]).build(settings["width"])
    x = torch.randn(1, settings["time"], settings["width"], requires_grad=True)
    return gauge(settings["what"], lambda: mixer(x, View.of(x)).sum().backward())


if __name__ == "__main__":
    jobs = {"train": train, "learn": learn, "scan": scan, "paint": paint, "remember": remember, "slide": slide}
    serve(jobs, "torch")
