"""Text in, text out: sentences are cut, sorted by length, searched in batches, and come back in their own order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.core.model import Model
from regard.data.batches import padded
from regard.data.tokenizer import Tokenizer
from regard.decode.ensemble import Ensemble
from regard.decode.filters import Demands
from regard.decode.prompted import Prompted
from regard.decode.search import Hypothesis, Search, search
from regard.errors import InputError, RegardError

ROWS = 64  # sentences that are searched together


@dataclass
class Translation:
    """One translation of a sentence, and how it came about."""

    text: str
    tokens: list[str]  # its pieces; the end is the last of them
    log_probabilities: list[float]  # the model's own, token by token
    score: float
    source_tokens: list[str]
    attention: list[list[float]] | None = None  # (tokens, source tokens), each row sums to 1
    met: bool = True  # every required word is there

    def as_json(self) -> dict[str, Any]:
        """What is there, and nothing that isn't."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        if self.met:
            del found["met"]
        return found


@dataclass
class Wishes:
    """What a user wants of the words themselves."""

    prefix: str = ""  # how each translation begins
    required: Sequence[str] = ()  # words that must appear
    banned: Sequence[str] = ()  # words that must not

    def demands(self, sentences: int, tokenizer: Tokenizer) -> Demands:
        """The same in tokens, each word cut as one that stands after a space."""
        prefix = tokenizer.encode([self.prefix])[0] if self.prefix else []
        required = tokenizer.encode(self.required)
        banned = [piece for piece in tokenizer.encode(self.banned) if piece]
        return Demands([prefix] * sentences if prefix else None, [required] * sentences if required else None, banned)


@dataclass
class Translator:
    """A network, or several, with the tokenizers that it was trained with."""

    network: Model | Ensemble | Prompted
    source: Tokenizer
    target: Tokenizer
    search: Search = field(default_factory=Search)  # the settings unless others are given

    @property
    def begin(self) -> int:
        """What a translation begins with: for a decoder alone, what stands between source and target."""
        if not isinstance(self.network, Prompted):
            return self.target.begin
        if self.target.separator is None:
            raise InputError("a decoder alone translates after a separator, and this tokenizer has none")
        return self.target.separator

    def translate(self, text: str, *, attention: bool = False, **settings: Any) -> Translation:
        """The best translation of a text: `translate("I like the green cat.", beam=5)`."""
        chosen = self.search.replace(**settings)
        return next(self.translate_all([text], chosen, attention=attention))[0]

    def translate_all(
        self,
        texts: Sequence[str],
        settings: Search | None = None,
        wishes: Wishes | None = None,
        *,
        attention: bool = False,
        rows: int = ROWS,
    ) -> Iterator[list[Translation]]:
        """The best translations of each text, in order; an empty text has one, the empty one."""
        sources = self.source.encode([text.strip() for text in texts])
        order = sorted((n for n, source in enumerate(sources) if source), key=lambda n: len(sources[n]))
        found: dict[int, list[Translation]] = {
            n: [Translation("", [], [], 0.0, [])] for n, source in enumerate(sources) if not source
        }
        for first in range(0, len(order), rows):
            group = order[first : first + rows]
            try:
                answers = self._searched([sources[n] for n in group], settings or self.search, wishes, attention)
            except InputError as error:
                longest = len(sources[group[-1]]) + 1
                raise InputError(f"a text of {longest} tokens: {error.message}", error.hint) from None
            found |= dict(zip(group, answers, strict=True))
        return (found[n] for n in range(len(texts)))

    @torch.no_grad()
    def _searched(
        self, sources: list[list[int]], settings: Search, wishes: Wishes | None, attention: bool
    ) -> list[list[Translation]]:
        table, valid = padded([[*source, self.source.end] for source in sources], self.source.pad)
        device = self.network.device
        memory = self.network.encode(table.to(device), valid.to(device))
        demands = (wishes or Wishes()).demands(len(sources), self.target)
        demands.most = [self._most(len(source)) for source in sources]
        answers = search(
            self.network,
            memory,
            len(sources),
            self.begin,
            self.target.end,
            settings,
            demands,
            attention=attention,
        )
        if not all(answers):
            raise RegardError("the model's scores aren't numbers: its weights are damaged", "another checkpoint")
        return [self._told(source, found) for source, found in zip(sources, answers, strict=True)]

    def _most(self, length: int) -> int:
        """Tokens of a translation, by those of its source, and by what a decoder alone has places for."""
        table = self.network.model.limit if isinstance(self.network, Prompted) else None
        return limit(length) if table is None else max(1, min(limit(length), table - length - 2))

    def _told(self, source: list[int], found: list[Hypothesis]) -> list[Translation]:
        texts = self.target.decode([item.tokens for item in found])
        pieces = self.source.pieces([*source, self.source.end])
        return [
            Translation(
                text,
                self.target.pieces(item.tokens),
                item.log_probabilities,
                item.score,
                pieces,
                None if item.attention is None else item.attention[:, : len(pieces)].tolist(),
                item.met,
            )
            for text, item in zip(texts, found, strict=True)
        ]


def limit(length: int) -> int:
    """The most tokens of a translation, by those of its source: a model that doesn't end must be stopped."""
    return 2 * length + 20


def ensemble(translators: Sequence[Translator]) -> Translator:
    """Several translators as one; they must cut text alike."""
    first = translators[0]
    if len(translators) == 1:
        return first
    for other in translators[1:]:
        if (other.source.digest, other.target.digest) != (first.source.digest, first.target.digest):
            raise RegardError(
                "the runs of an ensemble share a vocabulary, and these have different tokenizers",
                "train the second with tokenizer.like=FIRST_RUN",
            )
    networks = [part.network for part in translators]
    if any(isinstance(network, Prompted) for network in networks):
        raise RegardError("an ensemble is of models with an encoder", "one run at a time")
    models = [network for network in networks if isinstance(network, Model)]
    return Translator(Ensemble(models), first.source, first.target, first.search)
