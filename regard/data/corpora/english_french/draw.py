"""Where a pattern's choices come from: chance, or names given by hand.

A pattern asks for each choice by slot and name, so that a test can say *object noun: cat* and read the
sentence. A slot is a prefix of the name: "", "object ", "second object ".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices by chance for one sentence, and the keys that link its words."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random
        self.count = 0

    def key(self) -> int:
        self.count += 1
        return self.count

    def pick(self, slot: str, name: str, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def maybe(self, slot: str, name: str, chance: float, options: Sequence[T]) -> T | None:
        """One of the options, or most often none."""
        if not options or self.random() >= chance:
            return None
        return options[int(self.random() * len(options))]


class Choices(Draw):
    """Choices by hand: `{"object noun": "cat"}`. What isn't named is the first option, or none where it may be."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(lambda: 0.0)
        self.names = dict(names)
        self.used: set[str] = set()

    def pick(self, slot: str, name: str, options: Sequence[T]) -> T:
        found = self.find(slot, name, options)
        return options[0] if found is None else found

    def maybe(self, slot: str, name: str, chance: float, options: Sequence[T]) -> T | None:
        return self.find(slot, name, options)

    def find(self, slot: str, name: str, options: Sequence[T]) -> T | None:
        place = slot + name
        wanted = self.names.get(place)
        if wanted is None:
            return None
        for option in options:
            if str(option) == wanted:
                self.used.add(place)
                return option
        raise ValueError(f"{place}: {wanted} is none of {', '.join(sorted({str(option) for option in options}))}")

    def check(self) -> None:
        """Refuse names that no slot asked for."""
        if unused := set(self.names) - self.used:
            raise ValueError(f"no slot asked for {', '.join(sorted(unused))}")
