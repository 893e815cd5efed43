"""The verb that makes a report of runs: one page that can be mailed."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from regard.cli.arguments import PRECISION, hint, verb
from regard.cli.completion import complete_runs
from regard.cli.progress import ProgressMeter
from regard.cli.texts import TextSource
from regard.errors import InputError, SpecError
from regard.host.machine import give_way, keep_memory

USUAL = Path("report.html")


@verb("Measure and look inside")
@give_way()
def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="The runs to report on, side by side; RUN@step-2000 names the checkpoint that is asked.",
            autocompletion=complete_runs,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"The page to write. [{USUAL}; with --json, none]")
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="A text to ask every model and to look at; say it again for more."),
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="FILE", help="The same for each line of a file.")
    ] = None,
    samples: Annotated[
        int,
        typer.Option(metavar="N", help="The number of its own samples that each model is asked about.", min=0, max=100),
    ] = 5,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Load no weights: the page has neither samples nor attention.")
    ] = False,
    precision: PRECISION = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was collected as one JSON object.")] = False,
) -> None:
    """Write a page on one or several runs: curves, evaluations, samples, what differs, speed, memory, versions."""
    from regard.host.output import check_file
    from regard.runs.report import collect_report

    place = out or (None if as_json else USUAL)
    if place is not None:
        if place.suffix.lower() not in (".html", ".htm", ""):
            raise SpecError(f"--out {place}: a report is an HTML page", f"--out {place.with_suffix('.html')}")
        check_file(place)
    if no_model and (texts or files):
        raise SpecError("--no-model asks no model, and --text and --file name texts to ask: which?", "one of them")
    if no_model and precision is not None:
        raise SpecError(f"--no-model loads no weights, and --precision {precision} packs them: which?", "one of them")
    keep_memory()
    chosen = read_texts(texts or [], files or [])
    found = collect_report(runs, chosen, samples, model=not no_model, meter=ProgressMeter(), precision=precision)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
    if place is not None:
        found.save(place)
        if not as_json:
            print(place)
            hint(f"open {quote(str(place))} in a browser, or mail it: it needs no other file")


def read_texts(typed: list[str], files: list[Path]) -> list[str]:
    """The texts that a user chose; empty ones say nothing."""
    found = []
    for text in TextSource(typed, [str(file) for file in files]):
        if text.fault:
            raise InputError(f"{text.place}: {text.fault}", "a file of sentences")
        if text.text.strip():
            found.append(text.text)
    return found
