"""Verbs that answer lines: filling in, classifying and tagging."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.arguments import FILES, JSON, RUN, app
from regard.errors import InputError
from regard.host.machine import give_way


@app.command()
@give_way()
def fill(
    run: RUN,
    texts: Annotated[list[str], typer.Argument(help='Texts with one or more [MASK]: "the [MASK] cat".')],
    best: Annotated[int, typer.Option(help="The number of guesses for each mask.", min=1)] = 5,
    as_json: JSON = False,
) -> None:
    """Guess the hidden words of texts."""
    from regard.decode.filler import Filler
    from regard.runs.load import load_as

    filler = load_as(run, Filler, "only one that learned from hidden words fills in")
    for text in texts:
        found = filler.fill(text, best)
        if as_json:
            guesses = [[vars(guess) for guess in each] for each in found.guesses]
            print(json.dumps({"source": text, "text": found.text, "guesses": guesses}, ensure_ascii=False))
            continue
        print(found.text)
        for each in found.guesses:
            print("  " + "  ".join(f"{guess.text} {guess.probability:.1%}" for guess in each))


@app.command()
@give_way()
def classify(
    run: RUN,
    files: FILES = None,
    as_json: JSON = False,
) -> None:
    """Label each line; a tab divides the two texts of a pair."""
    from regard.data.lines import texts
    from regard.runs.load import load_as
    from regard.tasks.classification import Classifier

    classifier = load_as(run, Classifier, "only one that learned labels classifies")
    lines = list(texts([str(file) for file in files or []]))
    empty = next((number for number, line in enumerate(lines, 1) if not line.strip()), None)
    if empty is not None:
        raise InputError(f"line {empty} is empty, and an empty text has no label")
    pairs = [(first, second) for first, _, second in (line.partition("\t") for line in lines)]
    for line, verdict in zip(lines, classifier.classify_all(pairs), strict=True):
        if as_json:
            print(json.dumps({"text": line, **vars(verdict)}, ensure_ascii=False))
        else:
            told = verdict.probabilities or verdict.scores
            names = verdict.labels if classifier.output == "sigmoid" and len(told) > 1 else [verdict.label]
            names = list(told) if classifier.output == "none" else names
            print(f"{','.join(names)}\t{','.join(f'{told[name]:.4f}' for name in names)}\t{line}")


@app.command()
@give_way()
def tag(
    run: RUN,
    files: FILES = None,
    words: Annotated[bool, typer.Option("--words", help="The words of a line are divided by spaces already.")] = False,
    as_json: JSON = False,
) -> None:
    """Label each word of each line."""
    from regard.data.lines import texts
    from regard.runs.load import load_as
    from regard.tasks.tagging import Tagger

    tagger = load_as(run, Tagger, "only one that learned tags tags")
    for line in texts([str(file) for file in files or []]):
        found = tagger.tag(line.split() if words else line)
        if as_json:
            print(
                json.dumps(
                    {"words": [word for word, _ in found], "tags": [tag for _, tag in found]}, ensure_ascii=False
                )
            )
        else:
            print("".join(f"{word}\t{label}\n" for word, label in found))
