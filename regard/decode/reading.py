"""What a model reads of a text, laid out to be looked at: tokens as people read them, and what each position is to
answer. Every pipeline lays out its own texts; whoever looks needs to know nothing of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tokenizers import decoders

from regard.core.grid import Grid
from regard.core.inputs import Inputs
from regard.data.canvas import Picture
from regard.data.spelling import spell_tokens
from regard.data.tokenizer import Tokenizer

Output = Literal["softmax", "sigmoid", "none"]  # one of all answers; each by itself; the scores are the answer


@dataclass(frozen=True)
class Strip:
    """Tokens in their order, as people read them."""

    pieces: tuple[str, ...]  # a piece that begins a word begins with ▁, or the rest of a word with ##
    special: tuple[bool, ...]  # which of them are no text: a beginning, an end, a mask
    spaced: bool = False  # the tokenizer marks spaces, so a piece without a mark goes on

    @classmethod
    def of(cls, tokenizer: Tokenizer, numbers: Sequence[int], words: Sequence[str] = ()) -> Strip:
        """`words`: those beyond the vocabulary, in order."""
        controls = tokenizer.controls
        spaced = isinstance(tokenizer.engine.decoder, decoders.ByteLevel | decoders.Metaspace)
        return cls(
            tuple(spell_tokens(tokenizer, numbers, words)), tuple(number in controls for number in numbers), spaced
        )

    @classmethod
    def of_grid(cls, grid: Grid) -> Strip:
        """The places of a picture by row and column, after what stands before them."""
        places = [f"{row},{column}" for row in range(grid.height) for column in range(grid.width)]
        if grid.channels > 1:
            places = [f"{place},{channel}" for place in places for channel in range(grid.channels)]
        first = ("[class]", "[distilled]")[: grid.first]
        return cls((*first, *places), (*(True for _ in first), *(False for _ in places)))

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class Pictured:
    """The picture that the tokens along an axis are places of."""

    picture: Picture  # as a person sees it
    grid: Grid
    axis: Literal["source", "target"]


@dataclass(frozen=True)
class Reading:
    """One text in front of a model."""

    inputs: Inputs  # one row; its memory is what the encoder is to read for a decoder
    tokens: Strip  # what the stack that answers reads
    source: Strip | None = None  # what the encoder reads, where a decoder looks at it
    written: Strip | None = None  # what each position is to write, where a decoder reads what was written before
    targets: Mapping[int, int | None] = field(default_factory=dict)  # positions that answer, each with what is right
    spell: Callable[[Sequence[int]], list[str]] = lambda numbers: [
        str(number) for number in numbers
    ]  # answers as words
    output: Output = "softmax"  # how answers' scores become shares
    text: str = ""
    pictured: Pictured | None = None  # where tokens are places of a picture
    axes: Mapping[str, Strip] = field(default_factory=dict)  # what else rows and columns of maps stand for, by its name
    maps: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # weights that aren't of tokens: both their axes
