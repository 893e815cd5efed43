"""Activation patching: which value, at which position, carries the difference between two texts (Meng et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.probe import Probe, Sight, insist
from regard.errors import InputError
from regard.lens.finding import ROWS, Finding, ask, choose_answers, find_names, record
from regard.lens.look import Look


@dataclass(frozen=True)
class Patching(Finding):
    """How much of the difference each value brings back, put into the corrupted run where the clean one had it."""

    position: int | None  # where the model answers; None: it has one answer for the text
    answers: tuple[str, str]  # the clean text's and the corrupted one's
    clean: float  # the difference of their logits on the clean text
    corrupted: float  # and on the corrupted one
    recovered: dict[str, Tensor]  # (positions,) by name: 0 changes nothing, 1 makes the answer that of the clean text


@torch.no_grad()
def patch_activations(
    clean: Look,
    corrupted: Look,
    pattern: str = "*.stream",
    *,
    position: int | None = None,
    answers: tuple[int, int] | None = None,
) -> Patching:
    """Run the corrupted text with one of the clean text's values at one position; for each name and position.

    Both texts have the same number of tokens, and differ in what is asked: the logit of the clean answer less that of
    the corrupted one, at `position` (the last that answers, unless given). A share near 1 says that the value there is
    enough to bring the answer back, given all the rest of the corrupted run. It doesn't say that the model needs it:
    other ways may lead there too; and shares don't add up. `answers`: the two answers by number; unless given, what is
    right in each text, or what the model finds best.
    """
    _insist_on_pair(clean, corrupted)
    place = max(clean.targets) if position is None else position
    pair = answers or (choose_answers(clean, [place])[place], choose_answers(corrupted, [place])[place])
    spelt = clean.reading.spell(list(pair))
    if pair[0] == pair[1]:
        raise InputError(f"both texts ask for {spelt[0]!r} at position {place}", "answers=(one, other), or other texts")

    def differ(logits: Tensor) -> Tensor:
        there = logits if logits.dim() == 2 else logits[:, place]
        return there[:, pair[0]] - there[:, pair[1]]

    first, last = float(differ(ask(corrupted))), float(differ(ask(clean)))
    if first == last:
        raise InputError(
            f"the logits of {spelt[0]!r} and {spelt[1]!r} differ by {first:g} in both texts", "other texts"
        )
    names = find_names(clean, pattern)
    recovered = {}
    for name, value in record(clean, *names).items():
        if value.dim() < 2:
            raise InputError(f"{name} has no positions", "a pattern such as *.stream")
        batches = torch.arange(value.shape[-2]).split(ROWS)
        found = [differ(ask(corrupted, Transplant(name, value, batch), len(batch))) for batch in batches]
        recovered[name] = (torch.cat(found) - first) / (last - first)
    answered = None if clean.logits.dim() == 1 else place
    return Patching(answered, (spelt[0], spelt[1]), last, first, recovered)


class Transplant(Probe):
    """Put what another run had at a position into each row, another position a row."""

    def __init__(self, name: str, value: Tensor, positions: Tensor) -> None:
        self.name, self.value, self.positions = name, value, positions
        self.passed = 0

    def begin(self, sight: Sight) -> None:
        insist([self.name], sight.names)
        self.passed = 0

    def wants(self, name: str) -> bool:
        return name == self.name

    def __call__(self, name: str, value: Tensor) -> Tensor:
        changed = value.clone()
        time = value.shape[-2]  # a loop reports position by position
        for row, place in enumerate(self.positions.tolist()):
            if self.passed <= place < self.passed + time:
                changed[row, ..., place - self.passed, :] = self.value[..., place, :]
        self.passed += time
        return changed


def _insist_on_pair(clean: Look, corrupted: Look) -> None:
    if clean.model is not corrupted.model:
        raise InputError("the two looks are of two models", "two texts in one model")
    if not clean.targets:
        raise InputError("this model answers nothing, so there is no difference to bring back", "look.values('*')")
    strips: Sequence[tuple[str, int, int]] = [("text", len(clean.reading.tokens), len(corrupted.reading.tokens))]
    if clean.reading.source is not None and corrupted.reading.source is not None:
        strips = [("source", len(clean.reading.source), len(corrupted.reading.source)), *strips]
    for what, one, other in strips:
        if one != other:
            raise InputError(
                f"the clean {what} has {one} tokens and the corrupted one {other}: positions don't correspond",
                "two texts of the same number of tokens",
            )
