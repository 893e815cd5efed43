"""Verbs that look after runs: listing, following and deleting them."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import FOLDER, JSON, format_number, hint, verb
from regard.cli.completion import complete_runs
from regard.errors import InputError, RegardError, SpecError

if TYPE_CHECKING:
    from regard.runs.listing import RunRow

NARROWEST = {0: 12, 2: 10, 1: 6, 5: 8}  # letters of the columns that may be cut, in this order
SORTS = ("run", "task", "model", "size", "step", "best", "state", "when", "space")


@verb("Train, and look after runs")
def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to look below.")] = Path("runs"),
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="By run, task, model, size, step, best, state, when or space.")
    ] = "run",
    task: Annotated[str | None, typer.Option(metavar="TASK", help="Only runs of this task.")] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="Only runs of this model.")] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only these: training, done, stopped, damaged, imported or saved."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """List the runs below a folder. No weights are read."""
    from regard.runs.listing import list_runs

    if sort not in SORTS:
        raise SpecError(f"--sort {sort}: no column is called so", f"--sort {', '.join(SORTS)}")
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder", "regard runs FOLDER, or regard train CONFIG")
    wanted = {"task": task, "model": model, "state": state}
    found = [
        row
        for row in list_runs(folder)
        if all(word is None or vars(row)[name] == word for name, word in wanted.items())
    ]
    found.sort(key=lambda row: sort_key(row, sort))
    if as_json:
        for row in found:
            print(json.dumps(row.as_json(), ensure_ascii=False))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in format_rows(found, width):
        print(line)
    for row in found:
        if row.problem:
            print(f"regard: {row.problem}", file=sys.stderr)
    if not found:
        print(f"regard: no such run below {folder}", file=sys.stderr)


def sort_key(row: RunRow, column: str) -> tuple[bool, float | str]:
    """By a column: names from A on, numbers and times from the largest on; what isn't known comes last."""
    numbers = {
        "size": row.parameters,
        "step": row.step,
        "best": row.best,
        "when": row.changed,
        "space": row.bytes,
    }
    if column in numbers:
        value = numbers[column]
        return value is None, -(value or 0.0)
    return False, str(vars(row)[column])


def format_rows(found: list[RunRow], width: int | None = None) -> list[str]:
    """A table without lines, as narrow as its words; where it is wider than `width`, long words are cut."""
    if not found:
        return []
    table = [["run", "task", "model", "size", "step", "best", "state", "when", "space"]]
    for row in found:
        best = "" if row.best is None else f"{row.measure} {row.best:.4g}".strip()
        size = "" if row.parameters is None else shorten(row.parameters)
        when = format_age(time.time() - row.changed) if row.changed else ""
        cells = [row.run, row.task, row.model, size, f"{row.step:,}", best, row.state, when, format_bytes(row.bytes)]
        table.append(cells)
    widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
    gap, right = 2, {3, 4, 7, 8}  # numbers
    if width is not None and sum(widths) + gap * (len(widths) - 1) > width:
        gap = 1
        for column, least in NARROWEST.items():
            over = sum(widths) + len(widths) - 1 - width
            widths[column] = max(min(least, widths[column]), widths[column] - max(0, over))
    return [
        (" " * gap)
        .join(f"{cut(cell, widths[n], n == 0):{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(line))
        .rstrip()
        for line in table
    ]


def cut(text: str, width: int, front: bool) -> str:
    """A text of so many letters; of a path the end says more, so its front goes."""
    if len(text) <= width:
        return text
    return f"…{text[1 - width :]}" if front else f"{text[: width - 1]}…"


def shorten(number: float) -> str:
    """A large number in three digits: 2.35M."""
    for unit in ("", "K", "M", "G"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:,.3g}T"


def format_bytes(size: float) -> str:
    return f"{shorten(size)}B"


def format_age(seconds: float) -> str:
    """How long ago: 40 s, 5 min, 3 h, 12 d."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


@verb("Train, and look after runs")
def rm(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="The folders of the runs to delete.", autocompletion=complete_runs),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: JSON = False,
) -> None:
    """Delete runs, but nothing in their folders that isn't theirs. One that is being trained is refused."""
    from regard.runs.listing import describe_run
    from regard.runs.removal import insist_on_idle, remove_run

    for folder in folders:  # all of them first, so that nothing is deleted if one can't be
        insist_on_idle(folder)
    if not yes:
        if not sys.stdin.isatty():
            raise SpecError("nobody can be asked here whether to delete", "--yes")
        rows = [describe_run(folder) for folder in folders]
        for row in rows:
            step = f"step {row.step:,}, " if row.step else ""
            print(f"{row.run}: {row.model}, {step}{format_bytes(row.bytes)}", file=sys.stderr)
        told = "this run" if len(rows) == 1 else f"these {len(rows)} runs"
        if input(f"Delete {told}? [y/N] ").strip().lower() not in ("y", "yes"):
            raise RegardError("nothing was deleted")
    for folder in folders:
        done = remove_run(folder)
        if as_json:
            print(json.dumps({"run": str(folder), "left": [str(path) for path in done.left]}))
            continue
        print(folder)
        for path in done.left:
            print(f"regard: {path}: left, since regard didn't write it", file=sys.stderr)


@verb("Train, and look after runs")
def log(
    run: FOLDER,
    wait: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for what comes, or print what is there.")
    ] = True,
    as_json: JSON = False,
) -> None:
    """Follow a run that trains elsewhere, until it ends. It is drawn as its training draws itself."""
    from rich.console import Console

    from regard.cli.help import may_color
    from regard.lens.screen import Replay
    from regard.runs.follow import follow
    from regard.runs.listing import describe_run

    if as_json:
        for entries in follow(run, wait):
            for entry in entries:
                print(json.dumps(entry, ensure_ascii=False), flush=True)
        return
    screen = Replay(Console(highlight=False, no_color=not may_color()))
    with screen:
        for entries in follow(run, wait):
            for entry in entries:
                screen.hear(entry)
            screen.show_step()
    row = describe_run(run)
    best = "" if row.best is None else f", best {row.measure} {format_number(row.best)}"
    print(f"{row.state} at step {row.step:,}{best}")
    if row.state == "stopped":
        hint(f"regard resume {quote(str(run))}")
