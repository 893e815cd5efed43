"""Filling in: what an encoder thinks stands behind each mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, overload

import torch

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.given import list_texts
from regard.data.spelling import spell_tokens
from regard.data.tokenizer import MASK, Tokenizer
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Reading, Strip
from regard.errors import InputError, SpecError


@dataclass
class Guess:
    """One word for one mask."""

    text: str
    probability: float


@dataclass
class Filled:
    """A text with its masks filled in, each with its best word, and the others that came to mind."""

    text: str
    guesses: list[list[Guess]]  # for each mask, best first


@dataclass(repr=False)
class Filler(Pipeline):
    """An encoder that learned to guess hidden tokens, and its tokenizer.

    >>> import regard
    >>> filler = regard.load("runs/masked", kind=regard.Filler)
    >>> len(filler.fill("the [MASK] sleeps", best=3).guesses[0])
    3
    """

    usage: ClassVar[str] = 'fill {} "… [MASK] …"'
    verbs: ClassVar[tuple[str, ...]] = ("fill",)
    model: Model
    tokenizer: Tokenizer
    foreign: bool = False  # the tokenizer itself says how a text begins and ends

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @overload
    def fill(self, text: str, best: int = 5) -> Filled: ...  # type: ignore[overload-overlap]

    @overload
    def fill(self, text: Sequence[str], best: int = 5) -> list[Filled]: ...

    def fill(self, text: str | Sequence[str], best: int = 5) -> Filled | list[Filled]:
        """The likeliest words for each `[MASK]`, in a text or in each of a list: `fill("the [MASK] cat")`."""
        found = [self._fill(each, best) for each in list_texts(text)]
        return found[0] if isinstance(text, str) else found

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A text whose masks are to be guessed; without one, each position is asked for its own token."""
        refuse_target(self, target)
        row = self._read(text)
        masks: dict[int, int | None] = {place: None for place, token in enumerate(row) if token == self.tokenizer.mask}
        strip = Strip.of(self.tokenizer, row)
        if all(strip.special) and not masks:
            raise InputError(f"there is nothing to look at in {text!r}: it has no tokens", "a text with words")
        own = {place: token for place, token in enumerate(row) if not strip.special[place]}
        inputs = Inputs.pad([row], self.tokenizer.pad)
        return Reading(inputs, strip, targets=masks or own, spell=partial(spell_tokens, self.tokenizer), text=text)

    def _read(self, text: str) -> list[int]:
        tokenizer = self.tokenizer
        mask = needs_mask(tokenizer, "this model's tokenizer")
        own = str(tokenizer.engine.id_to_token(mask))
        cut = tokenizer.obey(text.replace(MASK, own), [mask])
        return tokenizer.wrap(cut, ((tokenizer.begin,), (tokenizer.end,)), self.foreign)

    @torch.no_grad()
    def _fill(self, text: str, best: int) -> Filled:
        tokenizer, network = self.tokenizer, self.model
        row = self._read(text)
        places = [place for place, token in enumerate(row) if token == tokenizer.mask]
        if not places:
            raise InputError(f"there is no {MASK} in {text[:60]!r}", f'"the {MASK} cat"')
        logits = network(torch.tensor([row], device=network.device))[0]
        logs = logits[places].float().log_softmax(-1)
        top = logs.topk(min(best, logs.shape[-1]), -1)
        guesses = [
            [Guess(self._word(int(token)), float(log.exp())) for token, log in zip(tokens, values, strict=True)]
            for tokens, values in zip(top.indices, top.values, strict=True)
        ]
        for place, tokens in zip(places, top.indices, strict=True):
            row[place] = int(tokens[0])
        return Filled(tokenizer.decode([row])[0], guesses)

    def _word(self, token: int) -> str:
        return self.tokenizer.decode([[token]])[0].strip() or self.tokenizer.pieces([token])[0]


def needs_mask(tokenizer: Tokenizer, whose: str) -> int:
    """The mask's number; an error where there is none."""
    if tokenizer.mask is None:
        raise SpecError(f"{whose} has no {MASK}, so nothing can be hidden", "a run of task=masking, or a BERT")
    return tokenizer.mask
