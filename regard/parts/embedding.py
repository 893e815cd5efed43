"""Embeddings: token vectors, with segments and positions if wanted, spelled words, and numbers."""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.dropout import dropout
from regard.core.edges import Edges
from regard.core.grid import Grid
from regard.core.mixer import Part
from regard.core.role import AbsoluteSpec, EmbeddingSpec, NormSpec
from regard.core.spec import Count, Rate, Size, build_optional, divides
from regard.core.stack import StackSpec
from regard.core.tape import NotWritable, Tape
from regard.core.view import View
from regard.errors import InputError, SpecError


class Tokens(EmbeddingSpec):
    """The sum of token, position and segment vectors, then a norm and dropout."""

    kind: Literal["tokens"] = "tokens"
    vocabulary: Size
    """There are vectors for this many tokens."""
    size: Size | None = None
    """A token's vector has this many channels; unless given, the width."""
    copies: Size = 1
    """A vector stands this many times side by side, for directions that never meet."""
    scale: bool = False
    """Vectors are multiplied by √width, as in the 2017 paper."""
    position: AbsoluteSpec | None = None
    """Positions are added in this way."""
    segments: Count = 0
    """There are vectors for this many segments."""
    norm: NormSpec | None = None
    """This norm follows the sum."""
    dropout: Rate = 0.0
    """This share of the sum is dropped while training."""
    unknown: Count | None = None
    """A number beyond the vocabulary, which names a word that has no vector, is read as this token; unless given, such
    numbers are refused."""

    @property
    def token_count(self) -> int:
        return self.vocabulary

    def read_unknown(self, token: int) -> Self:
        return self.replace(unknown=token)

    @property
    def segment_count(self) -> int:
        return self.segments

    @property
    def limit(self) -> int | None:
        return None if self.position is None else self.position.limit

    @property
    def absolute(self) -> AbsoluteSpec | None:
        return self.position

    def locate(self, position: AbsoluteSpec | None) -> Self:
        return self.replace(position=position)

    def resize(self, tokens: int) -> Self:
        return self.replace(vocabulary=tokens)

    def build(self, width: int, table: Lookup | None = None) -> Part:
        divides(self.copies, width, "copies", "width", fixed=True)
        size = self.size or width // self.copies
        if table is not None and (table.num_embeddings, table.embedding_dim) != (self.vocabulary, size):
            lent = f"{table.num_embeddings} words of {table.embedding_dim}"
            raise SpecError(f"share: a table of {lent} can't serve a vocabulary of {self.vocabulary} words of {size}")
        return TokenEmbedding(self, width, table)


class Embedding(Part):
    """Inputs to vectors; `table` holds the token vectors that a head or another stack may use too."""

    table: Lookup | None
    grid: Grid | None = None  # the picture that its positions are places of, if they are

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        """Rows and positions that the inputs will make."""
        raise NotImplementedError

    def describe_edges(self, edges: Edges) -> Edges:
        """Edges with a vector for each, where it has vectors for their kinds."""
        return edges


class TokenEmbedding(Embedding):
    def __init__(self, spec: Tokens, width: int, table: Lookup | None) -> None:
        super().__init__()
        self.spec = spec
        part = width // spec.copies
        size = spec.size or part
        self.scale = math.sqrt(width) if spec.scale else 1.0
        if table is None:
            self.tokens = Lookup(spec.vocabulary, size)
        else:
            # a lent table is looked up, not owned: its weights keep the one name that they have
            self.__dict__["tokens"] = table
        self.project = Dense(size, part, bias=False) if size != part else None
        self.position: nn.Module | None = build_optional(spec.position, width)
        self.beside = make_projection(spec.position, width)
        self.segments = Lookup(spec.segments, width) if spec.segments else None
        self.norm: nn.Module | None = build_optional(spec.norm, width)

    @property
    def table(self) -> Lookup:  # type: ignore[override]
        return self.tokens

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        if inputs.dim() != 2 or inputs.is_floating_point():
            raise InputError(f"tokens are integers of shape (rows, time), not {inputs.dtype} {tuple(inputs.shape)}")
        return inputs.shape[0], inputs.shape[1]

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        if self.spec.unknown is not None:
            inputs = inputs.masked_fill(inputs >= self.spec.vocabulary, self.spec.unknown)
        x = self.tokens(inputs)
        if self.project is not None:
            x = self.project(x)
        if self.spec.copies > 1:
            x = x.repeat(1, 1, self.spec.copies)
        if self.spec.scale:
            x = x * self.scale
        if self.position is not None:
            x = join_positions(x, self.position(view), self.beside)
        if self.segments is not None:
            x = x + self.segments(view.extras.get("segments", torch.zeros_like(inputs)))
        if self.norm is not None:
            x = self.norm(x)
        return dropout(x, self.spec.dropout) if self.spec.dropout and self.training else x

    def write(self, tape: Tape, x: int) -> int:
        """The sum of token and position vectors, and its norm."""
        spec = self.spec
        if spec.unknown is not None or spec.segments or spec.copies > 1 or self.beside is not None:
            raise NotWritable("an embedding of more than words and places")
        if self.project is not None and spec.scale:
            raise NotWritable("vectors that are scaled behind their projection")
        x = tape.fetch(self.tokens, self.scale)
        if self.project is not None:
            x = tape.multiply(self.project, x)
        if self.position is not None:
            # by its `forward`: where a module is hooked, no tape is played
            x = tape.add(tape.give(self, tape.widths[x], self.position.forward), x)
        return x if self.norm is None else tape.norm(self.norm, x)


