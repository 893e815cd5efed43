"""Verbs that answer texts: filling in, classifying and tagging."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, RUN, verb
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, answer_texts, choose_source
from regard.host.machine import give_way

if TYPE_CHECKING:
    from regard.decode.filler import Filled
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
    as_json: JSON = False,
) -> None:
    """Guess the hidden words of texts with one or more [MASK]: "the [MASK] cat"."""
    source = choose_source(texts, files)
    from regard.decode.filler import Filler
    from regard.runs.load import load_as

    filler = load_as(run, Filler, "only one that learned from hidden words fills in")

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
def classify(run: RUN, texts: TEXTS = None, files: FILE = None, as_json: JSON = False) -> None:
    """Label texts; a tab divides the two texts of a pair."""
    source = choose_source(texts, files)
    from regard.runs.load import load_as
    from regard.tasks.classification import Classifier

    classifier = load_as(run, Classifier, "only one that learned labels classifies")

    def ask(lines: list[str]) -> list[Verdict]:
        return classifier.classify_all(
            [(first, second) for first, _, second in (line.partition("\t") for line in lines)]
        )

    def show(text: GivenText, verdict: Verdict) -> None:
        if as_json:
            return print_json({"text": text.text, **vars(verdict)})
        told = verdict.probabilities or verdict.scores
        names = verdict.labels if classifier.output == "sigmoid" and len(told) > 1 else [verdict.label]
        names = list(told) if classifier.output == "none" else names
        print(f"{','.join(names)}\t{','.join(f'{told[name]:.4f}' for name in names)}\t{text.text}")

    answer_texts(source, "classifying", ask, show, Manner(as_json, "text", {"label": None}))


@verb("Ask a model")
@give_way()
def tag(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    words: Annotated[bool, typer.Option("--words", help="The words of a text are divided by spaces already.")] = False,
    as_json: JSON = False,
) -> None:
    """Label each word of texts; an empty line follows each text."""
    source = choose_source(texts, files)
    from regard.runs.load import load_as
    from regard.tasks.tagging import Tagger

    tagger = load_as(run, Tagger, "only one that learned tags tags")

    def ask(lines: list[str]) -> list[list[tuple[str, str]]]:
        cut = [line.split() if words else tagger.cut_words(line) for line in lines]
        return [list(zip(*pair, strict=True)) for pair in zip(cut, tagger.tag_all(cut), strict=True)]

    def show(text: GivenText, found: list[tuple[str, str]]) -> None:
        if as_json:
            return print_json({"words": [word for word, _ in found], "tags": [label for _, label in found]})
        print("".join(f"{word}\t{label}\n" for word, label in found))

    answer_texts(source, "tagging", ask, show, Manner(as_json, "text", {"words": [], "tags": []}))
