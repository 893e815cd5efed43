"""The verb that trains a recipe on every fold of its data set, and measures each on its own test part."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import CONFIG, JSON, hint, verb
from regard.cli.contest import AGAIN
from regard.cli.progress import ProgressMeter
from regard.errors import SpecError, Stopped

if TYPE_CHECKING:
    from regard.runs.folds import FoldResult


@verb("Train, and look after runs")
def folds(
    config: CONFIG,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING",
            help="Settings that differ from the file, in all folds: data=FOLDER model.kind=deep-sets.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--folds", metavar="N", help="Do the first so many folds. [all of the data set]")
    ] = None,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="SETTING",
            help="Values to choose among: --try model.width=32,64; may be given several times. Each fold trains every "
            "combination, and the best on its validation part is measured on its test part.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder for all runs. [runs/folds-CONFIG]")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Put a row into this Markdown page of results.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Train a recipe on each fold of its data set, and print the mean over their test parts. What is there is used."""
    from regard.cli.train import read_config
    from regard.host.machine import keep_memory
    from regard.host.output import check_file
    from regard.runs.folds import Folds, record_folds
    from regard.runs.results import read_page
    from regard.runs.sweep import Axis

    if any(word.startswith("out=") for word in settings or []):
        raise SpecError("out: there is a folder for each fold", "--out FOLDER, for all of them")
    if page is not None:
        check_file(page)
        read_page(page)
    folder = out or Path("runs") / f"folds-{config.stem}"
    work = Folds(read_config(config).change(settings or []), folder, count, [Axis.read(word) for word in tries or []])
    keep_memory()
    try:
        result = work.conduct(ProgressMeter())
    except Stopped as stop:
        stop.hint = AGAIN
        raise
    if as_json:
        print_json(result)
    else:
        show(result)
    if result.found:
        print(f"{result.found} runs were there already in {folder}.", file=sys.stderr)
    if page is not None:
        words = [config.as_posix(), *(word for word in settings or [] if not word.startswith("data="))]
        words += [word for one in tries or [] for word in ("--try", one)] + (["--folds", str(count)] if count else [])
        record_folds(page, result, folder, f"regard folds {' '.join(map(quote, words))}")
    hint(f"regard report {quote(result.rows[0].run)}, or regard runs {quote(str(folder))}")


def show(result: FoldResult) -> None:
    """A row for each fold, and the mean over all."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    chosen, ordered = any(row.point for row in result.rows), result.order_spread is not None
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("fold", justify="right")
    for name in (f"validation {result.goal.measure}", f"test {result.measure}"):
        drawn.add_column(name, justify="right")
    if ordered:
        drawn.add_column("spread over node orders", justify="right")
    if chosen:
        drawn.add_column("chosen on validation", overflow="fold")
    for row in result.rows:
        cells = [f"{row.standing.measures[result.goal.measure]:.4f}", f"{row.test[result.measure]:.4f}"]
        cells += [f"{row.test['order_spread']:.4f}" if row.test.get("orders", 1) > 1 else "–"] if ordered else []
        drawn.add_row(str(row.fold), *cells, *([row.spell()] if chosen else []))
    console.print()
    console.print(drawn)
    console.print()
    console.print(result.conclude(), style="bold", markup=False)
    if chosen:
        console.print(
            "Each fold chose its settings on its own validation part, and no other was measured on test data."
        )
    for row in result.rows:
        for words in row.diverged:
            console.print(f"fold {row.fold}: {words} diverged", markup=False)


def print_json(result: FoldResult) -> None:
    """An object for each fold, then one for all."""
    from regard.lens.page import clean

    for row in result.rows:
        told: dict[str, Any] = {"fold": row.fold, "run": row.run, "chosen": dict(row.point), "words": row.spell()}
        told |= {"validation": dict(row.standing.measures), "test": dict(row.test), "diverged": list(row.diverged)}
        print(json.dumps(clean(told), ensure_ascii=False))
    whole: dict[str, Any] = {"folds": len(result.rows), "goal": result.goal.measure, "measure": result.measure}
    whole |= {"mean": result.mean, "deviation": result.deviation, "order_spread": result.order_spread}
    print(json.dumps(clean(whole | {"split": "test"}), ensure_ascii=False))
