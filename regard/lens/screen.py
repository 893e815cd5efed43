"""What a person sees of a run: on a terminal one live line and a row for each evaluation, elsewhere plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from regard.host.machine import BUSY, Load, peak_memory
from regard.train.listener import Listener, Step
from regard.train.moment import Moment
from regard.train.spec import TrainSpec

PLAIN = 15.0  # seconds between lines where nothing can be drawn over
SMOOTH = 0.95


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
        if self.console.is_terminal:
            self.live = Live(Text(""), console=self.console, transient=True, auto_refresh=False)
            self.live.start()

    def on_step(self, step: Step, moment: Moment) -> None:
        self.loss = step.loss if self.loss is None else SMOOTH * self.loss + (1 - SMOOTH) * step.loss
        now = time.monotonic()
        if now - self.told < (0.2 if self.live else PLAIN) and step.step > 1:
            return
        self.told = now
        line = self.line(step, moment)
        if self.live:
            self.live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self.console.print(line, soft_wrap=True)

    def line(self, step: Step, moment: Moment) -> str:
        """What matters most first: a narrow terminal cuts the rest off."""
        progress = moment.progress(self.spec)
        speed = (moment.tokens - self.first) / max(moment.seconds - self.resumed, 1e-9)
        left = moment.seconds * (1 - progress) / progress if progress else 0.0
        others = self.load.look()
        costs = "".join(f"  {name} {value:.2f}" for name, value in step.costs.items())
        beside = f" (busy: others use {others:.1f} cores)" if others >= BUSY else ""
        return (
            f"step {step.step:,}  loss {self.loss:.3f}  {progress:.0%}  {clock(left)} left  "
            f"{speed:,.0f} tokens/s{beside}  rate {step.rate:.2e}  gradient {step.gradient:.2f}{costs}  "
            f"{peak_memory() / 2**20:,.0f} MB"
        )

    def on_evaluation_start(self, moment: Moment) -> None:
        if self.live:
            self.live.update(Text(f"step {moment.step:,}  evaluating …"), refresh=True)

    def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
        floats = {name: value for name, value in measures.items() if isinstance(value, float)}
        shown = {name: value for name, value in floats.items() if not name.endswith(("_low", "_high"))}
        if not self.header:
            self.console.print("".join(f"{name:>15}" for name in ("step", "time", *shown)), soft_wrap=True)
            self.header = True
        cells = [f"{moment.step:,}", clock(moment.seconds), *(f"{value:.4g}" for value in shown.values())]
        self.console.print("".join(f"{cell:>15}" for cell in cells) + ("  best" if best else ""), soft_wrap=True)

    def on_end(self, moment: Moment) -> None:
        if self.live:
            self.live.stop()
            self.live = None


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03` when it is less than an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
