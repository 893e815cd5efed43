"""The verb that tries many settings of one recipe, and ranks them on validation data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import CONFIG, JSON, hint, verb
from regard.cli.contest import AGAIN, format_cost, format_measure
from regard.cli.progress import ProgressMeter
from regard.errors import InputError, SpecError, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.runs.budget import Budget
    from regard.runs.sweep import Axis, Sweep, SweepRow

OTHERS = ("tokenizer", "corpus", "data", "task", "batches.longest")  # what changes the samples that are measured


@verb("Train, and look after runs")
def sweep(
    config: CONFIG,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING",
            help="Settings and their values: train.optimizer.rate=0.001,0.002 model.depth=2,4. A list is one value in "
            "brackets. With --random, a range too: train.optimizer.rate=0.0005..0.01, evenly by logarithm.",
        ),
    ] = None,
    random: Annotated[
        int | None, typer.Option(metavar="N", help="Try so many combinations by chance. [all of them]")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Train each for so many minutes. [the recipe's own budget]")
    ] = None,
    tokens: Annotated[str | None, typer.Option(metavar="N", help="Train each on so many tokens: 500k, 2M.")] = None,
    steps: Annotated[str | None, typer.Option(metavar="N", help="Train each for so many steps.")] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Train each combination with so many seeds.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder for all runs. [runs/sweep-CONFIG]")
    ] = None,
    split: Annotated[str | None, typer.Option(hidden=True)] = None,
    as_json: JSON = False,
) -> None:
    """Try settings of a recipe one after the other, and rank them on validation data. What is there is used."""
    from regard.cli.train import read_config
    from regard.host.machine import keep_memory
    from regard.runs.sweep import Sweep

    if split not in (None, "validation"):
        raise SpecError(
            f"--split {split}: settings are chosen on validation data alone. What was chosen on test data has seen it, "
            "and its figure there would be too good",
            f"leave --split out; then regard eval RUN --split {split} measures the run that was chosen",
        )
    fixed, axes = read_axes(settings or [])
    recipe = read_config(config).change(fixed)
    folder = out or Path("runs") / f"sweep-{config.stem}"
    work = Sweep(recipe, axes, folder, seeds, read_budget(minutes, tokens, steps), random)
    keep_memory()
    try:
        rows = work.conduct(ProgressMeter())
    except Stopped as stop:
        stop.hint = AGAIN
        raise
    if as_json:
        print_json(work, rows)
    else:
        show(work, rows)
    best = rows[0]
    if best.value is not None:
        words = " ".join([*map(quote, fixed), best.spell()])
        hint(f"regard eval {quote(best.find_run(work.goal))}, or regard train {quote(str(config))} {words}")


def read_axes(words: Sequence[str]) -> tuple[list[str], list[Axis]]:
    """Words with one value, which hold for all, and settings with several."""
    from regard.runs.sweep import Axis

    axes = [Axis.read(word) for word in words]
    many = [axis for axis in axes if axis.bounds is not None or len(axis.values) > 1]
    fixed = [word for word, axis in zip(words, axes, strict=True) if axis not in many]
    if not many:
        told = f"{' '.join(words)}: one value each" if words else "no settings to try"
        raise InputError(f"{told}; a sweep tries several", "regard sweep CONFIG train.optimizer.rate=0.001,0.002,0.004")
    keys = [axis.key for axis in many]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise SpecError(f"{twice} is set twice", f"{twice}=VALUE,VALUE")
    for key in ("out", "seed"):
        if key in keys:
            raise SpecError(f"{key}: a sweep sets that itself", "--seeds 3" if key == "seed" else "--out FOLDER")
    changed = [key for key in keys if key.startswith(OTHERS)]
    if changed:
        told = f"{changed[0]} may change what is measured too, and then a rank says little"
        print(f"regard: {told}: losses over other tokens or samples can't be compared", file=sys.stderr)
    return fixed, many


def read_budget(minutes: float | None, tokens: str | None, steps: str | None) -> Budget | None:
    """The budget of every run, where one is given."""
    from regard.runs.budget import Budget, read_amount

    given: dict[Any, str] = {
        unit: str(amount)
        for unit, amount in (("minutes", minutes), ("tokens", tokens), ("steps", steps))
        if amount is not None
    }
    if len(given) > 1:
        raise SpecError(f"{' and '.join(f'--{unit}' for unit in given)}: one budget at a time", "one of them")
    budgets = [Budget(unit, read_amount(amount, f"--{unit}")) for unit, amount in given.items()]
    if budgets and budgets[0].unit != "minutes" and budgets[0].amount < 1:
        raise SpecError(f"--{budgets[0].unit} {budgets[0].amount:g}: nothing would be trained", "1 or more")
    return budgets[0] if budgets else None


def show(work: Sweep, rows: Sequence[SweepRow]) -> None:
    """The ranked table, the best setting as words, and where its run is."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    keys = list(rows[0].point)
    last = [key.rpartition(".")[2] for key in keys]
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("rank", justify="right")
    for key, name in zip(keys, last, strict=True):
        drawn.add_column(name if last.count(name) == 1 else key, justify="right", overflow="fold")
    drawn.add_column(work.goal.measure, justify="right")
    others = [
        name for name in (rows[0].standings[0].measures if rows[0].standings else ()) if name != work.goal.measure
    ]
    for name in (*others[:1], "parameters", "tokens", "time"):
        drawn.add_column(name, justify="right")
    for rank, row in enumerate(rows, 1):
        drawn.add_row(*format_row(rank, row, others[:1]))
    console.print()
    console.print(drawn)
    over = f"means over {work.seeds} seeds with 95 % intervals" if work.seeds > 1 else "one seed each"
    better = "more" if work.goal.rising else "less"
    told = f"Ranked by {work.goal.measure} on validation data, {better} is better; {over}, by its best checkpoint."
    console.print(f"\n{told}", markup=False)
    for row in rows:
        if row.value is None:
            console.print(f"{row.spell()} diverged: {row.failure}", markup=False)
    if work.found:
        print(f"{work.found} runs were there already in {work.out}.", file=sys.stderr)
    if rows[0].value is not None:
        console.print(f"best  {rows[0].spell()}", style="bold", markup=False, soft_wrap=True)
        console.print(f"run   {rows[0].find_run(work.goal)}", markup=False, soft_wrap=True)


