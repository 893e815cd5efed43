"""A sweep: one recipe with many settings, ranked by what each reached on validation data.

Every combination of the values, or so many of them by chance, one after the other. Test data is for the one that was
chosen, so nothing is ranked on it. A setting that makes training diverge is a row that says so.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from regard.config import Document, assignments, spell_word
from regard.core.spec import show_value
from regard.data.prepared import Prepared
from regard.errors import InputError, RegardError, SpecError
from regard.host.meter import SILENT, Meter
from regard.runs.assembly import Assembly
from regard.runs.budget import Budget
from regard.runs.campaign import Campaign, name_data, read_divergence, spell_out
from regard.runs.folder import Run
from regard.runs.resolve import RUN
from regard.runs.spec import RunSpec
from regard.runs.standing import Standing, choose_goal, insist_on_validation, read_standing
from regard.runs.uses import load_uses
from regard.tasks.measures import Measure, average
from regard.train.goal import Goal

NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
MOST = 1000  # combinations of a grid
DIGITS = 3  # of a number that chance draws
LONGEST = 80  # letters of a folder's name
Point = Mapping[str, Any]  # values by their settings


@dataclass(frozen=True)
class Axis:
    """One setting that a sweep changes: values, or a range from which chance draws evenly by logarithm."""

    key: str
    values: tuple[Any, ...] = ()
    bounds: tuple[float, float] | None = None
    whole: bool = False  # a range of whole numbers

    @classmethod
    def read(cls, word: str) -> Axis:
        """`model.depth=2,4`, `model.kernels=[3,5],[7,9]` or `train.optimizer.rate=0.0005..0.01`."""
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise SpecError(f"{word!r} is not a setting", "key=value,value as in model.depth=2,4")
        low, dots, high = text.partition("..")
        if dots and all(NUMBER.fullmatch(end) for end in (low, high)):
            if not 0 < float(low) < float(high):
                raise SpecError(
                    f"{word}: a range goes from a number above 0 to a larger one", f"{key}=0.0005..0.01 --random 10"
                )
            return cls(key, (), (float(low), float(high)), low.isdigit() and high.isdigit())
        values = tuple(_read_value(key, part) for part in split_values(text))
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise SpecError(f"{word}: {show_value(twice)} stands there twice", "each value once")
        return cls(key, values)

    def draw(self, chance: Random) -> Any:
        """A value by chance."""
        if self.bounds is None:
            return chance.choice(self.values)
        low, high = self.bounds
        drawn = math.exp(chance.uniform(math.log(low), math.log(high)))
        if self.whole:
            return min(int(high), max(int(low), round(drawn)))
        return float(f"{drawn:.{DIGITS}g}")


def _read_value(key: str, text: str) -> Any:
    """A value as a word of a run file has it."""
    found: Any = assignments([f"{key}={text}"])
    for part in key.split("."):
        found = found[part]
    return found


def split_values(text: str) -> list[str]:
    """The parts between commas, but not those within brackets or quotes."""
    parts, depth, quoted = [""], 0, ""
    for letter in text:
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        depth += (letter in "[{") - (letter in "]}") if not quoted else 0
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def choose_points(axes: Sequence[Axis], count: int | None, seed: int) -> list[Point]:
    """Every combination; or so many by chance, none twice: more of them begin with the same ones."""
    size = math.prod(len(axis.values) for axis in axes if axis.bounds is None)
    ranged = next((axis for axis in axes if axis.bounds is not None), None)
    if count is None:
        if ranged is not None:
            raise SpecError(f"{ranged.key}: a range has no end of values, so chance must draw them", "--random 10")
        if size > MOST:
            raise SpecError(f"{size:,} combinations are more than {MOST:,}", "fewer values, or --random 20")
        return [dict(zip((axis.key for axis in axes), values, strict=True)) for values in product(*_values(axes))]
    if count < 1:
        raise InputError(f"--random {count}: there must be one combination at least", "--random 10")
    chance, found = Random(f"sweep/{seed}"), dict[str, Point]()
    wanted = count if ranged is not None else min(count, size)
    for _ in range(100 * wanted + 100):
        point = {axis.key: axis.draw(chance) for axis in axes}
        found.setdefault(json.dumps(point, sort_keys=True), point)
        if len(found) == wanted:
            return list(found.values())
    if ranged is None:  # what chance has missed of a small grid
        for values in product(*_values(axes)):
            point = {axis.key: value for axis, value in zip(axes, values, strict=True)}
            found.setdefault(json.dumps(point, sort_keys=True), point)
            if len(found) == wanted:
                break
    return list(found.values())


def _values(axes: Sequence[Axis]) -> list[tuple[Any, ...]]:
    return [axis.values for axis in axes]


def name_point(point: Point) -> str:
    """A folder's name: `rate=0.001,depth=2`; a digest stands for what a name can't hold."""
    last = [key.rpartition(".")[2] for key in point]
    keys = [name if last.count(name) == 1 else key for name, key in zip(last, point, strict=True)]
    told = [value if isinstance(value, str) else json.dumps(value) for value in point.values()]
    name = ",".join(f"{key}={value}" for key, value in zip(keys, told, strict=True)) or "recipe"
    plain = re.sub(r"[^\w.,=-]+", "_", name)
    if plain == name and len(plain) <= LONGEST:
        return plain
    return f"{plain[:LONGEST]}-{hashlib.sha256(json.dumps(point).encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class SweepRow:
    """What one combination reached."""

    point: Point
    value: Measure | None  # of the goal, over seeds; None: it diverged
    standings: Sequence[Standing]
    runs: Sequence[str]  # folders, one for each seed
    failure: str = ""  # what was said when it diverged

    def spell(self) -> str:
        """The words that make it, ready for a shell."""
        return " ".join(spell_word(key, value) for key, value in self.point.items())

    def find_run(self, goal: Goal) -> str:
        """The folder of its best run."""
        pairs = zip((standing.measures[goal.measure] for standing in self.standings), self.runs, strict=True)
        return (max if goal.rising else min)(pairs, key=lambda pair: pair[0])[1]


@dataclass
class Sweep:
    """A recipe and what is changed in it."""

    recipe: Document
    axes: Sequence[Axis]
    out: Path
    seeds: int = 1
    budget: Budget | None = None  # in place of the recipe's own
    random: int | None = None
    goal: Goal = field(default_factory=lambda: Goal("loss", False))
    found: int = 0  # runs that had been trained before

    def conduct(self, meter: Meter = SILENT) -> list[SweepRow]:
        """Train every combination that isn't there, and rank all, the best first."""
        load_uses(self.recipe)
        if self.seeds < 1:
            raise InputError(f"--seeds {self.seeds}: there must be one at least", "--seeds 3")
        base = self.recipe.change([spell_out(self.out / "recipe"), *(self.budget.spell() if self.budget else ())])
        seed = base.tree.get("seed", 1)
        points = choose_points(self.axes, self.random, seed if isinstance(seed, int) else 1)
        documents = {name_point(point): _change(base, point) for point in points}
        specs = {
            name: self._parse(document, point)
            for (name, document), point in zip(documents.items(), points, strict=True)
        }
        first = next(iter(specs.values())).seed
        runs = {
            _name_run(name, number): document.change([f"seed={number}", spell_out(self.out / _name_run(name, number))])
            for number in range(first, first + self.seeds)
            for name, document in documents.items()
        }
        with tempfile.TemporaryDirectory(prefix="regard-sweep-") as place:
            ready = self._make_ready(runs, specs, Path(place), meter)
            self._try_models(specs, points, ready)
            campaign = Campaign(runs, ready=ready, lenient=True)
            trained = campaign.conduct(meter)
        self.found = len(campaign.found)
        self.goal = choose_goal(next(iter(trained.values())))
        numbers = range(first, first + self.seeds)
        rows = [
            self._read(point, [trained[_name_run(name, number)] for number in numbers])
            for name, point in zip(documents, points, strict=True)
        ]
        return self.rank(rows)

    def _parse(self, document: Document, point: Point) -> RunSpec:
        """A combination as a run file; its mistakes are told with its words."""
        try:
            return RunSpec.parse(document.tree, document.where)
        except RegardError as error:
            raise _place(error, point) from None

    def _make_ready(
        self, runs: Mapping[str, Document], specs: Mapping[str, RunSpec], place: Path, meter: Meter
    ) -> Prepared:
        """The corpus of the first combination, as an earlier run of this sweep made it ready or made ready now."""
        (name, document), spec = next(iter(runs.items())), next(iter(specs.values()))
        folder = self.out / name
        run: Run | None = Run.open(folder) if (folder / RUN).exists() else None
        settled = spec.replace(corpus=spec.corpus.settle(spec.task.form, Path(spec.data)))
        if run is None or name_data(run.spec) != name_data(settled):
            run = Run.begin(document.change([spell_out(place / "data")]), meter=meter)
        insist_on_validation(run)
        return run.prepared()

    def _try_models(self, specs: Mapping[str, RunSpec], points: Sequence[Point], ready: Prepared) -> None:
        """Draw every model with its tokens, so that what can't be built is told before anything is trained."""
        first = name_data(next(iter(specs.values())))
        for spec, point in zip(specs.values(), points, strict=True):
            if spec.start is None and name_data(spec) == first:
                try:
                    Assembly.make(spec).with_words(ready.lexicon).model.build("meta")
                except RegardError as error:
                    raise _place(error, point) from None

    def _read(self, point: Point, runs: Sequence[Run]) -> SweepRow:
        """What a combination reached; if one seed diverged, no mean would be fair to the others."""
        failed = [told for run in runs if (told := read_divergence(run.folder)) is not None]
        folders = [str(run.folder) for run in runs]
        if failed:
            return SweepRow(point, None, [], folders, failed[0])
        standings = [read_standing(run, self.goal) for run in runs]
        value = average([standing.measures[self.goal.measure] for standing in standings])
        return SweepRow(point, value, standings, folders)

    def rank(self, rows: Sequence[SweepRow]) -> list[SweepRow]:
        """The best first, of equals that with the smaller loss; what diverged, or isn't finite, comes last."""

        def weigh(row: SweepRow) -> tuple[bool, float, float]:
            value = math.nan if row.value is None else row.value.value
            finite, losses = math.isfinite(value), [standing.measures.get("loss", 0.0) for standing in row.standings]
            return not finite, (-value if self.goal.rising else value) if finite else 0.0, sum(losses)

        return sorted(rows, key=weigh)


def _name_run(name: str, seed: int) -> str:
    return f"{name},seed={seed}"


def _change(base: Document, point: Point) -> Document:
    return base.change(f"{key}={json.dumps(value)}" for key, value in point.items())


def _place(error: RegardError, point: Point) -> RegardError:
    """An error, with the combination that it comes from."""
    words = " ".join(spell_word(key, value) for key, value in point.items())
    error.message = f"{words}: {error.message}" if words else error.message
    return error
