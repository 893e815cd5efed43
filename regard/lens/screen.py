"""What a person sees of a run: on a terminal one live line and a row for each evaluation, elsewhere plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from regard.host.machine import BUSY, Load, peak_memory
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

if TYPE_CHECKING:
    from regard.train.spec import TrainSpec

PLAIN = 15.0  # seconds between lines where nothing can be drawn over
SMOOTH = 0.95
STARVED = 0.03  # the share of time spent waiting for batches from which on it is told
STEP = ("step", "loss", "rate", "gradient", "tokens", "seconds", "tokens_per_second")  # what every entry of one has


class Screen(Listener):
    """Progress on standard error, since standard output is for results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr, highlight=False)
        self.live: Live | None = None
        self.loss: float | None = None
        self.told = 0.0
        self.header = False
        self.load = Load()

    def say(self, line: str) -> None:
        """Tell something that isn't progress, such as what was read."""
        self.console.print(line, soft_wrap=True, markup=False)

    def on_start(self, moment: Moment, spec: TrainSpec) -> None:
        self.spec, self.first = spec, moment.tokens
        self.resumed = moment.seconds
        self.told = time.monotonic()
        if moment.step:
            self.console.print(f"going on from step {moment.step:,}")
        self._go_live()

    def _go_live(self) -> None:
        if self.console.is_terminal:
            self.live = Live(Text(""), console=self.console, transient=True, auto_refresh=False)
            self.live.start()

    def on_preparation(self, done: int) -> None:
        now = time.monotonic()
        if now - self.told >= (0.2 if self.live else PLAIN):
            self.told = now
            self.draw(f"asking the model as the run began: {done:,} batches")

    def on_step(self, step: Step, moment: Moment) -> None:
        self.loss = step.loss if self.loss is None else SMOOTH * self.loss + (1 - SMOOTH) * step.loss
        now = time.monotonic()
        if now - self.told < (0.2 if self.live else PLAIN) and step.step > 1:
            return
        self.told = now
        line = self.line(step, moment)
        self.draw(line)

    def draw(self, line: str) -> None:
        """Show how far it is: over the line before, where that can be done."""
        if self.live:
            self.live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self.console.print(line, soft_wrap=True)

    def line(self, step: Step, moment: Moment) -> str:
        """What matters most first: a narrow terminal cuts the rest off."""
        speed = (moment.tokens - self.first) / max(moment.seconds - self.resumed, 1e-9)
        others = self.load.look()
        beside = f" (busy: others use {others:.1f} cores)" if others >= BUSY else ""
        told = self.describe(step, moment.progress(self.spec), f"{speed:,.0f} {step.counted}/s{beside}")
        waits = f"  {step.waiting:.0%} waiting for batches" if step.waiting >= STARVED else ""
        return f"{told}{waits}  {peak_memory() / 2**20:,.0f} MB"

    def describe(self, step: Step, progress: float, speed: str) -> str:
        """A step, for whoever watches it."""
        left = step.seconds * (1 - progress) / progress if progress else 0.0
        costs = "".join(f"  {name} {value:.2f}" for name, value in step.costs.items())
        return (
            f"step {step.step:,}  loss {self.loss:.3f}  {progress:.0%}  {clock(left)} left  "
            f"{speed}  rate {step.rate:.2e}  gradient {step.gradient:.2f}{costs}"
        )

    def on_evaluation_start(self, moment: Moment) -> None:
        if self.live:
            self.live.update(Text(f"step {moment.step:,}  evaluating …"), refresh=True)

    def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
        floats = {name: value for name, value in measures.items() if isinstance(value, float)}
        shown = {name: value for name, value in floats.items() if not name.endswith(("_low", "_high"))}
        if not self.header:
            self.console.print("".join(f"{name:>{width(name)}}" for name in ("step", "time", *shown)), soft_wrap=True)
            self.header = True
        cells = {"step": f"{moment.step:,}", "time": clock(moment.seconds)}
        cells |= {name: fit_number(value, width(name) - 1) for name, value in shown.items()}
        row = "".join(f"{cell:>{width(name)}}" for name, cell in cells.items())
        self.console.print(row + ("  best" if best else ""), soft_wrap=True)

    def on_end(self, moment: Moment) -> None:
        self._end()

    def _end(self) -> None:
        if self.live:
            self.live.stop()
            self.live = None


class Replay(Screen):
    """The same of a run that another process trains, as its journal tells it."""

    entry: Mapping[str, Any] | None = None  # the last step, until it is shown

    def __enter__(self) -> Self:
        self._go_live()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def hear(self, entry: Mapping[str, Any]) -> None:
        """One entry: an evaluation is a row; a step waits until it is to be shown, since thousands may come at once."""
        if entry["event"] == "step":
            self.entry = entry
            loss = float(entry["loss"])
            self.loss = loss if self.loss is None else SMOOTH * self.loss + (1 - SMOOTH) * loss
        elif entry["event"] == "evaluation":
            measures = {name: value for name, value in entry.items() if name not in ("seconds", "best")}
            self.on_evaluation(Moment(step=entry["step"], seconds=entry["seconds"]), measures, bool(entry["best"]))

    def show_step(self) -> None:
        """The step that was heard of last."""
        if self.entry is not None:
            told = {name: self.entry[name] for name in ("waiting", "costs", "counted") if name in self.entry}
            step = Step(**{name: self.entry[name] for name in STEP}, **told)
            speed = f"{step.tokens / max(step.seconds, 1e-9):,.0f} {step.counted}/s"
            self.draw(self.describe(step, float(self.entry.get("progress", 0.0)), speed))
            self.entry = None


def fit_number(value: float, room: int) -> str:
    """A number with four digits, or with fewer where that wouldn't leave a space before it: 8.396e-11."""
    return next((text for digits in (4, 3, 2) if len(text := f"{value:.{digits}g}") <= room), f"{value:.0e}")


def width(name: str) -> int:
    """Of a column: the tables of most tasks fit 80 letters."""
    return max(len(name) + 2, 9)


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03` when it is less than an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
