"""Ours, learning: the trainer that `regard train` runs, with a clock beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from bench.harness import Missing, serve
from bench.sides.ours import behave
from bench.sides.work import gauge, rate
from regard.core.grid import Grid
from regard.core.mixer import MixerSpec
from regard.core.state import State
from regard.core.view import View
from regard.host.machine import keep_memory
from regard.mixers.attention import Attention
from regard.mixers.mamba import Mamba
from regard.runs.folder import Run
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

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
    serve({"train": train, "scan": scan, "paint": paint, "remember": remember, "slide": slide}, "torch")
