"""The verb that asks questions about a table: the answer, and the program that it came from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, hint, verb
from regard.cli.help import may_color
from regard.cli.inspect import check_look
from regard.cli.texts import FILE, GivenText, Manner, answer_texts, choose_source
from regard.errors import InputError, SpecError
from regard.host.machine import give_way

if TYPE_CHECKING:
    from regard.lens.look import Look
    from regard.tasks.programmer import ProgramStep, TableAnswer


@verb("Ask a model")
@give_way()
def ask(
    run: RUN,
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV file, packed or not; its first line names the columns.")
    ],
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="A question, or several. Without any, the lines of standard input."),
    ] = None,
    files: FILE = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Print how much each step favoured each operation and column, too.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what one question looked at: .html (the viewer), .json, .npz, …"),
    ] = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Ask a question about a table: regard ask RUN table.csv "greater 50 A sum B".

    The answer comes first, and then the program that gave it, a step a line: what was called, and what came of it.
    """
    if not table.exists():
        raise InputError(f"{table}: there is no such file", 'regard ask RUN TABLE.csv "QUESTION"')
    if out is not None:
        check_look(out)
    if out is not None and len(questions or []) != 1:
        raise SpecError(f"--out {out}: it holds one question", f'regard ask {run} {table} "QUESTION" --out {out}')
    source = choose_source(questions, files)
    from regard.runs.load import load_as
    from regard.tasks.programmer import Programmer

    wants = "only one that learned from questions about tables answers them"
    programmer = load_as(run, Programmer, wants, precision)
    if out is not None:
        print(programmer.look(((questions or [""])[0], table)).save(out))
        if out.suffix.lower() == ".html":
            hint(f"open {out} in a browser")
        return

    def answer(each: list[str]) -> list[TableAnswer]:
        return programmer.answer_all([programmer.make_sample(question, table) for question in each])

    def show(text: GivenText, found: TableAnswer) -> None:
        if as_json:
            more = {"weights": found.weights} if weights else {}
            return print(json.dumps({**found.as_json(), **more}, ensure_ascii=False))
        print(found.text)
        for number, step in enumerate(found.program, 1):
            print(f"  {number}  {step!s:24} {tell_result(step)}".rstrip())
        if weights:
            print_weights(programmer.look((found.question, table)))

    manner = Manner(as_json, "question", {"number": None, "cells": None, "program": []})
    answer_texts(source, "answering", answer, show, manner, window=8)


def tell_result(step: ProgramStep) -> str:
    """What came of a step."""
    from regard.tasks.programmer import write_number

    if step.number is not None:
        return write_number(step.number)
    return "" if step.rows is None else f"{step.rows} {'row' if step.rows == 1 else 'rows'}"


def print_weights(look: Look) -> None:
    """The soft choices of each step, as grids."""
    from regard.lens.grid import grid

    for place in look.maps():
        weights = look.weights(place.name)[place.name][0]
        columns, rows = look.label(place.columns, weights.shape[1]), look.label(place.rows, weights.shape[0])
        if columns == ["none"]:  # no number to compare with
            continue
        width = shutil.get_terminal_size().columns
        print(f"\n{grid(columns, rows, weights.tolist(), color=may_color(), title=place.part, width=width)}")
