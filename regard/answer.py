"""Lines in, answers out: filling in, classifying and tagging, as the command line does it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.decode.filler import Filler
from regard.errors import InputError
from regard.noun import asked
from regard.tasks.classification import Classifier
from regard.tasks.tagging import Tagger
from regard.translate import texts


def fill(noun: str, lines: Sequence[str], best: int, as_json: bool) -> None:
    """Each text with its masks filled in, and what else came to mind."""
    filler = asked(noun, Filler, "only one that learned from hidden words fills in")
    for text in lines:
        found = filler.fill(text, best)
        if as_json:
            guesses = [[vars(guess) for guess in each] for each in found.guesses]
            print(json.dumps({"source": text, "text": found.text, "guesses": guesses}, ensure_ascii=False))
            continue
        print(found.text)
        for each in found.guesses:
            print("  " + "  ".join(f"{guess.text} {guess.probability:.1%}" for guess in each))


def classify(noun: str, files: Sequence[Path], as_json: bool) -> None:
    """A label for each line, or all that hold, or the numbers of a head that has no labels; a tab divides a pair."""
    classifier = asked(noun, Classifier, "only one that learned labels classifies")
    lines = list(texts(files))
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


def tag(noun: str, files: Sequence[Path], words: bool, as_json: bool) -> None:
    """The words of each line with their tags."""
    tagger = asked(noun, Tagger, "only one that learned tags tags")
    for line in texts(files):
        found = tagger.tag(line.split() if words else line)
        if as_json:
            print(
                json.dumps(
                    {"words": [word for word, _ in found], "tags": [tag for _, tag in found]}, ensure_ascii=False
                )
            )
        else:
            print("".join(f"{word}\t{label}\n" for word, label in found))
