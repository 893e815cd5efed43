"""What a user hands in from Python: texts to answer, and rows to train on.

One text is a string, several are a list of them. A string is a sequence of strings too, letter by letter, so the wrong
one of the two would be answered without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.hint import suggest
from regard.core.spec import show_value
from regard.data.lines import HALVES
from regard.errors import InputError

PARTS = ("train", "validation", "test")


def check_text(text: Any, several: str) -> None:
    """Insist on one text that a tokenizer can take; `several`: what to call with many."""
    if not isinstance(text, str):
        raise InputError(f"a text is a string, and {show_value(text)} is of type {type(text).__name__}", several)
    if HALVES.search(text):
        raise InputError("the text isn't UTF-8: it has bytes that are no characters", "iconv -f latin1 -t utf-8")


def list_texts(given: str | Sequence[str]) -> Sequence[str]:
    """One text or several as several, once it is sure that they are texts."""
    texts = [given] if isinstance(given, str) else given
    check_texts(texts, "a string, or a list of strings")
    return texts


def check_texts(texts: Any, one: str) -> None:
    """Insist on several texts; `one`: what to call with one of them."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        kind = type(texts).__name__
        raise InputError(f"several texts are a list of strings, and {show_value(texts)} is of type {kind}", one)
    for text in texts:
        check_text(text, "a list of strings")


def hand_in(tree: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """A tree of settings whose corpus is rows from Python: those to train on, or a mapping with some for each split.

    What the tree says of the corpus beside its files stays: which columns are what, and what is kept back.
    """
    parts = dict(data) if isinstance(data, Mapping) else {"train": data}
    if strange := next((name for name in parts if name not in PARTS), None):
        raise InputError(f"data: no split is called {strange!r}{suggest(strange, PARTS)}", 'data={"train": ROWS}')
    corpus = tree.get("corpus")
    own = dict(corpus) if isinstance(corpus, Mapping) and corpus.get("kind", "files") == "files" else {}
    for split, rows in parts.items():
        told: Mapping[str, Any] = next(
            (own[name] for name in (split, "train") if isinstance(own.get(name), Mapping)), {}
        )
        columns = {name: value for name, value in told.items() if name not in ("kind", "path", "rows")}
        own[split] = {**columns, "kind": "rows", "rows": rows}
    return {**tree, "corpus": {**own, "kind": "files"}}
