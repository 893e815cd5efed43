"""Words that must appear: how far each hypothesis has got with them, and a beam that makes room for all stages.

Dynamic beam allocation (Post & Vilar 2018): hypotheses are kept in banks by the number of required tokens that they
have written, and the beam is shared out among the banks, so that a hypothesis that has just paid for a required word
isn't crowded out by those that have yet to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Duty:
    """The phrases still owed, and how much of one is written."""

    owed: tuple[Phrase, ...]
    current: Phrase = ()  # the phrase being written
    written: int = 0  # how many of its tokens are there
    met: int = 0  # required tokens written in all

    @classmethod
    def of(cls, phrases: Sequence[Sequence[int]]) -> Duty:
        return cls(tuple(tuple(phrase) for phrase in phrases if phrase))

    @property
    def done(self) -> bool:
        return not self.owed and not self.current

    @property
    def next(self) -> set[int]:
        """Tokens that would bring it further."""
        if self.current:
            return {self.current[self.written]}
        return {phrase[0] for phrase in self.owed}

    def after(self, token: int) -> Duty:
        """The duty once a token is written; a phrase that breaks off is owed again."""
        if self.current:
            if token == self.current[self.written]:
                return self._forward(self.current, self.written + 1, self.owed)
            dropped = Duty((*self.owed, self.current), met=self.met - self.written)
            return dropped.after(token)
        for place, phrase in enumerate(self.owed):
            if phrase[0] == token:
                return self._forward(phrase, 1, self.owed[:place] + self.owed[place + 1 :])
        return self

    def _forward(self, phrase: Phrase, written: int, owed: tuple[Phrase, ...]) -> Duty:
        if written == len(phrase):
            return Duty(owed, met=self.met + 1)
        return Duty(owed, phrase, written, self.met + 1)


def share_out(met: Sequence[int], room: int) -> list[int]:
    """Which candidates, best first and each with the number of tokens it has met, fill a beam: banks take turns."""
    banks: dict[int, list[int]] = {}
    for candidate, count in enumerate(met):
        banks.setdefault(count, []).append(candidate)
    chosen: list[int] = []
    while len(chosen) < room and any(banks.values()):
        for count in sorted(banks, reverse=True):
            if banks[count] and len(chosen) < room:
                chosen.append(banks[count].pop(0))
    return sorted(chosen)
