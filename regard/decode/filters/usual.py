"""The filters that every search has settings for.

A ruled-out token has score -inf. Scores are (rows, vocabulary), log-probabilities unless said otherwise. A filter that
rules tokens out says what it asks for and what would help, for the case that all of them together leave nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from regard.core.lazy import lazy
from regard.data.tokenizer import Tokenizer
from regard.decode.trail import Trail
from regard.errors import RegardError, SpecError

if TYPE_CHECKING:
    from regard.decode.search import Search


@dataclass
class Demands:
    """What the sentences of a batch must keep to, beside the settings of the search."""

    prefixes: Sequence[Sequence[int]] | None = None  # for each sentence, how it begins
    required: Sequence[Sequence[Sequence[int]]] | None = None  # for each sentence, phrases that must appear
    banned: Sequence[Sequence[int]] = ()  # sequences that must not
    never: Sequence[int] = ()  # tokens that aren't text
    not_first: Sequence[int] = ()  # tokens that aren't written first
    opening: int | None = None  # the first token, at no cost
    closing: bool = False  # a text that reaches the limit has its end there, as a token like the others
    # as transformers does: penalties and banned sequences look at what was read before, an end at the limit is free
    counts_read: bool = False
    most: Sequence[int] | None = None  # for each sentence, tokens before the end, where fewer than the settings allow
    filters: Sequence[Filter] = ()  # those that the settings name, built for the tokenizer


@dataclass
class Context:
    """What was written so far, and for which sentence."""

    trail: Trail | Tensor  # (rows, written), put together where it must be
    owners: list[int]  # the sentence that each row belongs to
    owing: Sequence[int] = ()  # rows that have yet to write a required word
    read: Tensor | None = None  # (rows, read), what came before, where it counts
    logits: Tensor | None = None  # (rows, vocabulary), the model's scores before they became probabilities

    @property
    def written(self) -> int:
        """How many tokens each row has written."""
        return self.trail.written if isinstance(self.trail, Trail) else self.trail.shape[1]

    @lazy
    def tokens(self) -> Tensor:
        """(rows, written); whoever must only know how many asks for `written`."""
        return self.trail.tokens if isinstance(self.trail, Trail) else self.trail

    @property
    def whole(self) -> Tensor:
        """What was written, after what was read where that counts."""
        return self.tokens if self.read is None else torch.cat((self.read, self.tokens), 1)

    def at(self, row: int) -> Context:
        """That of one row."""
        read, logits = (None if part is None else part[row : row + 1] for part in (self.read, self.logits))
        owing = [0] if row in self.owing else ()
        return Context(self.tokens[row : row + 1], [self.owners[row]], owing, read, logits)


class Filter:
    """Scores in, scores out."""

    asks: ClassVar[str] = ""  # what it wants, in a user's words, with its own fields in braces
    remedy: ClassVar[str] = ""  # what a user can do where it leaves nothing

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        raise NotImplementedError

    def bar(self, context: Context) -> Sequence[int] | None:
        """The tokens that it rules out in all rows alike, where it does nothing else; None: it must be called.

        Whoever looks for the best tokens leaves those out, and needn't copy all scores for their sake.
        """
        return None


class Barring(Filter):
    """Rules tokens out in all rows alike."""

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        barred = self.bar(context)
        return scores.index_fill(1, torch.tensor(barred, device=scores.device), -math.inf) if barred else scores

    def bar(self, context: Context) -> Sequence[int]:
        raise NotImplementedError


@dataclass
class Repetition(Filter):
    """Make tokens that were written already less likely by a factor on their log-probability (Keskar et al. 2019)."""

    penalty: float

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        if not context.whole.shape[1]:
            return scores
        seen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, context.whole, True)
        if context.logits is None:
            return torch.where(seen, scores * self.penalty, scores)
        raw = context.logits
        return torch.where(seen, torch.where(raw < 0, raw * self.penalty, raw / self.penalty), raw).log_softmax(-1)


@dataclass
class NoRepeat(Filter):
    """No run of n tokens twice."""

    n: int
    asks = "no_repeat={n}"
    remedy = "a larger no_repeat, or 0"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        whole = context.whole
        written = whole.shape[1]
        if written < self.n:
            return scores
        runs = whole.unfold(1, self.n, 1)  # (rows, runs, n)
        head = whole[:, None, written - self.n + 1 :]
        again = (runs[..., :-1] == head).all(-1)  # (rows, runs)
        row, run = again.nonzero(as_tuple=True)
        scores = scores.clone()
        scores[row, runs[row, run, -1]] = -math.inf
        return scores


@dataclass
class Banned(Filter):
    """Sequences of tokens that must not appear."""

    sequences: Sequence[Sequence[int]]
    asks = "the banned words"
    remedy = "fewer banned words"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        scores = scores.clone()
        whole = context.whole
        written = whole.shape[1]
        for *head, last in self.sequences:
            if len(head) <= written:
                match = (whole[:, written - len(head) :] == scores.new_tensor(head)).all(-1)
                scores[match, last] = -math.inf
        return scores


@dataclass
class Never(Barring):
    """Tokens that aren't text: pads, masks and their kin."""

    tokens: Sequence[int]
    asks = "that special tokens aren't text"
    remedy = "a tokenizer with more pieces"

    def bar(self, context: Context) -> Sequence[int]:
        return self.tokens