def format_row(rank: int, row: SweepRow, others: Sequence[str]) -> list[str]:
    """A combination as cells."""
    from regard.tasks.measures import average

    values = [value if isinstance(value, str) else json.dumps(value) for value in row.point.values()]
    if row.value is None:
        return ["–", *values, "diverged"]
    seen = [format_measure(average([standing.measures[name] for standing in row.standings])) for name in others]
    costs = [sum(vars(standing)[key] for standing in row.standings) / len(row.standings) for key in COSTS]
    return [str(rank), *values, format_measure(row.value), *seen, *map(format_cost, COSTS, costs)]


COSTS = ("parameters", "tokens", "seconds")


def print_json(work: Sweep, rows: Sequence[SweepRow]) -> None:
    """An object for each combination, the best first."""
    from regard.lens.page import clean

    for rank, row in enumerate(rows, 1):
        told: dict[str, Any] = {"rank": rank if row.value is not None else None, "settings": dict(row.point)}
        told |= {"words": row.spell(), "goal": work.goal.measure, "rising": work.goal.rising, "split": "validation"}
        told |= {"value": None if row.value is None else row.value.value, "diverged": row.value is None}
        told |= {"interval": None if row.value is None else list(row.value[1:]), "failure": row.failure or None}
        seeds = [{"run": run, **vars(standing)} for run, standing in zip(row.runs, row.standings, strict=False)]
        print(json.dumps(clean(told | {"runs": list(row.runs), "seeds": seeds}), ensure_ascii=False))
