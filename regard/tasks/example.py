"""Examples: samples beside what a trained model makes of them, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """A sample beside a model's answer, as text.

    Each side is one text, or several: the two of a pair, the words of a sentence, the guesses for its holes.
    """

    given: tuple[str, ...]
    expected: tuple[str, ...]  # nothing where nobody knows: a text that a user typed
    answer: tuple[str, ...]
    right: bool | None = None  # whether the answer is what was expected; None where that says nothing
    note: str = ""  # how sure the model is, or what ended its answer
    aligned: bool = False  # the sides are equally long, word by word

    def as_json(self) -> dict[str, Any]:
        """The same as plain data, without what isn't there."""
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        kept = {name: value for name, value in found.items() if name == "answer" or value not in (None, "", [])}
        return kept if self.aligned else {name: value for name, value in kept.items() if name != "aligned"}


def format_share(share: float) -> str:
    """A probability as people read it."""
    return f"{share:.1%}"
