"""Verbs that answer texts, and pictures: filling in, classifying and tagging."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, verb
from regard.cli.pictures import FIT, PictureFile, PictureSource, choose_fit, choose_pictures
from regard.cli.pictures import WINDOW as PICTURES
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, TextSource, answer_each, answer_texts, choose_source
from regard.errors import SpecError
from regard.host.machine import give_way

if TYPE_CHECKING:
    from regard.data.picture import Fit
    from regard.decode.filler import Filled
    from regard.decode.pipeline import Pipeline
    from regard.tasks.verdict import Verdict


def print_json(facts: dict[str, Any]) -> None:
    print(json.dumps(facts, ensure_ascii=False))


@verb("Ask a model")
@give_way()
def fill(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    best: Annotated[int, typer.Option(metavar="N", help="The number of guesses for each mask.", min=1)] = 5,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Guess the hidden words of texts with one or more [MASK]: "the [MASK] cat"."""
    source = choose_source(texts, files)
    from regard.decode.filler import Filler
    from regard.runs.load import load_as

    filler = load_as(run, Filler, "only one that learned from hidden words fills in", precision)

    def show(text: GivenText, found: Filled) -> None:
        if as_json:
            guesses = [[vars(guess) for guess in each] for each in found.guesses]
            return print_json({"source": text.text, "text": found.text, "guesses": guesses})
        print(found.text)
        for each in found.guesses:
            print("  " + "  ".join(f"{guess.text} {guess.probability:.1%}" for guess in each))

    manner = Manner(as_json, "source", {"text": "", "guesses": []})
    answer_texts(source, "filling in", lambda each: [filler.fill(text, best) for text in each], show, manner, window=8)


@verb("Ask a model")
@give_way()
def classify(
    run: RUN,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|PICTURE",
            help="A text, or several; for a run that learned from pictures, files, folders or archives of pictures. "
            "Without any, the lines of standard input are texts.",
        ),
    ] = None,
    files: FILE = None,
    best: Annotated[int | None, typer.Option(metavar="N", help="The number of labels for each. [1]", min=1)] = None,
    fit: FIT = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Label texts, of which a tab divides the two of a pair; or pictures, whole folders and archives of them too."""
    from regard.runs.load import load

    pipeline = load(run, precision=precision)
    if pipeline.reads == "pictures":
        return classify_pictures(pipeline, run, choose_pictures(given, files), choose_fit(fit), best, as_json)
    if fit is not None:
        raise SpecError(f"--fit {fit}: is for pictures, and {run} reads texts", "leave --fit out")
    return classify_texts(pipeline, run, choose_source(given, files), best, as_json)


def classify_texts(pipeline: Pipeline, run: str, source: TextSource, best: int | None, as_json: bool) -> None:
    from regard.runs.load import insist_on_kind
    from regard.tasks.classification import Classifier

    classifier = insist_on_kind(pipeline, run, Classifier, "only one that learned labels classifies")

    def ask(lines: list[str]) -> list[Verdict]:
        return classifier.classify_all(
            [(first, second) for first, _, second in (line.partition("\t") for line in lines)]
        )

    def show(text: GivenText, verdict: Verdict) -> None:
        if as_json:
            return print_json({"text": text.text, **describe_verdict(verdict, best)})
        told = verdict.probabilities or verdict.scores
        names = verdict.labels if classifier.output == "sigmoid" and len(told) > 1 else [verdict.label]
        names = list(told) if classifier.output == "none" else names
        print_verdict({name: told[name] for name in names} if best is None else verdict.rank(best), text)

    answer_texts(source, "classifying", ask, show, Manner(as_json, "text", {"label": None}))


def classify_pictures(
    pipeline: Pipeline, run: str, source: PictureSource, fit: Fit | None, best: int | None, as_json: bool
) -> None:
    from regard.runs.load import insist_on_kind
    from regard.tasks.images import ImageClassifier

    classifier = insist_on_kind(pipeline, run, ImageClassifier, "only one that learned labels classifies")

    def ask(files: list[PictureFile]) -> list[Verdict]:
        return classifier.classify([file.content for file in files], fit)

    def show(file: PictureFile, verdict: Verdict) -> None:
        if as_json:
            return print_json({"picture": file.place, **describe_verdict(verdict, best)})
        print_verdict(verdict.rank(best or 1), file)

    manner = Manner(as_json, "picture", {"label": None})
    answer_each(source, "classifying", ask, show, manner, PICTURES)


def describe_verdict(verdict: Verdict, best: int | None) -> dict[str, Any]:
    """A verdict as plain data; of its labels only the best, if so many are wanted."""
    told = vars(verdict)
    if best is None:
        return told
    kept = verdict.rank(best)
    parts = ("probabilities", "scores")
    return told | {name: {label: told[name][label] for label in kept if label in told[name]} for name in parts}


def print_verdict(told: Mapping[str, float], given: GivenText) -> None:
    print(f"{','.join(told)}\t{','.join(f'{share:.4f}' for share in told.values())}\t{given.text}")


@verb("Ask a model")
@give_way()
def tag(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    words: Annotated[bool, typer.Option("--words", help="The words of a text are divided by spaces already.")] = False,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Label each word of texts; an empty line follows each text."""
    source = choose_source(texts, files)
    from regard.runs.load import load_as
    from regard.tasks.tagging import Tagger

    tagger = load_as(run, Tagger, "only one that learned tags tags", precision)

    def ask(lines: list[str]) -> list[list[tuple[str, str]]]:
        cut = [line.split() if words else tagger.cut_words(line) for line in lines]
        return [list(zip(*pair, strict=True)) for pair in zip(cut, tagger.tag_all(cut), strict=True)]

    def show(text: GivenText, found: list[tuple[str, str]]) -> None:
        if as_json:
            return print_json({"words": [word for word, _ in found], "tags": [label for _, label in found]})
        print("".join(f"{word}\t{label}\n" for word, label in found))

    answer_texts(source, "tagging", ask, show, Manner(as_json, "text", {"words": [], "tags": []}))