@dataclass
class NotFirst(Barring):
    """Tokens that aren't written first."""

    tokens: Sequence[int]
    place: int  # what counts as first: after a token that is given
    asks = "the tokens that aren't written first"
    remedy = "another model"

    def bar(self, context: Context) -> Sequence[int]:
        return self.tokens if context.written == self.place else ()


@dataclass
class Opening(Filter):
    """The first token is given, and costs nothing."""

    token: int
    asks = "the token that a text begins with"
    remedy = "another model"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        if context.written:
            return scores
        kept = torch.full_like(scores, -math.inf)
        kept[:, self.token] = 0.0
        return kept

    def bar(self, context: Context) -> Sequence[int] | None:
        return () if context.written else None


@dataclass
class Owed(Filter):
    """No end while a required word is owed, as long as there is room for it."""

    lengths: Sequence[int]
    ends: Sequence[int]
    asks = "the required words"
    remedy = "fewer required words"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        rows = self.find_rows(context)
        if not rows:
            return scores
        scores = scores.clone()
        for end in self.ends:
            scores[rows, end] = -math.inf
        return scores

    def bar(self, context: Context) -> Sequence[int] | None:
        return None if self.find_rows(context) else ()

    def find_rows(self, context: Context) -> list[int]:
        return [row for row in context.owing if context.written < self.lengths[context.owners[row]]]


@dataclass
class Minimum(Barring):
    """No end before so many tokens."""

    length: int
    ends: Sequence[int]
    asks = "min_tokens={length}"
    remedy = "a smaller minimum"

    def bar(self, context: Context) -> Sequence[int]:
        return self.ends if context.written < self.length else ()


@dataclass
class Maximum(Filter):
    """The end after so many tokens of a sentence, at the latest."""

    lengths: Sequence[int]
    end: int
    free: bool = False  # at no cost
    asks = "the end at the maximum"
    remedy = "a larger maximum"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        rows = self.find_rows(context)
        if not rows:
            return scores
        ends = torch.full((len(rows),), self.end, device=scores.device)
        if len(rows) == len(scores):
            scores = only(scores, ends)
        else:
            scores = scores.clone()
            scores[rows] = only(scores[rows], ends)
        if self.free:
            scores[rows, self.end] = 0.0
        return scores

    def bar(self, context: Context) -> Sequence[int] | None:
        return None if self.find_rows(context) else ()

    def find_rows(self, context: Context) -> list[int]:
        written = context.written
        if written < min(self.lengths, default=0):  # so it is at most steps, and a batch has many rows
            return []
        return [row for row, owner in enumerate(context.owners) if written >= self.lengths[owner]]


