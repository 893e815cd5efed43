"""A recipe by the folds of its data set: one model for each fold, measured on that fold's own test part.

The fair protocol (Errica et al. 2020): where several settings are tried, each fold chooses its own on its validation
part, and only the chosen one is measured on the test part. The figure is the mean over folds.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config import Document, spell_word
from regard.core.spec import show_value
from regard.data.source import open_bytes, place_in
from regard.errors import DataError, Divergence, InputError, SpecError
from regard.host.meter import SILENT, Meter
from regard.runs.campaign import Campaign, read_divergence, spell_out
from regard.runs.evaluate import TestSet, count_training, evaluate, name_model
from regard.runs.folder import Run
from regard.runs.resolve import resolve
from regard.runs.results import machine, note, record
from regard.runs.spec import RunSpec
from regard.runs.standing import Standing, choose_goal, read_standing
from regard.runs.sweep import Axis, Point, choose_points, name_point
from regard.runs.uses import load_uses
from regard.train.goal import Goal

FIXED = ("corpus", "data", "out", "batches.longest")  # what decides which samples are measured, and where runs go
WAY_OUT = "corpus.train={kind: tu, path: FILE, folds: FOLDS.json, fold: 1}, and the same with part: test as corpus.test"


@dataclass(frozen=True)
class FoldRow:
    """What one fold came to."""

    fold: int
    point: Point  # the settings that were chosen; empty where there was no choice
    run: str  # the folder of the chosen run
    standing: Standing  # on the validation part
    test: Mapping[str, Any]  # every measure on the test part
    diverged: Sequence[str] = ()  # settings that couldn't be trained, as words

    def spell(self) -> str:
        """The chosen settings as words."""
        return spell_point(self.point)


@dataclass(frozen=True)
class FoldResult:
    """All folds of a recipe."""

    goal: Goal  # what checkpoints and settings were chosen by, on validation
    measure: str  # the figure on the test parts
    rows: Sequence[FoldRow]
    found: int  # runs that had been trained before

    def list_figures(self) -> list[float]:
        """The figure of each fold's test part."""
        return [float(row.test[self.measure]) for row in self.rows]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.list_figures())

    @property
    def deviation(self) -> float:
        """Of the folds as they are (divided by their number), as papers report it; of one fold there is none."""
        return statistics.pstdev(self.list_figures()) if len(self.rows) > 1 else math.nan

    @property
    def order_spread(self) -> float | None:
        """How far a fold's figure moves with the order of its nodes, as a mean over folds; None: no order is seen."""
        spreads = [row.test["order_spread"] for row in self.rows if row.test.get("orders", 1) > 1]
        return statistics.fmean(spreads) if spreads else None

    def conclude(self) -> str:
        """The figure in a line."""
        folds = f"{len(self.rows)} fold{'s' * (len(self.rows) > 1)}"
        if len(self.rows) == 1:
            return f"test {self.measure} {self.mean:.4f} in one fold, so there is no deviation"
        return f"test {self.measure} {self.mean:.4f} ± {self.deviation:.4f} (standard deviation over {folds})"


@dataclass
class Folds:
    """A recipe, and the settings among which each fold chooses.

    `count`: the first so many folds; None: all that the file of folds has.
    """

    recipe: Document
    out: Path
    count: int | None = None
    axes: Sequence[Axis] = ()
    splits: Sequence[str] = field(default=(), init=False)  # those that are read by folds

    def conduct(self, meter: Meter = SILENT) -> FoldResult:
        """Train what isn't there, choose inside each fold, and measure what was chosen."""
        load_uses(self.recipe)
        check_axes(self.axes)
        spec = RunSpec.parse((base := self.recipe.change([spell_out(self.out)])).tree, base.where)
        self.splits = find_folded(spec)
        folds, points = range(1, self._count(spec) + 1), choose_points(self.axes, None, spec.seed)
        documents = {self._name(fold, point): self._describe(base, fold, point) for fold in folds for point in points}
        # of several settings one may diverge; a fold without any is told below
        campaign = Campaign(documents, lenient=len(points) > 1)
        runs = campaign.conduct(meter)
        goal = choose_goal(next(iter(runs.values())))
        rows = list[FoldRow]()
        with meter.watch("measuring test parts, folds", len(folds)) as advance:
            for fold in folds:
                rows.append(choose_in_fold(fold, {self._name(fold, point): point for point in points}, runs, goal))
                advance()
        return FoldResult(goal, choose_figure(goal, rows[0].test), rows, len(campaign.found))

    def _count(self, spec: RunSpec) -> int:
        """How many folds there are to do."""
        there = count_folds(spec)
        if self.count is None:
            return there
        if not 1 <= self.count <= there:
            raise InputError(f"--folds {self.count}: the data set has {there}", f"--folds {there}, or leave it out")
        return self.count

    def _name(self, fold: int, point: Point) -> str:
        return f"fold-{fold}/{name_point(point)}" if point else f"fold-{fold}"

    def _describe(self, base: Document, fold: int, point: Point) -> Document:
        words = [f"{key}={json.dumps(value)}" for key, value in point.items()]
        words += [f"corpus.{split}.fold={fold}" for split in self.splits]
        return base.change([*words, spell_out(self.out / self._name(fold, point))])


def spell_point(point: Point) -> str:
    return " ".join(spell_word(key, value) for key, value in point.items())


