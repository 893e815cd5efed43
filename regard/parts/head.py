"""Heads: from hidden vectors to words, classes or tags."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.activation import ACTIVATIONS, Activation
from regard.core.dense import Dense, Lookup
from regard.core.factors import Factors, WordHead
from regard.core.mask import average
from regard.core.mixer import Part
from regard.core.role import Answers, HeadSpec, NormSpec
from regard.core.spec import Rate, Size, build_optional
from regard.core.view import View
from regard.errors import InputError, SpecError

Pool = Literal["first", "last", "mean", "sum", "max", "sequence"]


class Vocabulary(HeadSpec):
    """One score for each word, by the token vectors themselves when tied (Press & Wolf 2017)."""

    kind: Literal["vocabulary"] = "vocabulary"
    answers: ClassVar[Answers] = "words"
    size: Size | None = None
    """There are scores for this many words; unless given, for as many as the embedding has."""
    tied: bool = True
    """The token vectors themselves score the words."""
    bias: bool = False
    """The scores have a bias."""
    transform: Activation | None = None
    """A dense layer with this activation stands before the words, as in BERT's masked-word head."""
    transform_bias: bool = True
    """That dense layer has a bias."""
    norm: NormSpec | None = None
    """This norm follows the dense layer."""
    scale: bool = False
    """Vectors are divided by √width first, as T5 does with a tied table."""
    directions: Size = 1
    """This many parts of the vector each predict a word of their own."""
    value: bool = False
    """Beside the words, a number says what a text will be worth, for learning from rewards; whoever writes never asks.
    """

    @property
    def direction_count(self) -> int:
        return self.directions

    @property
    def layer(self) -> str | None:
        return self.transform

    @property
    def word_head(self) -> Self:
        return self

    def resize(self, tokens: int) -> Self:
        return self if self.size is None else self.replace(size=tokens)

    def with_value(self, wanted: bool) -> Self:
        return self if self.value == wanted else self.replace(value=wanted)

    def build(self, width: int, table: Lookup | None = None) -> Part:
        if table is None and (self.tied or self.size is None):
            raise SpecError("head: there is no table of token vectors to tie to or to take the size from", "size=…")
        if self.tied and table is not None and self.size not in (None, table.num_embeddings):
            raise SpecError(f"head.size: {self.size} words can't share a table of {table.num_embeddings}", "tied=false")
        if self.tied and table is not None and table.embedding_dim != width // self.directions:
            raise SpecError(
                f"head.tied: a table of vectors of {table.embedding_dim} can't score vectors of {width}", "tied=false"
            )
        return VocabularyHead(self, width, table)


class VocabularyHead(WordHead):
    before = ("dense", "norm")
    anew = ("worth",)

    def __init__(self, spec: Vocabulary, width: int, table: Lookup | None) -> None:
        super().__init__()
        self.spec = spec
        self.width = width // spec.directions
        size = spec.size or (table.num_embeddings if table is not None else 0)
        self.dense = Dense(width, width, bias=spec.transform_bias) if spec.transform else None
        self.norm: nn.Module | None = build_optional(spec.norm, width)
        self.words: Dense | Lookup
        if spec.tied:
            self.__dict__["words"] = table  # looked up, not owned
        else:
            self.words = Dense(self.width, size, bias=False)
            self.words.scores = True
        self.bias = nn.Parameter(torch.zeros(size)) if spec.bias else None
        # attention has a layer that is called value, and adapters are meant for that
        self.worth = Dense(width, 1) if spec.value else None

    def reset(self) -> None:
        if self.worth is not None:  # nothing is known of rewards yet, and a guess by chance would only be in the way
            nn.init.zeros_(self.worth.weight)
            nn.init.zeros_(self.worth.bias)

    def forward(self, x: Tensor, view: View) -> Tensor:
        """(batch, time, vocabulary); (batch, time, directions, vocabulary) where there are several."""
        return self.words.score(self.prepare(x), self.bias)

    def factors(self, x: Tensor) -> Factors:
        """What the scores are a product of, for a loss that needn't have them all at once."""
        return Factors(self.prepare(x), self.words.matrix(), self.bias, self.words.score)

    def values(self, x: Tensor) -> Tensor:
        if self.worth is None:
            return super().values(x)
        found: Tensor = self.worth(x)
        return found.squeeze(-1)

    def prepare(self, x: Tensor) -> Tensor:
        """The vectors that are compared with the words."""
        if self.dense is not None and self.spec.transform:
            x = ACTIVATIONS[self.spec.transform](self.dense(x))
        if self.norm is not None:
            x = self.norm(x)
        if self.spec.scale:
            x = x * self.width**-0.5
        if self.spec.directions > 1:
            x = x.unflatten(-1, (self.spec.directions, self.width))
        return x


