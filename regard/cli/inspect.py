"""The verb that looks inside a model while it reads a text, a picture or a graph."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, hint, verb
from regard.cli.help import may_color
from regard.cli.pictures import FIT, choose_fit
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, TextSource, answer_texts, choose_source
from regard.errors import InputError, SpecError
from regard.host.output import check_file

if TYPE_CHECKING:
    from regard.decode.pipeline import Pipeline
    from regard.lens.look import Look

ENDINGS = (".html", ".json", ".npz", ".csv", ".png", ".svg")  # keep.WRITERS, known without torch; a test compares them


TABLE = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The table that a question is about, for a model that reads one.")
]
GRAPH = Annotated[
    str | None,
    typer.Option(metavar="FILE[:NUMBER]", help="The graph, for a model that reads one, counted from 1. [the first]"),
]
TARGET = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What a translator is to write. [its own translation]")
]
IMAGE = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The picture, for a model that reads one; a text is then its caption. [the model's own]"
    ),
]
NAMES = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="What to look at: *.cross.weights, decoder.blocks.3.*; say it again for more. `list` lists all. [*]",
    ),
]
ANALYSIS = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Print an analysis as JSON: rollout, ablation, logit-lens, …; `list` tells all."),
]
OUT = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write it instead: .html (the viewer), .json, .npz, .csv, .png or .svg."),
]


@dataclass(frozen=True)
class LookStyle:
    """How a look is drawn in a terminal."""

    head: str = "mean"
    every: bool = False
    predictions: bool = False

    def refuse_elsewhere(self, where: str) -> None:
        """What is only for a terminal isn't passed over in silence where something else is asked for."""
        given = {"--head": self.head != "mean", "--all": self.every, "--predictions": self.predictions}
        for option in (option for option, wanted in given.items() if wanted):
            raise SpecError(f"{option} is for what is drawn here, and {where} tells all", f"leave {option} out")


