"""Recipes side by side at one budget: a column for each, means over seeds with intervals, and what they show."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from regard.cli.arguments import hint
from regard.cli.progress import ProgressMeter, format_seconds
from regard.errors import InputError, SpecError, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.config import Document
    from regard.runs.contest import ContestResult
    from regard.tasks.measures import Measure

AGAIN = "the same command again goes on from there"


def contest(
    recipes: Sequence[Path],
    words: Sequence[str],
    seeds: int,
    budget: str,
    match: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Train recipes at one budget, several times each, and print what they reached on validation data."""
    from regard.host.machine import keep_memory
    from regard.runs.budget import Budget
    from regard.runs.contest import Contest

    if match not in (None, "parameters"):
        raise SpecError(f"--match {match}: models are matched by their parameters", "--match parameters")
    limit = Budget.read(budget)
    documents = read_recipes(recipes, words)
    folder = out or Path("runs") / f"compare-{'-'.join(documents)}"
    keep_memory()
    try:
        result = Contest(documents, limit, seeds, folder, match is not None).conduct(ProgressMeter())
    except Stopped as stop:
        stop.hint = AGAIN
        raise
    if as_json:
        print_json(result)
        return
    show(result)
    if result.found:
        print(f"{result.found} of {len(result.entries)} runs were there already in {folder}.", file=sys.stderr)
    hint(f"regard report {quote(result.entries[0].run)}, or regard runs {quote(str(folder))}")


def split_words(nouns: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Recipes, and the settings that change them all: `a.yaml b.yaml model.depth=2`."""
    words = [noun for noun in nouns if "=" in noun and not Path(noun).exists()]
    return [Path(noun) for noun in nouns if noun not in words], words


def read_recipes(recipes: Sequence[Path], words: Sequence[str]) -> dict[str, Document]:
    """Run files by names that tell them apart, changed by the words."""
    from regard.cli.train import read_config

    if len(recipes) < 2:
        told = f"{len(recipes) or 'no'} recipe{'s' * (len(recipes) != 1)}: a comparison needs two at least"
        raise InputError(told, "regard compare --recipes a.yaml b.yaml --budget tokens=2M")
    real = [recipe.resolve() for recipe in recipes]
    twice = next((recipe for recipe, place in zip(recipes, real, strict=True) if real.count(place) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: the same recipe twice shows nothing but its seeds", "two recipes")
    stems = [recipe.stem for recipe in recipes]
    names = [
        stem if stems.count(stem) == 1 else f"{path.parent.name}-{stem}" for stem, path in zip(stems, real, strict=True)
    ]
    if len(set(names)) < len(names):
        raise InputError(f"{', '.join(map(str, recipes))}: two have the same name", "other names of files")
    return {name: read_config(recipe).change(words) for name, recipe in zip(names, recipes, strict=True)}


def show(result: ContestResult) -> None:
    """The table, what the seeds say, and how it was measured."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    recipes, two = result.recipes, len(result.recipes) == 2
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("")
    for name in [*recipes, *(["difference"] if two else [])]:
        drawn.add_column(name, justify="right", overflow="fold")
    for measure in result.measures:
        cells = [format_measure(result.average(recipe, measure)) for recipe in recipes]
        cells += [format_measure(result.subtract(recipes[1], measure), signed=True)] if two else []
        goal = measure == result.goal.measure
        drawn.add_row(f"{measure}{' (goal)' if goal else ''}", *cells, style="bold" if goal else None)
    costs = [result.average_costs(recipe) for recipe in recipes]
    for title, key in COSTS.items():
        drawn.add_row(title, *(format_cost(key, cost[key]) for cost in costs))
    console.print()
    console.print(drawn)
    console.print()
    for recipe in recipes[1:]:
        console.print(result.conclude(recipe), style="bold", markup=False)
    if not two:
        console.print("Each interval is of its pair alone: of many pairs, one may differ by chance.")
    seeds = len(result.entries) // len(recipes)
    over = f"means over {seeds} seeds with 95 % intervals" if seeds > 1 else "one seed, so there are no intervals"
    console.print(f"On validation data at the end of {result.budget}: {over}.", markup=False)
    console.print(
        "Memory is that of a process for each run. FLOPs: products, forward and backward; nothing elementwise."
    )
    for recipe, words in result.words.items():
        if words:
            console.print(f"{recipe} was sized to {recipes[0]}: {' '.join(words)}", markup=False)


COSTS = {
    "parameters": "parameters",
    "training tokens": "tokens",
    "training time": "seconds",
    "peak memory": "peak_memory",
    "training FLOPs": "flops",
}


def format_measure(measure: Measure, signed: bool = False) -> str:
    """`41.25 ± 0.62`: a mean, and how far its interval reaches."""
    sign, half = "+" if signed else "", (measure.high - measure.low) / 2
    if math.isnan(half) or half <= 0:
        return f"{measure.value:{sign}.4g}" + ("" if math.isnan(half) else " ± 0")
    digits = max(0, 1 - math.floor(math.log10(half)))  # two of the interval, and no more of the mean
    return f"{measure.value:{sign}.{digits}f} ± {half:.{digits}f}" if digits < 9 else f"{measure.value:{sign}.4g} ± 0"


def format_cost(key: str, value: float) -> str:
    if key == "seconds":
        return format_seconds(value) if value >= 60 else f"{value:.1f} s"
    if key == "peak_memory":
        return f"{value / 2**20:,.0f} MB"
    return f"{value:.2e}".replace("e+0", "e").replace("e+", "e") if key == "flops" else f"{value:,.0f}"


def print_json(result: ContestResult) -> None:
    """An object for each recipe, then one for each difference from the first."""
    from regard.lens.page import clean

    first = result.recipes[0]
    for recipe in result.recipes:
        measures = {name: list(result.average(recipe, name)) for name in result.measures}
        runs = [entry for entry in result.entries if entry.recipe == recipe]
        seeds = [{"seed": entry.seed, "run": entry.run, "flops": entry.flops, **vars(entry.standing)} for entry in runs]
        told: dict[str, object] = {
            "recipe": recipe,
            "budget": str(result.budget),
            "goal": result.goal.measure,
            "split": "validation",
        }
        told |= {"measures": measures, "costs": result.average_costs(recipe), "sized": list(result.words[recipe])}
        print(json.dumps(clean(told | {"seeds": seeds}), ensure_ascii=False))
    for recipe in result.recipes[1:]:
        apart = {name: list(result.subtract(recipe, name)) for name in result.measures}
        pair = {"recipe": recipe, "against": first, "differences": apart, "conclusion": result.conclude(recipe)}
        print(json.dumps(clean(pair), ensure_ascii=False))
