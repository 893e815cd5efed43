"""The verb that looks inside a model while it reads a text."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, RUN, hint, verb
from regard.cli.help import may_color
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, TextSource, answer_texts, choose_source
from regard.errors import InputError, SpecError
from regard.host.output import check_file

if TYPE_CHECKING:
    from regard.lens.look import Look

ENDINGS = (".html", ".json", ".npz", ".csv", ".png", ".svg")


@verb("Measure and look inside")
def inspect(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The text, if it isn't typed after RUN.")] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What a translator is to write. [its own translation]"),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="What to look at: *.cross.weights, decoder.blocks.3.*; say it again for more. `list` lists all. [*]",
        ),
    ] = None,
    head: Annotated[
        str, typer.Option(metavar="HEAD", help="LAYER.HEAD, LAYER for the mean of its heads, or mean.")
    ] = "mean",
    every: Annotated[bool, typer.Option("--all", help="Draw all heads of all layers as small maps.")] = False,
    by_word: Annotated[bool, typer.Option("--by-word", help="Merge the pieces of a word.")] = False,
    predictions: Annotated[
        bool, typer.Option("--predictions", help="Print what the model says at each position, too.")
    ] = False,
    best: Annotated[int, typer.Option(metavar="N", help="The number of likeliest answers at each position.")] = 5,
    analysis: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Print an analysis as JSON: rollout, ablation, logit-lens, …; `list` tells all."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it instead: .html (the viewer), .json, .npz, .csv, .png or .svg."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Look inside a model while it reads a text: attention of any layer and head, and predictions.

    Without --out, a grid: one row for each token that looks, one column for each token that it can look at.
    """
    if best < 1:
        raise SpecError(f"--best {best}: there must be one answer at least", "--best 1")
    typed = [*(texts or []), *([] if text is None else [text])]
    if target is not None and len(typed) != 1:
        raise SpecError("--target belongs to one text", f'regard inspect {run} "TEXT" --target "TEXT"')
    if head != "mean" and (out is not None or as_json or every or analysis is not None):
        raise SpecError(
            "--head is for the grid in the terminal; elsewhere all heads are told", "--names PATTERN chooses"
        )
    if analysis is not None and (out is not None or by_word):
        raise SpecError("--analysis prints to standard output, token by token", "leave out --out and --by-word")
    if out is not None:
        if out.suffix.lower() not in ENDINGS:  # what is written where is known without torch
            raise InputError(f"{out}: what is it to be?", f"a name that ends in {', '.join(ENDINGS)}")
        check_file(out)
    if names == ["list"]:
        return print_names(run)
    if analysis == "list":
        return print_analyses()
    source = choose_source(texts, files, typed)
    if len(typed) == 1 and not typed[0].strip():
        raise InputError("there is nothing to look at: the text is empty", "a text with words")
    from regard.runs.load import load

    pipeline = load(run)

    def ask(each: list[str]) -> list[Look]:
        looks = [pipeline.look(one, target, names=names or "*") for one in each]
        return [look.by_word() for look in looks] if by_word else looks

    def show(_: GivenText, look: Look) -> None:
        if analysis is not None:
            from regard.lens.analysis import analyse

            print(json.dumps({"text": look.reading.text, **analyse(look, analysis).as_json()}, ensure_ascii=False))
        elif as_json:
            from regard.lens.keep import as_data

            print(json.dumps(as_data(look, best), ensure_ascii=False))
        else:
            print_look(look, head, every, predictions, best)

    if out is None:
        answer_texts(source, "looking", ask, show, Manner(as_json, "title", {}), window=1)
        return
    [look] = ask([one_text(source, out)])
    print(look.save(out, best))
    if out.suffix.lower() == ".html":
        hint(f"open {out} in a browser")


def one_text(source: TextSource, out: Path) -> str:
    """The text that a file is to be about; several are refused before anything is written."""
    found = [given.text for given in islice((given for given in source if given.text.strip()), 2)]
    if len(found) != 1:
        raise InputError(f"{out} holds one text, and there are {'several' if found else 'none'}", "--json for several")
    return found[0]


def print_names(run: str) -> None:
    """All that can be seen in a model, a name a line."""
    from regard.runs.load import load

    for name in load(run).model.names():
        print(name)


def print_analyses() -> None:
    """All analyses, and what each finds."""
    from regard.lens.analysis import ANALYSES

    for name, found in ANALYSES.items():
        print(f"{name:22} {found.about}")


def print_look(look: Look, head: str, every: bool, predictions: bool, best: int) -> None:
    """A look for people."""
    from regard.lens.look import WordLook
    from regard.lens.terminal import draw_grid, draw_predictions, draw_sheet

    color, width = may_color(), shutil.get_terminal_size().columns
    if not predictions or look.maps():
        print(draw_sheet(look, color=color, width=width) if every else draw_grid(look, head, color=color, width=width))
    if predictions:
        look = look.whole if isinstance(look, WordLook) else look  # predictions are of tokens
        print(f"\n{draw_predictions(look, best, width if sys.stdout.isatty() else 1000)}")
