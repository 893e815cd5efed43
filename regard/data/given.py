"""What a user hands in: one text is a string, several are a list of them.

A string is a sequence of strings too, letter by letter, so the wrong one of the two would be answered without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.spec import show_value
from regard.data.lines import HALVES
from regard.errors import InputError


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
