"""Text in, text out: sentences are cut, sorted by length, searched in batches, and come back in their own order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, overload

import torch

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.given import check_texts, list_texts
from regard.data.spelling import spell_tokens
from regard.data.tokenizer import Tokenizer
from regard.data.unknown import Numbered, number_texts, spell_pieces, spell_text
from regard.decode.ensemble import Ensemble
from regard.decode.filters import Demands, special_tokens
from regard.decode.generation import Generation
from regard.decode.pipeline import Pipeline
from regard.decode.prompted import Prompted
from regard.decode.reading import Reading, Strip
from regard.decode.search import Hypothesis, Search, beam_search
from regard.errors import InputError, RegardError

Cut = Literal["source", "maximum", "context"]
ROWS = 64  # sentences that are searched together


@dataclass
class Translation:
    """One translation of a sentence, and how it came about."""

    text: str
    tokens: list[str]  # its pieces; the end is the last of them
    log_probabilities: list[float]  # the model's own, token by token
    score: float
    source_tokens: list[str]
    attention: list[list[float]] | None = None  # (tokens, source tokens), the mean of all heads; each row sums to 1
    weights: dict[str, list[list[list[float]]]] | None = None  # by name: (heads, tokens, source tokens)
    met: bool = True  # every required word is there
    cut: Cut | None = None  # what ended it where the model would have gone on: its source's length, or another limit

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

    def demands(self, sentences: int, tokenizer: Tokenizer, never: Sequence[int] = ()) -> Demands:
        """The same in tokens, each word cut as one that stands after a space; `never`: tokens that aren't text."""
        check_texts(self.required, 'required=["chat"]')
        check_texts(self.banned, 'banned=["chat"]')
        prefix, *required = tokenizer.encode([self.prefix, *self.required])
        for text, tokens in zip((self.prefix, *self.required), (prefix, *required), strict=True):
            if not {*tokenizer.ends, *never}.isdisjoint(tokens):
                raise InputError(f"{text!r} can't be written: the model has no tokens for some of it", "another word")
        banned = [piece for piece in tokenizer.encode(self.banned) if piece]
        return Demands(
            [prefix] * sentences if prefix else None, [required] * sentences if required else None, banned, never
        )


