"""Rows of tokens that a model goes on from: generation for a model in hand, where there is no text and no tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding
from regard.decode.engine import Beginning, Choice, Engine, Request, Scorer, Turn
from regard.decode.filters import Demands, rules, shapes
from regard.decode.search import MOST, Search, beam_search
from regard.errors import InputError


@torch.no_grad()
def generate(
    model: Model,
    tokens: Tensor | Inputs,
    *,
    valid: Tensor | Padding | None = None,
    begin: int | None = None,
    end: int | Sequence[int] | None = None,
    **settings: Any,
) -> list[list[int]]:
    """The tokens that a model writes after each row, without the row itself; an end that it came to is the last one.

    A decoder goes on from the row. A model with an encoder reads the row there, and must be told what `begin` and
    `end` are. The settings are those of a `Search`: `max_tokens`, `sample`, `top_p`, `seed`, … Dropout is off.

    >>> import regard, torch
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build()
    >>> [written] = model.generate(torch.tensor([[5, 6, 7]]), max_tokens=4)
    >>> len(written)
    4
    """
    inputs = Inputs.of(tokens, valid=valid).to(model.device)
    search, ends = Search.parse(settings), _list_ends(end)
    with model.in_use():
        if model.encoder is None:
            rows = PromptBatch(model, inputs, search, ends)
            Engine(model).run(rows)
            return rows.written
        if begin is None or not ends:
            raise InputError("a translation must know its first token and its last", "generate(…, begin=2, end=3)")
        found = beam_search(model, model.encode(inputs), len(inputs.tokens), begin, ends, search)
        return [best[0].tokens for best in found]


def _list_ends(end: int | Sequence[int] | None) -> tuple[int, ...]:
    if end is None:
        return ()
    return (end,) if isinstance(end, int) else tuple(end)


class PromptBatch(Request):
    """Prompts of any lengths, each with the one continuation that is being written, or with several.

    A prompt is read once for all of its continuations. `seeds`: the luck of each of them, prompt by prompt, so that
    what is drawn doesn't depend on which others are drawn beside it; unless given, it follows from the settings' seed.
    """

    def __init__(
        self,
        model: Model,
        prompts: Inputs,
        settings: Search,
        ends: tuple[int, ...],
        samples: int = 1,
        seeds: Sequence[int] | None = None,
    ) -> None:
        if settings.beam > 1:
            raise InputError(f"beam {settings.beam}: rows go on token by token, greedily or by chance", "beam=1")
        count = samples * len(prompts.tokens)
        real = prompts.valid if isinstance(prompts.valid, Padding) else None
        if real is None:
            real = Padding.read(prompts.real)
        # the last token of a prompt is read with the first choice, and a model may have no positions beyond its table
        most = settings.max_tokens or MOST
        self.maximum = most if model.limit is None else min(most, max(1, model.limit - real.longest + 1))
        super().__init__(range(count), rules(settings, Demands(), [self.maximum + 1] * count, ends))
        self.model, self.prompts, self.padding, self.ends = model, prompts.tokens, real, ends
        self.shapes = shapes(settings)
        luck = [settings.seed * 1_000_003 + row for row in range(count)] if seeds is None else seeds
        self.generators = [torch.Generator().manual_seed(seed) for seed in luck] if settings.sample else None
        self.written: list[list[int]] = [[] for _ in range(count)]

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        """Prompts of one length as they are; of others all but each last real token, which the first choice follows.

        Rows that have read equally many tokens are never told apart later, so their steps take the quickest way.
        """
        count, time = self.prompts.shape
        state = self.model.start(count, room=time + self.maximum)
        if self.padding.whole:
            return Beginning(state, self.prompts)
        places = self.padding.valid.long().cumsum(1)  # 1, 2, … over the real tokens of a row
        last = places.argmax(1, keepdim=True)
        before = self.padding.valid & (places < places[:, -1:])
        if before.any():
            self.model.step(self.prompts, state, valid=before)
        return Beginning(state, self.prompts.gather(1, last))

    def choose(self, turn: Turn) -> Choice:
        """A token for each row; a row goes when it has ended or is as long as it may be."""
        owners = turn.context.owners
        drawn = None if self.generators is None else [self.generators[row] for row in owners]
        choice = turn.draw(self.shapes, drawn)
        for row, token in zip(owners, choice.tokens, strict=True):
            self.written[row].append(token)
        full = turn.written + 1 >= self.maximum
        return choice.pick([] if full else [at for at, token in enumerate(choice.tokens) if token not in self.ends])