class Transformed(HeadSpec):
    """A head with a layer of its own before the answer, if wanted: BERT's tanh, ModernBERT's gelu and norm."""

    dense: bool = False
    """A dense layer stands before the answer."""
    activation: Activation = "tanh"
    """The activation of that layer."""
    dense_bias: bool = True
    """That layer has a bias."""
    norm: NormSpec | None = None
    """This norm follows the layer."""

    @property
    def layer(self) -> str:
        return self.activation

    def layer_settings(self) -> dict[str, Any]:
        return {"dense": self.dense, "activation": self.activation, "dense_bias": self.dense_bias, "norm": self.norm}


class TransformedHead(Part):
    """norm(f(dense x)), as far as that is there."""

    before: ClassVar[tuple[str, ...]] = ("dense", "norm")

    def __init__(self, spec: Transformed, width: int) -> None:
        super().__init__()
        self.dense = Dense(width, width, bias=spec.dense_bias) if spec.dense else None
        self.norm: nn.Module | None = build_optional(spec.norm, width)
        self.activation = ACTIVATIONS[spec.activation]

    def transform(self, x: Tensor) -> Tensor:
        x = x if self.dense is None else self.activation(self.dense(x))
        return x if self.norm is None else self.norm(x)


class Pooler(Transformed):
    """One vector for each row: its first or last real token, or a mean of them; then a layer (BERT's pooler).

    `sequence` is CCT's mean, weighted by a softmax over all positions (Hassani et al. 2021).
    """

    kind: Literal["pooler"] = "pooler"
    pool: Pool = "first"
    """A row's vector is that of its first or last real token, the mean, the sum or the maximum of all, or a learned
    mean of them (sequence)."""
    dense: bool = True

    def layer_settings(self) -> dict[str, Any]:
        return super().layer_settings() | {"pool": self.pool}

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return PoolerHead(self, width)


class PoolerHead(TransformedHead):
    before = ("weigh", "dense", "norm")

    def __init__(self, spec: Pooler, width: int) -> None:
        super().__init__(spec, width)
        self.pool = spec.pool
        self.weigh = Dense(width, 1) if spec.pool == "sequence" else None
        self.names = ("shares",) if spec.pool == "sequence" else ()  # what each position has of the vector

    def forward(self, x: Tensor, view: View) -> Tensor:
        return self.transform(self.gather(x, view))

    def gather(self, x: Tensor, view: View) -> Tensor:
        """(batch, time, width) -> (batch, width); of rows that pack documents, a vector for each of these."""
        mask = view.mask
        if mask.documents is not None:
            x, mask = mask.unpack(x), mask.apart.mask
        valid = mask.valid
        if self.weigh is not None:
            scores = self.weigh(x).squeeze(-1)  # (batch, time)
            scores = scores if valid is None else scores.masked_fill(~valid, -torch.inf)
            shares = view.see(self.path, "shares", scores.softmax(-1))
            return (shares[:, None] @ x).squeeze(1)
        if self.pool == "mean":
            return average(x, valid)
        if self.pool == "sum":
            return x.sum(1) if valid is None else (x * valid[..., None]).sum(1)
        if self.pool == "max":
            return (x if valid is None else x.masked_fill(~valid[..., None], -torch.inf)).amax(1)
        if valid is None:
            return x[:, 0 if self.pool == "first" else -1]
        order = torch.arange(valid.shape[1], device=x.device)
        place = valid.int().argmax(1) if self.pool == "first" else (valid * order).argmax(1)
        return x[torch.arange(x.shape[0], device=x.device), place]