@verb("Measure and look inside")
def inspect(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The text, if it isn't typed after RUN.")] = None,
    image: IMAGE = None,
    fit: FIT = None,
    table: TABLE = None,
    graph: GRAPH = None,
    target: TARGET = None,
    names: NAMES = None,
    head: Annotated[
        str,
        typer.Option(
            metavar="HEAD",
            help="LAYER.HEAD, LAYER for the mean of its heads, mean, or rollout: what all layers pass on.",
        ),
    ] = "mean",
    every: Annotated[bool, typer.Option("--all", help="Draw all heads of all layers as small maps.")] = False,
    by_word: Annotated[bool, typer.Option("--by-word", help="Merge the pieces of a word.")] = False,
    predictions: Annotated[
        bool, typer.Option("--predictions", help="Print what the model says at each position, too.")
    ] = False,
    best: Annotated[int, typer.Option(metavar="N", help="The number of likeliest answers at each position.")] = 5,
    analysis: ANALYSIS = None,
    out: OUT = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Look inside a model while it reads a text, a picture or a graph: attention of any head, and predictions.

    Without --out, a grid: one row for each token that looks, one column for each token that it can look at. Over a
    picture, a small map of its places for each word of the caption. Where a model decides how long it thinks, its steps
    stand above the tokens.
    """
    if names == ["list"]:
        return print_names(run)
    if analysis == "list":
        return print_analyses()
    typed, style = [*(texts or []), *([] if text is None else [text])], LookStyle(head, every, predictions)
    check_words(run, typed, target, best)
    check_place(style, analysis, out, as_json, by_word)
    if image is not None:
        check_image(image, typed, files, target)
    elif fit is not None:
        raise SpecError(f"--fit {fit}: is for a picture", "--image FILE, or leave --fit out")
    way = choose_fit(fit)
    if table is not None and (image is not None or target is not None):
        raise SpecError("--table belongs to a question, which has no picture and no target", "leave the others out")
    if graph is not None and (image or table or target or typed or files):
        raise SpecError(f"--graph {graph}: is all that such a model reads", "leave the others out")
    whole = [str(one) for one in (image, graph) if one is not None]
    source = TextSource(whole, []) if whole else choose_source(texts, files, typed)
    from regard.decode.pipeline import PicturePipeline
    from regard.runs.load import load

    pipeline = load(run, precision=precision)
    check_reading(pipeline, run, image, graph)
    if way is not None:
        assert isinstance(pipeline, PicturePipeline)
        pipeline.fit = way

    def ask(each: list[str]) -> list[Look]:
        caption = target if image is None else next(iter(typed), None)
        given: list[Any] = [image or ((one, table) if table is not None else one) for one in each]
        looks = [pipeline.look(one, caption, names=names or "*") for one in given]
        return [look.by_word() for look in looks] if by_word else looks

    def show(_: GivenText, look: Look) -> None:
        if analysis is not None or as_json:
            print(json.dumps(tell_look(look, analysis, best), ensure_ascii=False))
        else:
            print_look(look, style, best)

    if out is None:
        answer_texts(source, "looking", ask, show, Manner(as_json, "title", {}), window=1)
        return
    [look] = ask([one_text(source, out)])
    print(look.save(out, best))
    if out.suffix.lower() == ".html":
        hint(f"open {out} in a browser")


def check_words(run: str, typed: list[str], target: str | None, best: int) -> None:
    """Tell mistakes in the words before anything is loaded."""
    if best < 1:
        raise SpecError(f"--best {best}: there must be one answer at least", "--best 1")
    if target is not None and len(typed) != 1:
        raise SpecError("--target belongs to one text", f'regard inspect {run} "TEXT" --target "TEXT"')
    if len(typed) == 1 and not typed[0].strip():
        raise InputError("there is nothing to look at: the text is empty", "a text with words")


def check_image(image: Path, typed: list[str], files: list[Path] | None, target: str | None) -> None:
    """Insist on one picture, and on one caption of it at the most."""
    if not image.is_file():
        told = "it is a folder" if image.is_dir() else "there is no such file"
        raise InputError(f"{image}: {told}", "a picture: --image FILE.png")
    if len(typed) > 1 or files:
        raise SpecError("--image is one picture, and it has one caption", '--image FILE --text "CAPTION"')
    if target is not None:
        raise SpecError("--target is for translators", '--image FILE --text "CAPTION"')


def check_reading(pipeline: Pipeline, run: str, image: Path | None, graph: str | None) -> None:
    """Insist on a picture where a model reads pictures, on a graph where it reads graphs, and else on a text."""
    ways = {"texts": '"TEXT"', "pictures": "--image FILE.png", "graphs": "--graph FILE.jsonl"}
    given = "pictures" if image is not None else "graphs" if graph is not None else "texts"
    if pipeline.reads != given:
        told = {"texts": "", "pictures": f"--image {image}: ", "graphs": f"--graph {graph}: "}[given]
        raise SpecError(f"{told}{run} reads {pipeline.reads}", f"regard inspect {run} {ways[pipeline.reads]}")


def check_place(style: LookStyle, analysis: str | None, out: Path | None, as_json: bool, by_word: bool) -> None:
    """Insist that a look goes to one place, and that this place takes it."""
    if analysis is not None and (out is not None or by_word):
        raise SpecError("--analysis prints to standard output, token by token", "leave out --out and --by-word")
    if out is not None and as_json:
        raise SpecError(f"--json prints, and --out {out} writes", "--out look.json, or --json alone")
    if style.every and style.head != "mean":
        raise SpecError(f"--all draws all heads, and --head {style.head} is one", "one of the two")
    for where, there in (("--analysis", analysis), ("--out", out), ("--json", as_json or None)):
        if there is not None:
            style.refuse_elsewhere(where)
    if out is not None:
        check_look(out)


def check_look(out: Path) -> None:
    """Tell before anything is computed that a look can't be written there."""
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"{out}: what is it to be?", f"a name that ends in {', '.join(ENDINGS)}")
    check_file(out)


def tell_look(look: Look, analysis: str | None, best: int) -> dict[str, Any]:
    """A look, or an analysis of it, as data."""
    if analysis is None:
        from regard.lens.keep import as_data

        return as_data(look, best)
    from regard.lens.analysis import analyse

    return {"text": look.reading.text, **analyse(look, analysis).as_json()}


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


def print_look(look: Look, style: LookStyle, best: int) -> None:
    """A look for people."""
    from regard.lens.look import WordLook
    from regard.lens.terminal import draw_grid, draw_predictions, draw_sheet, draw_steps

    color, width = may_color(), shutil.get_terminal_size().columns
    if steps := draw_steps(look, width):
        print(f"{steps}\n")
    if look.maps() or not style.predictions:
        if style.every:
            print(draw_sheet(look, color=color, width=width))
        else:
            print(draw_grid(look, style.head, color=color, width=width))
    if style.predictions:
        whole = look.whole if isinstance(look, WordLook) else look  # predictions are of tokens
        print(f"\n{draw_predictions(whole, best, width if sys.stdout.isatty() else 1000)}")
