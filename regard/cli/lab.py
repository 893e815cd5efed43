"""The laboratory's verb: lists experiments, does one or all of them, and tells what their numbers say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import hint, verb
from regard.cli.completion import complete_experiments
from regard.cli.progress import ProgressMeter, format_seconds
from regard.errors import RegardError, Stopped
from regard.host.machine import keep_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from regard.lab.apparatus.experiment import Experiment, Rows
    from regard.lab.apparatus.outcome import Outcome

ALL = "all"
PRINTED = 60  # rows of a table that a terminal shows


@verb("Measure and look inside")
def lab(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The experiment, or all of them. [a list of them]",
            autocompletion=complete_experiments,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Take more time: larger sizes, more seeds.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="The seed of everything that chance does.", min=0)] = 1,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder for what is found: each experiment has its own in it.")
    ] = Path("runs/lab"),
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put what is found on this page, such as docs/laboratory.md.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object for each experiment.")] = False,
) -> None:
    """Try a claim of the lectures: do gradients vanish, is one vector a bottleneck, what does length cost?"""
    import regard.lab  # noqa: F401  enters every experiment
    from regard.lab.apparatus.experiment import choose_experiment, list_experiments
    from regard.lab.apparatus.journal import read_page, record_outcome
    from regard.lab.apparatus.outcome import perform

    if name is None:
        list_all(list_experiments(), as_json)
        return
    chosen = list_experiments() if name == ALL else [choose_experiment(name)]
    if record is not None:
        read_page(record)  # a page that can't be written is found out now, and not in five minutes
    keep_memory()
    outcomes, failed = [], dict[str, RegardError]()
    for experiment in chosen:
        announce(experiment, full)
        try:
            outcome = perform(experiment, out, seed, full, ProgressMeter())
        except RegardError as error:
            if name != ALL or isinstance(error, Stopped):
                raise
            failed[experiment.name] = error  # the others don't depend on it
            print(f"regard: {experiment.name}: {error}", file=sys.stderr, flush=True)
            continue
        outcomes.append(outcome)
        if as_json:
            print(json.dumps(outcome.as_json(), ensure_ascii=False), flush=True)
        else:
            show(outcome, out / experiment.name)
        if record is not None:
            record_outcome(record, outcome)
    if len(outcomes) > 1 and not as_json:
        summarise(outcomes)
    if failed:
        told = "; ".join(f"{one}: {error.message}" for one, error in failed.items())
        again = f"regard lab {next(iter(failed))} --seed {seed + 1}"
        raise RegardError(f"{len(failed)} of {len(chosen)} experiments failed: {told}", again)
    if len(outcomes) == 1:
        page = out / chosen[0].name / f"{chosen[0].name}.html"
        more = "" if full else f", or regard lab {chosen[0].name} --full takes more time"
        hint(f"open {quote(str(page))} in a browser{more}")


def list_all(experiments: Sequence[Experiment], as_json: bool) -> None:
    """Every experiment, in the order of the lectures."""
    if as_json:
        for one in experiments:
            told = {"experiment": one.name, "question": one.question, "claim": one.claim, "method": one.method}
            print(json.dumps(told | {"minutes": one.minutes, "full_minutes": one.full_minutes}, ensure_ascii=False))
        return
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("experiment", no_wrap=True)
    drawn.add_column("question")
    drawn.add_column("minutes", justify="right", no_wrap=True)
    drawn.add_column("--full", justify="right", no_wrap=True)
    for one in experiments:
        drawn.add_row(one.name, one.question, f"{one.minutes:g}", f"{one.full_minutes:g}")
    make_console().print(drawn)
    hint(f"regard lab {experiments[0].name}, or regard lab all ({sum(one.minutes for one in experiments):.0f} minutes)")


def announce(experiment: Experiment, full: bool) -> None:
    """The question and the budget, before the work."""
    minutes = experiment.full_minutes if full else experiment.minutes
    said = (f"{experiment.name}: {experiment.question}", f"The claim: {experiment.claim}", experiment.method)
    print(file=sys.stderr)
    for line in (*said, f"About {minutes:g} minutes on two cores."):
        print(fill(line, min(100, get_terminal_size().columns)), file=sys.stderr, flush=True)


def make_console() -> Console:
    """What prints tables: whatever stands in a cell is text, and a pipe or a file gets wide lines."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 120
    return console


def show(outcome: Outcome, folder: Path) -> None:
    """The first table, the finding, and where the rest is."""
    console = make_console()
    title, rows = next(iter(outcome.tables.items()))
    console.print()
    console.print(f"{title}:")
    console.print(draw_table(rows[:PRINTED]))
    if len(rows) > PRINTED:
        console.print(f"and {len(rows) - PRINTED} more rows in the CSV")
    console.print()
    console.print(str(outcome.conclusion), style="bold")
    # a path is one word, so that it can be copied
    console.print(f"{format_seconds(outcome.seconds)}; tables, plots and a page are in {folder}", soft_wrap=True)


def draw_table(rows: Rows) -> object:
    """Cells in columns; numbers to the right and whole, so that it is words which make room on a narrow terminal."""
    from rich.table import Table

    from regard.lab.apparatus.journal import format_value

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0] if rows else ():
        words = all(isinstance(row[name], str) for row in rows)
        drawn.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in rows:
        drawn.add_row(*(format_value(value) for value in row.values()))
    return drawn


def summarise(outcomes: Sequence[Outcome]) -> None:
    """One line for each of several experiments."""
    print()
    width = max(len(outcome.experiment.name) for outcome in outcomes)
    for outcome in outcomes:
        sign = "shown    " if outcome.conclusion.shown else "not shown"
        print(f"{outcome.experiment.name:<{width}}  {sign}  {format_seconds(outcome.seconds)}")