class Classes(Transformed):
    """One score for each class: (batch, classes)."""

    kind: Literal["classes"] = "classes"
    answers: ClassVar[Answers] = "classes"
    classes: Size
    """There are this many classes."""
    pool: Pool = "first"
    """A row's vector is that of its first or last real token, the mean, the sum or the maximum of all, or a learned
    mean of them (sequence)."""
    dropout: Rate = 0.0
    """This share of the vector is dropped before the classes while training."""
    bias: bool = True
    """The scores have a bias."""

    @property
    def label_count(self) -> int:
        return self.classes

    def layer_settings(self) -> dict[str, Any]:
        return super().layer_settings() | {"pool": self.pool}

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return ClassesHead(self, width)


class ClassesHead(Part):
    before = ("pooler.weigh", "pooler.dense", "pooler.norm")
    by_label = ("classes",)

    def __init__(self, spec: Classes, width: int) -> None:
        super().__init__()
        self.pooler = PoolerHead(Pooler(**spec.layer_settings()), width)
        self.dropout = spec.dropout
        self.classes = Dense(width, spec.classes, bias=spec.bias)

    def forward(self, x: Tensor, view: View) -> Tensor:
        return self.classes(F.dropout(self.pooler(x, view), self.dropout, self.training))


class Distilled(HeadSpec):
    """One score for each class: the mean of what the class token says, and the token that a teacher taught (DeiT)."""

    kind: Literal["distilled"] = "distilled"
    answers: ClassVar[Answers] = "classes"
    classes: Size
    """There are this many classes."""

    @property
    def label_count(self) -> int:
        return self.classes

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return DistilledHead(self, width)


class DistilledHead(Part):
    by_label = ("classes", "taught")

    def __init__(self, spec: Distilled, width: int) -> None:
        super().__init__()
        self.classes = Dense(width, spec.classes)
        self.taught = Dense(width, spec.classes)

    def forward(self, x: Tensor, view: View) -> Tensor:
        if view.grid is not None and view.grid.first < 2:
            raise InputError(f"this head asks two tokens, and {view.grid.first} stand in front", "taught=true")
        return (self.classes(x[:, 0]) + self.taught(x[:, 1])) / 2


class Tags(Transformed):
    """One score for each tag at every position: (batch, time, tags)."""

    kind: Literal["tags"] = "tags"
    answers: ClassVar[Answers] = "tags"
    tags: Size
    """There are this many tags."""
    dropout: Rate = 0.0
    """This share of the vector is dropped before the tags while training."""

    @property
    def label_count(self) -> int:
        return self.tags

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return TagsHead(self, width)


class TagsHead(TransformedHead):
    by_label = ("tags",)

    def __init__(self, spec: Tags, width: int) -> None:
        super().__init__(spec, width)
        self.dropout = spec.dropout
        self.tags = Dense(width, spec.tags)

    def forward(self, x: Tensor, view: View) -> Tensor:
        return self.tags(F.dropout(self.transform(x), self.dropout, self.training))


class Dual(HeadSpec):
    """An answer, and words beside it: for a language model that learns to classify (Radford et al. 2018)."""

    kind: Literal["dual"] = "dual"
    answers: ClassVar[Answers] = "classes"
    answer: HeadSpec
    """The head of the answer."""
    words: HeadSpec
    """The head of the words."""

    @property
    def label_count(self) -> int | None:
        return self.answer.label_count

    @property
    def word_head(self) -> HeadSpec | None:
        return self.words.word_head

    def resize(self, tokens: int) -> Self:
        return self.replace(words=self.words.resize(tokens))

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return DualHead(self, width, table)


class DualHead(WordHead):
    by_label = ("answer.classes", "answer.tags")

    def __init__(self, spec: Dual, width: int, table: Lookup | None) -> None:
        super().__init__()
        self.answer, self.words = spec.answer.build(width, table), spec.words.build(width, table)
        if not isinstance(self.words, WordHead):
            raise SpecError(f"head.words: {spec.words.kind} scores no words", "words=vocabulary")

    def forward(self, x: Tensor, view: View) -> Tensor:
        found: Tensor = self.answer(x, view)
        return found

    def factors(self, x: Tensor) -> Factors:
        assert isinstance(self.words, WordHead)
        return self.words.factors(x)
