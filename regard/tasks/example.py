"""Examples: samples beside what a trained model makes of them, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.decode.writer import Writer


PROMPT = 120  # letters of a document that are given as a prompt, at most


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


def open_text(text: str, writer: Writer) -> tuple[str, str]:
    """The beginning of a document, as a prompt that leaves half of the context free; and how the document goes on."""
    size = min(PROMPT, max(1, len(text) // 2))
    while True:
        end = 1 + max(text.rfind(" ", 1, size), text.rfind("\n", 1, size)) or size  # between two words, if there are
        prompt = text[:end].rstrip(" ")
        if writer.context is None or len(writer.encode(prompt)) <= max(2, writer.context // 2) or size == 1:
            return prompt, text[len(prompt) : len(prompt) + 2 * PROMPT]
        size = max(1, size // 2)