@dataclass(repr=False)
class Translator(Pipeline):
    """A network, or several, with the tokenizers that it was trained with.

    >>> import regard
    >>> translator = regard.load("runs/en-fr", kind=regard.Translator)
    >>> translation = translator.translate("the cat sleeps", beam=3)
    >>> isinstance(translation.text, str), translation.score < 0
    (True, True)
    >>> len(translator.translate(["the cat sleeps", "the dog sings"]))
    2
    """

    usage: ClassVar[str] = 'translate {} "…"'
    verbs: ClassVar[tuple[str, ...]] = ("translate", "translate_all")
    model: Model | Ensemble
    source: Tokenizer
    target: Tokenizer
    search: Search = field(default_factory=Search)  # the settings unless others are given
    generation: Generation = field(default_factory=Generation)  # what came with a model from elsewhere
    foreign: bool = False  # it came from elsewhere: its own files say how a source is framed and what it may write

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source, self.target

    @cached_property
    def scorer(self) -> Model | Ensemble | Prompted:
        """What is searched: a decoder alone reads the source as the beginning of its own text."""
        alone = isinstance(self.model, Model) and self.model.encoder is None
        return Prompted(self.model) if isinstance(self.model, Model) and alone else self.model

    @property
    def unseeing(self) -> str | None:
        """Why there is no attention over the source to look at; None where there is."""
        if self.scorer.alignments:
            return None
        if isinstance(self.scorer, Prompted):
            return "this model reads the source as the beginning of its own text: it has no attention over a source"
        return "this model sees its source as one vector: it has no attention over the source's words"

    @property
    def copies(self) -> bool:
        """Whether the model can write words of the source that its vocabulary doesn't have."""
        models = (self.model,) if isinstance(self.model, Model) else self.model.models
        return all(model.spec.head is not None and model.spec.head.copies for model in models)

    def number(self, texts: Sequence[str]) -> list[Numbered]:
        """Sources as numbers, with their unknown words where the model can copy them."""
        if self.copies:
            return number_texts(self.source, texts)
        return [Numbered(row) for row in self.source.encode(texts)]

    @property
    def begin(self) -> int:
        """What a translation begins with: for a decoder alone, what stands between source and target."""
        if not isinstance(self.scorer, Prompted):
            return self.target.begin
        if self.target.separator is None:
            raise InputError("a decoder alone translates after a separator, and this tokenizer has none")
        return self.target.separator

    @overload
    def translate(self, text: str, *, attention: bool = False, **settings: Any) -> Translation: ...

    @overload
    def translate(self, text: Sequence[str], *, attention: bool = False, **settings: Any) -> list[Translation]: ...

    def translate(
        self, text: str | Sequence[str], *, attention: bool = False, **settings: Any
    ) -> Translation | list[Translation]:
        """The best translation of a text, or of each of a list: `translate("I like the green cat.", beam=5)`.

        `attention`: with what each token looked at; None for a model that doesn't look (`unseeing` says why).
        """
        texts = list_texts(text)
        found = [best[0] for best in self.translate_all(texts, self.settings(settings), attention=attention)]
        return found[0] if isinstance(text, str) else found

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
        check_texts(texts, "translate(text), or translate_all([text])")
        chosen = self.settings({}) if settings is None else settings
        sources = self.number([text.strip() for text in texts])
        order = sorted((n for n, source in enumerate(sources) if source.tokens), key=lambda n: len(sources[n].tokens))
        found: dict[int, list[Translation]] = {
            n: [Translation("", [], [], 0.0, [])] for n, source in enumerate(sources) if not source.tokens
        }
        for first in range(0, len(order), rows):
            group = order[first : first + rows]
            try:
                answers = self._search([sources[n] for n in group], chosen, wishes, attention)
            except InputError as error:
                longest = len(sources[group[-1]].tokens) + 1
                raise InputError(f"a text of {longest} tokens: {error.message}", error.hint) from None
            found |= dict(zip(group, answers, strict=True))
        return (found[n] for n in range(len(texts)))

    def _search(
        self, sources: list[Numbered], settings: Search, wishes: Wishes | None, attention: bool
    ) -> list[list[Translation]]:
        answers, reasons = self._find([source.tokens for source in sources], settings, wishes, attention)
        rows = zip(sources, answers, reasons, strict=True)
        return [self._told(source, found, reason) for source, found, reason in rows]

    @torch.no_grad()
    def _find(
        self, sources: list[list[int]], settings: Search, wishes: Wishes | None, attention: bool
    ) -> tuple[list[list[Hypothesis]], list[Cut]]:
        """The best hypotheses of each source, and what it is that limits each."""
        inputs = Inputs.pad([self.read(source) for source in sources], self.source.pad)
        memory = self.scorer.encode(inputs.to(self.scorer.device))
        if settings.max_tokens is None:
            settings = settings.replace(max_tokens=self.search.max_tokens)
        told = self.generation
        demands = (wishes or Wishes()).demands(len(sources), self.target, self._never)
        demands.banned = [*demands.banned, *told.banned]
        demands.not_first, demands.opening, demands.closing = told.not_first, told.opening, told.closing
        demands.counts_read = self.foreign
        demands.filters = [chosen.build(self.target) for chosen in settings.filters]
        if told.opening is not None and demands.prefixes:
            demands.prefixes = [[told.opening, *prefix] for prefix in demands.prefixes]
        limits = [self._limit(len(source), settings) for source in sources]
        demands.most = [most for most, _ in limits]
        answers = beam_search(
            self.scorer,
            memory,
            len(sources),
            self.begin,
            self.target.ends,
            settings,
            demands,
            attention=attention,
        )
        return answers, [reason for _, reason in limits]

    def _limit(self, length: int, settings: Search) -> tuple[int, Cut]:
        """The most tokens of a translation, by those of its source, and what it is that allows no more."""
        most = limit(length) if settings.max_tokens is None else settings.max_tokens
        if self.scorer.limit is not None:
            # the token that it begins with takes a place too, and for a decoder alone the whole source does
            room = self.scorer.limit - 1 - (length if isinstance(self.scorer, Prompted) else 0)
            if room < most:
                return max(1, room), "context"
        return most, "source" if settings.max_tokens is None else "maximum"

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A source, and a target that is given or that the model writes now; each position writes the next token."""
        if not isinstance(self.model, Model):
            raise InputError(
                "several models answer together here, and one is looked into at a time", "load one of them"
            )
        [numbered] = self.number([text.strip()])
        source = numbered.tokens
        if not source:
            raise InputError(f"there is nothing to look at in {text!r}: it has no tokens", "a text with words")
        if target is None:
            [[best]] = self._find([source], self.settings({}), None, False)[0]
            wanted = best.tokens
        else:
            row = number_texts(self.target, [target.strip()], [numbered])[0].tokens
            opening = [] if self.generation.opening is None else [self.generation.opening]
            wanted = [*opening, *row, self.target.end]
        read = self.read(source)
        given = [self.begin, *wanted[:-1]]
        memory: Inputs | None = Inputs.pad([read], self.source.pad)
        if isinstance(self.scorer, Prompted):  # the source without its end is the beginning of its own text
            given, memory = [*read[:-1], *given], None
        first = len(given) - len(wanted)
        inputs = replace(Inputs.pad([given], self.target.pad), memory=memory)
        words = numbered.words
        return Reading(
            inputs,
            Strip.of(self.target, given, words),
            None if memory is None else Strip.of(self.source, read, words),
            Strip.of(self.target, [*given[1 : first + 1], *wanted], words),
            {first + place: token for place, token in enumerate(wanted)},
            partial(spell_tokens, self.target, words=words),
            text=text,
        )

    def settings(self, given: Mapping[str, Any]) -> Search:
        """A search with what is given; where nothing is, as the model's own files say, or a beam of five."""
        told = self.generation.for_translation
        usual: dict[str, Any] = {"beam": 1 if told.get("sample") else 5} | told
        if "beam" not in given:
            usual["beam"] = max(usual["beam"], int(given.get("best", 1)))
        return Search.parse(usual).heed(given)

    def insist_on_wishes(self, wishes: Wishes) -> None:
        """Refuse words that the model can't write, before there is a text."""
        wishes.demands(1, self.target, self._never)

    @property
    def _never(self) -> Sequence[int]:
        """The tokens that aren't text."""
        return self.generation.never if self.foreign else special_tokens(self.target)

    def read(self, source: Sequence[int]) -> list[int]:
        """A source's tokens as the encoder reads them, with what stands around them."""
        return self.source.wrap(source, ((), (self.source.end,)), self.foreign)

    def _told(self, source: Numbered, found: list[Hypothesis], reason: Cut) -> list[Translation]:
        texts = [spell_text(self.target, item.tokens, source.words) for item in found]
        pieces = spell_pieces(self.source, self.read(source.tokens), source.words)
        return [
            Translation(
                text,
                spell_pieces(self.target, item.tokens, source.words),
                item.log_probabilities,
                item.score,
                pieces,
                None if item.attention is None else item.attention[:, : len(pieces)].tolist(),
                {name: seen[..., : len(pieces)].tolist() for name, seen in item.weights.items()} or None,
                item.met,
                reason if item.cut else None,
            )
            for text, item in zip(texts, found, strict=True)
        ]


def limit(length: int) -> int:
    """The most tokens of a translation, unless more are asked for: a model that doesn't end must be stopped."""
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
    if any(isinstance(part.scorer, Prompted) for part in translators):
        raise RegardError("an ensemble is of models with an encoder", "one run at a time")
    models = [part.model for part in translators if isinstance(part.model, Model)]
    return Translator(Ensemble(models), first.source, first.target, first.search, first.generation, first.foreign)