@dataclass
class Prefix(Filter):
    """Each sentence begins with tokens that are given."""

    prefixes: Sequence[Sequence[int]]
    asks = "the prefix"
    remedy = "another prefix"

    def __call__(self, scores: Tensor, context: Context) -> Tensor:
        rows, written = self.find_rows(context), context.written
        if not rows:
            return scores
        forced = torch.tensor([self.prefixes[context.owners[row]][written] for row in rows], device=scores.device)
        scores = scores.clone()
        scores[rows] = only(scores[rows], forced)
        return scores

    def bar(self, context: Context) -> Sequence[int] | None:
        return None if self.find_rows(context) else ()

    def find_rows(self, context: Context) -> list[int]:
        written = context.written
        return [row for row, owner in enumerate(context.owners) if written < len(self.prefixes[owner])]


def only(scores: Tensor, tokens: Tensor) -> Tensor:
    """All but one token of each row ruled out."""
    kept = torch.full_like(scores, -math.inf)
    return kept.scatter_(1, tokens[:, None], scores.gather(1, tokens[:, None]))


def rules(settings: Search, demands: Demands, limits: Sequence[int], ends: Sequence[int]) -> list[Filter]:
    """What holds in every search: tokens that may not come next, and those that are held against a row."""
    if len(demands.filters) < len(settings.filters):  # there may be more: whoever asks has rules of its own
        raise SpecError(
            f"filters: {settings.filters[0].kind} must be built for a tokenizer, and this search has none",
            "Demands(filters=[filter.build(tokenizer) for filter in settings.filters])",
        )
    found: list[Filter] = []
    if settings.repetition != 1:
        found.append(Repetition(settings.repetition))
    if settings.no_repeat:
        found.append(NoRepeat(settings.no_repeat))
    if demands.never:
        found.append(Never(demands.never))
    if demands.banned:
        found.append(Banned(demands.banned))
    found += demands.filters
    if settings.min_tokens:
        found.append(Minimum(settings.min_tokens, ends))
    if demands.required:
        found.append(Owed(limits, ends))
    if demands.not_first:
        found.append(NotFirst(demands.not_first, 0 if demands.opening is None else 1))
    if ends:  # where nothing is an end, whoever asks for tokens stops by counting them
        found.append(Maximum(limits, ends[0], demands.counts_read))
    if demands.opening is not None:
        found.append(Opening(demands.opening))
    if demands.prefixes:
        found.append(Prefix(demands.prefixes))
    return found


def special_tokens(tokenizer: Tokenizer) -> list[int]:
    """Tokens of ours that no text has: a model that was trained here never writes them.

    The unknown token is among them. It has no letters, so a word that it stands for would vanish from the text in
    silence; the next best token is written instead.
    """
    named = (tokenizer.pad, tokenizer.unknown, tokenizer.begin, tokenizer.separator, tokenizer.mask)
    return sorted({token for token in named if token is not None} - {*tokenizer.ends})


def explain(own: Tensor, rules: Sequence[Filter], context: Context) -> RegardError:
    """Why one row, (1, vocabulary), has no token to go on with: the model has no scores, or the rules exclude all."""
    if not bool(own.isfinite().any()):
        return RegardError("the model's scores aren't numbers: its weights are damaged", "another checkpoint")
    guilty: list[Filter] = []
    scores = own
    for rule in rules:
        left = rule(scores, context)
        if bool((left.isneginf() & ~scores.isneginf()).any()):
            guilty.append(rule)
        scores = left
    asked = " and ".join(rule.asks.format(**vars(rule)) or type(rule).__name__ for rule in guilty)
    return SpecError(
        f"no token is left to write after {context.written} tokens: {asked} exclude all {own.shape[-1]}",
        ", or ".join(rule.remedy or "another search" for rule in guilty),
    )
