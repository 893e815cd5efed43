"""The goal: the measure that says which checkpoint is best, and the ranking by it.

A task has a usual one. A run file may name another (`train.goal: chrf`); whether more of it is better is known by the
task that reports it. Of a measure that a task doesn't declare, a sign says so: `-error` falls, `+score` rises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.core.hint import nearest
from regard.errors import SpecError
from regard.train.moment import Moment
from regard.train.spec import TrainSpec


@dataclass(frozen=True)
class Goal:
    """A measure, and whether more of it is better."""

    measure: str
    rising: bool

    @classmethod
    def choose(cls, words: str, measures: Mapping[str, bool]) -> Goal:
        """What a run file names, among the measures that a task declares."""
        name, sign = words.lstrip("+-"), words[:1] if words[:1] in ("+", "-") else ""
        if name not in measures and measures:
            near, listed = nearest(name, sorted(measures)), ", ".join(measures)
            raise SpecError(
                f"train.goal: no measure of this task is called {name!r}; known: {listed}",
                f"train.goal={near}" if near else "",
            )
        if name not in measures and not sign:
            raise SpecError(
                f"train.goal: this task doesn't declare its measures, so a sign must say which way {name!r} is better",
                f"train.goal=-{name} where less is better, train.goal=+{name} where more is",
            )
        rising = measures.get(name, sign == "+")
        if sign and rising != (sign == "+"):
            better = "more" if rising else "less"
            raise SpecError(f"train.goal: {words}, and {better} {name} is better", f"train.goal={name}")
        return cls(name, rising)

    def read(self, measures: Mapping[str, Any]) -> float:
        """Its value among an evaluation's measures."""
        value = measures.get(self.measure)
        if not isinstance(value, int | float):
            numbers = [name for name, found in measures.items() if isinstance(found, int | float)]
            listed = ", ".join(numbers) or "no numbers"
            raise SpecError(f"train.goal: there is no {self.measure!r} among what was measured: {listed}")
        return float(value)

    def rank(self, moment: Moment, value: float, spec: TrainSpec) -> bool:
        """Put a measure in its place; whether it is the best so far. One that isn't finite says nothing good."""
        sign, finite = -1 if self.rising else 1, math.isfinite(value)
        better = finite and (not moment.ranking or sign * value < sign * moment.ranking[0][0])
        moment.stale = 0 if better else moment.stale + 1
        if spec.schedule.waits and moment.stale and moment.stale % spec.schedule.waits == 0:
            moment.falls += 1
        entered = [*moment.ranking, (value, moment.step)] if finite else moment.ranking
        moment.ranking = sorted(entered, key=lambda pair: (sign * pair[0], pair[1]))[: spec.best]
        moment.goal = self.measure
        return better

    def resume(self, moment: Moment, usual: str) -> None:
        """Insist that a ranking that is there was made by this measure; `usual`: what earlier versions ranked by."""
        before = moment.goal or usual
        if before == self.measure:
            return
        if moment.ranking:
            raise SpecError(
                f"train.goal: {self.measure}, and the checkpoints of this run are ranked by {before}",
                f"train.goal={before}, or another run that begins from this one: start=RUN out=ANOTHER",
            )
        moment.stale = 0  # nothing was ranked, so nothing is mixed
