"""The roles that specs play inside a stack: norms, feed-forwards, embeddings, positions, heads, first weights.

What others ask of such a part is a property or a method here, so that nobody looks for its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.grid import Grid
from regard.core.registry import Kinds
from regard.core.spec import Size, Spec
from regard.errors import SpecError

if TYPE_CHECKING:
    from torch import nn

    from regard.core.dense import Lookup
    from regard.core.order import Order
    from regard.core.stack import StackSpec

Answers = Literal["words", "classes", "tags", "vectors", "positions"]  # what heads give
NodeOrder = Literal["given", "random", "degree", "eigenvector", "random-walk", "breadth-first", "cluster"]


@dataclass(frozen=True)
class GraphReading:
    """What a model wants to be told of a graph: the order of its nodes, and how many channels say where each stands."""

    order: NodeOrder = "given"
    laplacian: int = 0
    walks: int = 0


class NormSpec(Spec):
    """What keeps activations in range."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".norm"

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError


class FeedSpec(Spec):
    """What mixes channels, position by position."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".ffn"

    @property
    def nonlinearity(self) -> str | None:
        """The activation between its two layers, if it is of that make."""
        return None

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError


class EmbeddingSpec(Spec):
    """What turns inputs into vectors. What others ask of it are properties, so that nobody looks for its fields."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".embedding"

    @property
    def token_count(self) -> int | None:
        """How many tokens it has vectors for; None: it doesn't read tokens."""
        return None

    @property
    def speller(self) -> StackSpec | None:
        """The stack that reads the letters of words; None: it doesn't spell."""
        return None

    @property
    def segment_count(self) -> int:
        """How many segments it tells apart; 0: it has no vectors for them."""
        return 0

    @property
    def limit(self) -> int | None:
        """How many positions it has vectors for; None: no end."""
        return None

    @property
    def absolute(self) -> AbsoluteSpec | None:
        """The positions that it adds to what it reads."""
        return None

    @property
    def grid(self) -> Grid | None:
        """The picture that its positions are places of, if they are."""
        return None

    @property
    def picture(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the pictures that it reads; None: it reads none."""
        return None

    @property
    def graph(self) -> GraphReading | None:
        """What it wants to know of a graph whose nodes it reads; None: it reads no graphs."""
        return None

    def read_graphs(self, categories: tuple[int, ...], channels: int, edge_kinds: tuple[int, ...]) -> Self:
        """The same for nodes and edges with so many categories of each sort, or for nodes with so many numbers."""
        raise SpecError(f"model: {self.kind} reads no nodes, and this task has graphs", "model=gin, or model=graph-gps")

    def redraw(self, height: int, width: int, channels: int) -> Self:
        """The same for pictures of another size, where it reads pictures."""
        return self

    def reorder(self, order: Order, seed: int = 0) -> Self:
        """The same for pictures whose pixels come in another order, where they come one by one."""
        if order != "raster":
            raise SpecError(f"task.order: {self.kind} reads no pixels in an order", "model=pixel-gpt")
        return self

    def locate(self, position: AbsoluteSpec | None) -> Self:
        """The same with other positions; None: with none."""
        if position is not None:
            raise SpecError(f"position: {self.kind} takes no positions of another kind", "position=rotary")
        return self

    def resize(self, tokens: int) -> Self:
        """The same for so many tokens, where it reads tokens."""
        return self

    def read_unknown(self, token: int) -> Self:
        """The same for words that have no vector, which are read as this token."""
        raise SpecError(f"embedding: {self.kind} can't read words that it has no vectors for", "embedding=tokens")

    def respell(self, letters: int) -> Self:
        """The same for so many letters, where it spells words."""
        return self

    def build(self, width: int, table: Lookup | None = None) -> nn.Module:
        raise NotImplementedError


class AbsoluteSpec(Spec):
    """Positions that stand beside the words: added to their vectors, or features of their own."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".position"
    join: Literal["add", "concatenate"] = "add"
    """Positions are added to the words' vectors, or stand beside them as features, projected to the width together."""
    size: Size | None = None
    """What is concatenated has this many channels; unless given, as many as the model."""

    @model_validator(mode="after")
    def check_size(self) -> Self:
        if self.size is not None and self.join == "add":
            raise ValueError(f"size: what is added is as wide as the model, and not {self.size}; try join=concatenate")
        return self

    @property
    def limit(self) -> int | None:
        """How many positions there are; None: no end."""
        return None

    @property
    def planar(self) -> bool:
        """Whether it asks for the row and the column of a position."""
        return False

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError


class RelativeSpec(Spec):
    """Positions that act inside attention: a rotation of queries and keys, or a bias on their scores."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".position"

    @property
    def shared_heads(self) -> int | None:
        """How many heads it serves when a whole stack shares it; None: it belongs to one layer."""
        return None

    @property
    def planar(self) -> bool:
        """Whether it asks for the row and the column of a position."""
        return False

    def build(self, heads: int, size: int) -> nn.Module:
        raise NotImplementedError


class HeadSpec(Spec):
    """What turns the last hidden vectors into an answer."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".head"
    answers: ClassVar[Answers] = "vectors"

    @property
    def label_count(self) -> int | None:
        """How many labels it scores; None: it doesn't answer with labels."""
        return None

    @property
    def direction_count(self) -> int:
        """How many words it predicts at each position: ELMo's has one for each direction."""
        return 1

    @property
    def layer(self) -> str | None:
        """The activation of the layer before its answer, which makes that layer's weights what they are."""
        return None

    def layer_settings(self) -> dict[str, Any]:
        """How it gathers states and what layer it has before the answer, for another head that is to have the same."""
        return {}

    @property
    def word_head(self) -> HeadSpec | None:
        """The part of it that scores words, if there is one."""
        return None

    @property
    def copies(self) -> bool:
        """Whether it can answer with words of the source that its vocabulary doesn't have."""
        return False

    def memory_width(self, width: int) -> int | None:
        """The width of the memory that it looks at inside a model of some width; None: it looks at none."""
        return None

    def resize(self, tokens: int) -> Self:
        """The same for so many tokens, where it has a size of its own."""
        return self

    def with_value(self, wanted: bool) -> Self:
        """The same with a number beside its words that says what a text will be worth, or without."""
        if wanted:
            raise SpecError(f"head: {self.kind} can't say what a text will be worth", "head=vocabulary")
        return self

    def build(self, width: int, table: Lookup | None = None) -> nn.Module:
        raise NotImplementedError


class InitSpec(Spec):
    """How matrices start."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.parts")
    home: ClassVar[str | None] = ".init"

    def fill(self, model: nn.Module, sublayers: int) -> None:
        raise NotImplementedError


def insist_on_memory(part: str, wanted: int | None, left: int | None) -> None:
    """Refuse a part that reads a memory of another width than the encoder leaves, if it leaves one."""
    if wanted is not None and wanted != left:
        there = "there is none" if left is None else f"the encoder leaves one of {left}"
        raise ValueError(f"{part} reads a memory of width {wanted}, and {there}")
