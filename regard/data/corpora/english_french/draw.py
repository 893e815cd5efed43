"""Where a pattern's choices come from: chance, or names given by hand.

A pattern asks for each choice by slot and name, so that a test can say *object noun: cat* and read the
sentence. A slot is a prefix of the name: "", "object ", "second object ".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


FEW = 8  # a shorter list is grammar rather than words: tenses, persons, articles


class Draw:
    """Choices by chance for one sentence, and the keys that link its words."""

    def __init__(self, random: Callable[[], float], words: DrawnWords | None = None) -> None:
        self.random = random
        self.words = words
        self.count = 0

    def key(self) -> int:
        self.count += 1
        return self.count

    def pick(self, slot: str, name: str, options: Sequence[T]) -> T:
        options = self.open(options)
        return options[int(self.random() * len(options))]

    def maybe(self, slot: str, name: str, chance: float, options: Sequence[T]) -> T | None:
        """One of the options, or most often none."""
        if not options or self.random() >= chance:
            return None
        options = self.open(options)
        return options[int(self.random() * len(options))]

    def open(self, options: Sequence[T]) -> Sequence[T]:
        """Those of the options that are in use."""
        return options if self.words is None or len(options) <= FEW else self.words.among(options)


class DrawnWords:
    """A smaller vocabulary: the words that may be drawn from any list."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.known: dict[int, tuple[Sequence[Any], Sequence[Any]]] = {}

    def among(self, options: Sequence[T]) -> Sequence[T]:
        """The options that are in it, or the first few where there are hardly any."""
        if id(options) not in self.known:
            if len(self.known) > 1000:
                self.known.clear()
            found = [option for option in options if str(option) in self.names]
            # the list itself is kept beside the answer, so that its id stays its own
            self.known[id(options)] = options, found if len(found) > 2 else options[:FEW]
        return self.known[id(options)][1]


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