def check_axes(axes: Sequence[Axis]) -> None:
    """Refuse settings that folds can't choose among."""
    keys = [axis.key for axis in axes]
    for axis in axes:
        if axis.bounds is not None:
            raise SpecError(f"--try {axis.key}: a range has no end of values", f"--try {axis.key}=0.001,0.003")
        if keys.count(axis.key) > 1:
            raise SpecError(f"--try {axis.key}: it is there twice", f"--try {axis.key}=VALUE,VALUE")
        if any(axis.key == fixed or axis.key.startswith(f"{fixed}.") for fixed in FIXED):
            told = f"--try {axis.key}: all settings of a fold are measured on the same samples"
            raise SpecError(told, f"{spell_word(axis.key, axis.values[0])} without --try, which holds for all folds")


def find_folded(spec: RunSpec) -> list[str]:
    """The splits of a corpus that are read by folds: train and test at least."""
    tree = spec.corpus.model_dump(mode="json")
    readers = {split: tree[split] for split in ("train", "validation", "test") if isinstance(tree.get(split), dict)}
    folded = [split for split, reader in readers.items() if reader.get("fold") is not None]
    for split in ("train", "test"):
        if split not in folded:
            told = f"corpus.{split}: no folds are named, and this verb trains one model for each"
            raise SpecError(told, f"{WAY_OUT}; or regard train, for one model")
    if readers["train"] == readers["test"]:
        told = f"corpus.test reads what corpus.train reads, part {show_value(readers['test'].get('part'))} of a fold"
        raise SpecError(told, "corpus.test.part=test")
    if "validation" not in spec.corpus.splits():
        told = "the corpus has no validation data, and nothing is chosen on test data"
        raise SpecError(told, "corpus.split={validation: 0.1}")
    return folded


def count_folds(spec: RunSpec) -> int:
    """How many folds the file of folds has."""
    path = place_in(Path(spec.data), spec.corpus.model_dump(mode="json")["train"]["folds"])
    with open_bytes(path) as stream:
        try:
            found = json.load(stream)
            names = {str(number) for number in range(1, len(found) + 1)}
            sound = bool(found) and isinstance(found, dict) and set(found) == names
        except (ValueError, TypeError, RecursionError):
            sound = False
    if not sound:
        raise DataError(f"{path}: not folds that count from 1 on", '{"1": {"train": [0, 1, …], "test": […]}, …}')
    return len(found)


def choose_in_fold(fold: int, points: Mapping[str, Point], runs: Mapping[str, Run], goal: Goal) -> FoldRow:
    """Measure the setting that is best on a fold's validation part on its test part, and no other one."""
    failed = [name for name in points if read_divergence(runs[name].folder) is not None]
    standings = {name: read_standing(runs[name], goal) for name in points if name not in failed}
    if not standings:
        told = f"fold {fold}: all {len(points)} settings diverged"
        raise Divergence(told, "a smaller train.optimizer.rate, or train.clip=1.0")

    def weigh(name: str) -> tuple[float, float]:
        value = standings[name].measures[goal.measure]
        worst = -math.inf if not math.isfinite(value) else value if goal.rising else -value
        return worst, -standings[name].measures.get("loss", 0.0)  # of equals, that with the smaller loss

    best = max(standings, key=weigh)
    test = evaluate([str(runs[best].folder)], TestSet(split="test"), {}).measures
    return FoldRow(
        fold,
        points[best],
        str(runs[best].folder),
        standings[best],
        test,
        [spell_point(points[name]) for name in failed],
    )


def choose_figure(goal: Goal, test: Mapping[str, Any]) -> str:
    """The measure of the test parts: the goal, or the task's first one where a goal is measured in training alone."""
    if goal.measure in test:
        return goal.measure
    return next(name for name, value in test.items() if isinstance(value, float))


def record_folds(page: Path, result: FoldResult, out: Path, command: str) -> None:
    """Write the mean over folds to a page of results, and each fold's measures into its run's own folder.

    `out`: where the folds were trained; `command`: what to type for the same.
    """
    runs = [Run.open(Path(row.run)) for row in result.rows]
    seconds, steps = (sum(numbers) for numbers in zip(*map(count_training, runs), strict=True))
    names = dict.fromkeys(name_model(row.run) for row in result.rows)
    sizes = sorted({row.standing.parameters for row in result.rows})
    spread, deviation = result.order_spread, "" if len(runs) == 1 else f" ± {result.deviation:.4f}"
    row = {
        "model": f"{' or '.join(names)} ({out.name})",
        "parameters": " or ".join(f"{size:,}" for size in sizes),
        "folds": str(len(runs)),
        "trained": f"{seconds / 60:.1f} min, {steps:,} steps in all",
        f"test {result.measure}": f"{result.mean:.4f}{deviation}",
        "spread over node orders": "none" if spread is None else f"{spread:.4f}",
        "machine": machine(),
        "command": f"`{command}`",
    }
    paths = runs[0].spec.corpus.model_dump(mode="json")["train"]["path"]
    data = Path(paths if isinstance(paths, str) else paths[0]).name.partition(".")[0]
    record(page, f"{runs[0].spec.task.kind.capitalize()} by folds: {data}", row)
    for done in result.rows:
        note(Path(done.run), {"step": resolve(done.run).step, "data": "test", "measures": dict(done.test)})
