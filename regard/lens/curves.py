"""Curves of runs as numbers: a journal of any length, thinned to as many points as a screen can show.

Nothing is thinned in silence. A point stands for a stretch of steps: the mean of what was logged there, with the lowest
and the highest, and how many steps that were. Evaluations are kept one by one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

History = Sequence[Mapping[str, Any]]
Numbers = list[float | None]  # None: nothing was told, or it wasn't finite

LARGEST = sys.float_info.max
POINTS = 500  # of a curve: a picture is hardly wider in dots
LOGGED = ("loss", "rate", "gradient")  # of a step, beside its speed and its costs
TOLD = ("event", "step", "seconds", "best", "peak_memory")  # of an evaluation, beside what it measured


@dataclass
class Course:
    """Where points stand: after so many steps, predicted tokens and minutes."""

    step: list[int] = field(default_factory=list)
    tokens: Numbers = field(default_factory=list)
    minutes: Numbers = field(default_factory=list)


@dataclass
class Curve:
    """One quantity, point by point; the bounds are of the steps of a point, or of an interval."""

    value: Numbers = field(default_factory=list)
    low: Numbers = field(default_factory=list)
    high: Numbers = field(default_factory=list)

    def as_json(self) -> dict[str, Numbers]:
        """The same without bounds that say nothing."""
        bounds = {"low": self.low, "high": self.high}
        told = {name: _round(values) for name, values in bounds.items() if any(one is not None for one in values)}
        same = all(values == _round(self.value) for values in told.values())
        return {"value": _round(self.value)} | ({} if same else told)


@dataclass
class Curves:
    """What a run's journal tells, as curves."""

    logged: Course = field(default_factory=Course)
    series: dict[str, Curve] = field(default_factory=dict)  # loss, rate, gradient, tokens_per_second, costs by name
    steps: int = 1  # that a point stands for; the last may stand for fewer
    speed: float | None = None  # tokens a second, over all steps
    evaluated: Course = field(default_factory=Course)
    measures: dict[str, Curve] = field(default_factory=dict)  # of evaluations
    best: list[bool] = field(default_factory=list)  # which of them were better than all before
    counts: list[dict[str, int]] = field(default_factory=list)  # what else each told: sentences, predictions, …

    def as_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "logged": _plain(self.logged),
            "series": {name: one.as_json() for name, one in self.series.items()},
            "evaluated": _plain(self.evaluated),
            "measures": {name: one.as_json() for name, one in self.measures.items()},
            "best": self.best,
        }


def read_curves(history: History, points: int = POINTS) -> Curves:
    """The curves of a journal. What isn't a number is left out; a step that came twice counts as it was last."""
    steps = _sort(history, "step")
    found = Curves(steps=max(1, math.ceil(len(steps) / points)))
    groups = [steps[first : first + found.steps] for first in range(0, len(steps), found.steps)]
    costs = dict.fromkeys(name for entry in steps for name in _read_costs(entry))
    for group in groups:
        last = group[-1]
        found.logged.step.append(last["step"])
        found.logged.tokens.append(_read(last, "tokens"))
        found.logged.minutes.append(_read_minutes(last))
    for name in LOGGED:
        found.series[name] = _summarise([[_read(entry, name) for entry in group] for group in groups])
    found.series["tokens_per_second"] = _measure_speed(groups)
    found.speed = _measure_speed([steps]).value[0]
    for name in costs:
        found.series[f"costs.{name}"] = _summarise([[_read_costs(entry).get(name) for entry in one] for one in groups])
    found.series = {name: one for name, one in found.series.items() if any(value is not None for value in one.value)}
    _add_evaluations(found, _sort(history, "evaluation"), steps)
    return found


def _add_evaluations(curves: Curves, evaluations: History, steps: History) -> None:
    """Put evaluations beside what was logged; which tokens had been predicted by then, the steps know."""
    tokens = {entry["step"]: _read(entry, "tokens") for entry in steps}
    names = dict.fromkeys(name for entry in evaluations for name in list_measures(entry))
    for entry in evaluations:
        curves.evaluated.step.append(entry["step"])
        curves.evaluated.tokens.append(tokens.get(entry["step"]))
        curves.evaluated.minutes.append(_read_minutes(entry))
        curves.best.append(entry.get("best") is True)
        curves.counts.append({name: value for name, value in entry.items() if _is_count(name, value)})
    for name in names:
        sides = [[_read(entry, f"{name}{end}") for entry in evaluations] for end in ("", "_low", "_high")]
        curves.measures[name] = Curve(*sides)


def list_measures(entry: Mapping[str, Any]) -> list[str]:
    """What an evaluation measured: its fractions. Whole numbers only count what was measured on."""
    named = (name for name, value in entry.items() if name not in TOLD and type(value) is float)
    return [name for name in named if not name.endswith(("_low", "_high"))]


def find_peak_memory(history: History) -> int | None:
    """The most bytes that the processes which trained a run held at once; earlier versions didn't tell."""
    told = [entry["peak_memory"] for entry in history if type(entry.get("peak_memory")) is int]
    return max(told, default=None)


def _is_count(name: str, value: object) -> bool:
    return name not in TOLD and type(value) is int


def _sort(history: History, event: str) -> list[Mapping[str, Any]]:
    """The entries of one event by their steps, as far as these are numbers of steps."""
    lines = (line for line in history if line["event"] == event and 0 <= line["step"] < 2**53)
    return [entry for _, entry in sorted({line["step"]: line for line in lines}.items())]


def _summarise(groups: Iterable[Sequence[float | None]]) -> Curve:
    """The mean of each group, and its bounds."""
    found = Curve()
    for group in groups:
        values = [value for value in group if value is not None]
        found.value.append(sum(values) / len(values) if values else None)
        found.low.append(min(values, default=None))
        found.high.append(max(values, default=None))
    return found


def _measure_speed(groups: Sequence[Sequence[Mapping[str, Any]]]) -> Curve:
    """Tokens a second: those of each point's steps over the time that these steps took, evaluations left out."""
    found, before = Curve(), {"step": 0, "tokens": 0}
    for group in groups:
        tokens, seconds, speeds = 0.0, 0.0, list[float]()
        for entry in group:
            speed, now, then = _read(entry, "tokens_per_second"), _read(entry, "tokens"), _read(before, "tokens")
            if speed is not None and speed > 0:
                # behind a line that can't be read, nobody knows how many tokens a step had: it counts as one
                known = now is not None and then is not None and entry["step"] == before["step"] + 1
                size = now - then if known and now is not None and then is not None else 1.0
                tokens, seconds = tokens + size, seconds + size / speed
                speeds.append(speed)
            before = dict(entry)
        found.value.append(tokens / seconds if seconds > 0 else None)
        found.low.append(min(speeds, default=None))
        found.high.append(max(speeds, default=None))
    return found


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number, and no larger than a float can be."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def _read(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    return value if is_number(value) else None


def _read_minutes(entry: Mapping[str, Any]) -> float | None:
    seconds = _read(entry, "seconds")
    return None if seconds is None else seconds / 60


def _read_costs(entry: Mapping[str, Any]) -> dict[str, float]:
    costs = entry.get("costs")
    return {name: one for name, one in costs.items() if is_number(one)} if isinstance(costs, Mapping) else {}


def _round(values: Numbers) -> Numbers:
    """Six digits, which is more than anybody can see."""
    return [None if value is None else value if type(value) is int else float(f"{value:.6g}") for value in values]


def _plain(course: Course) -> dict[str, Any]:
    return {"step": course.step, "tokens": course.tokens, "minutes": _round(course.minutes)}