def make_projection(position: AbsoluteSpec | None, width: int) -> Dense | None:
    """What brings words and concatenated positions back to the width; None where they are added."""
    if position is None or position.join == "add":
        return None
    return Dense(width + (position.size or width), width, bias=False)


def join_positions(x: Tensor, positions: Tensor, beside: Dense | None) -> Tensor:
    """W [word; position], of which word + position is the case W = [1 1]; `positions`: (1 or rows, time, size)."""
    positions = positions.to(x.dtype)
    return x + positions if beside is None else beside(torch.cat((x, positions.expand(len(x), -1, -1)), -1))


class Spelled(EmbeddingSpec):
    """A word's vector beside what a stack of its own makes of the word's letters (Ling et al. 2015)."""

    kind: Literal["spelled"] = "spelled"
    words: EmbeddingSpec
    """The embedding of whole words."""
    letters: StackSpec
    """The stack that reads a word's letters."""

    @property
    def token_count(self) -> int | None:
        return self.words.token_count

    @property
    def speller(self) -> StackSpec:
        return self.letters

    @property
    def segment_count(self) -> int:
        return self.words.segment_count

    @property
    def limit(self) -> int | None:
        return self.words.limit

    def resize(self, tokens: int) -> Self:
        return self.replace(words=self.words.resize(tokens))

    def respell(self, letters: int) -> Self:
        return self.replace(letters=self.letters.replace(embedding=self.letters.embedding.resize(letters)))

    def build(self, width: int, table: Lookup | None = None) -> Part:
        if self.letters.width >= width:
            raise SpecError(
                f"letters.width: {self.letters.width} must be below the model's width {width}: words need a part of it",
                f"task.spelling.width={width // 2}",
            )
        return SpelledEmbedding(self, width, table)


class SpelledEmbedding(Embedding):
    """Letters come as extras: `spellings`, (words, letters), 0 where a word has ended; `spelled`, (rows, time)."""

    def __init__(self, spec: Spelled, width: int, table: Lookup | None) -> None:
        super().__init__()
        self.words: Embedding = spec.words.build(width - spec.letters.width, table)  # type: ignore[assignment]
        self.letters = spec.letters.build()

    @property
    def table(self) -> Lookup | None:  # type: ignore[override]
        return self.words.table

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        return self.words.measure(inputs)

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        missing = [name for name in ("spellings", "spelled") if name not in view.extras]
        if missing:
            raise InputError(f"this model reads letters, and there are no {missing[0]}", "extras={'spellings': …}")
        spellings = view.extras["spellings"]
        inside = View.of(spellings, spellings > 0, probe=view.probe)
        inside.dtype = view.dtype
        states = self.letters(spellings, inside)  # (words, letters, width)
        found = states.masked_fill(~(spellings > 0)[..., None], -torch.inf).amax(1)
        return torch.cat((self.words(inputs, view), found[view.extras["spelled"]]), -1)


class Numbers(EmbeddingSpec):
    """Several numbers at each position, projected to a vector."""

    kind: Literal["numbers"] = "numbers"
    channels: Size = 1
    """There are this many numbers at each position."""

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return NumberEmbedding(self, width)


class NumberEmbedding(Embedding):
    table = None

    def __init__(self, spec: Numbers, width: int) -> None:
        super().__init__()
        self.channels = spec.channels
        self.project = Dense(spec.channels, width)

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        if inputs.dim() != 3 or inputs.shape[2] != self.channels or not inputs.is_floating_point():
            given = f"{inputs.dtype} {tuple(inputs.shape)}"
            raise InputError(f"numbers are floats of shape (rows, time, {self.channels}), not {given}")
        return inputs.shape[0], inputs.shape[1]

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        found: Tensor = self.project(inputs)
        return found
