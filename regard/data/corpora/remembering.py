"""What a memory is tried with beside copying: repeating, and recalling what came next (Graves et al. 2014)."""

from __future__ import annotations

from random import Random
from typing import Literal

from regard.core.spec import Size
from regard.data.corpora.algorithms import ALGORITHMS, LETTERS, SPACES, AlgorithmSpec, Problem, alphabet
from regard.errors import SpecError

ITEM, ASK = "|", "?"  # what stands before an item, and before the one that is asked for


def repeat_copy(random: Random, size: int, symbols: int = 8, repeats: int = 10) -> Problem:
    """The same letters several times: c a 3 → c a c a c a."""
    source, times = random.choices(alphabet(LETTERS, symbols), k=size), random.randint(1, repeats)
    return Problem([*source, str(times)], source * times, size)


def associative_recall(random: Random, size: int, symbols: int = 8, length: int = 3) -> Problem:
    """The item after the one that is asked for: | c a | f b | e e ? f b → e e. The `size` items are all different."""
    if size < 2:
        raise SpecError(f"associative-recall: size {size} has no item after another", "sizes from 2")
    if symbols**length < size:
        raise SpecError(f"associative-recall: {symbols} symbols make {symbols**length} items, and {size} are asked for")
    items: dict[tuple[str, ...], None] = {}
    while len(items) < size:
        items[tuple(random.choices(alphabet(LETTERS, symbols), k=length))] = None
    told, asked = list(items), random.randrange(size - 1)
    source = [token for item in told for token in (ITEM, *item)]
    return Problem([*source, ASK, *told[asked]], list(told[asked + 1]), size)


def repetitions(size: int, symbols: int = 8, repeats: int = 10) -> int:
    return int(repeats * symbols**size)


def recalls(size: int, symbols: int = 8, length: int = 3) -> int:
    """All rows of different items, with each item but the last asked for."""
    found = size - 1
    for taken in range(size):
        found *= symbols**length - taken
    return found


ALGORITHMS |= {"repeat-copy": repeat_copy, "associative-recall": associative_recall}
SPACES |= {"repeat-copy": repetitions, "associative-recall": recalls}


class RepeatCopy(AlgorithmSpec):
    """The same letters, as many times as a number says."""

    kind: Literal["repeat-copy"] = "repeat-copy"
    sizes: tuple[Size, Size] = (1, 10)
    symbols: Size = 8
    """This many different letters occur."""
    repeats: Size = 10
    """Letters are repeated at most this many times."""


class AssociativeRecall(AlgorithmSpec):
    """The item that came after the one that is asked for."""

    kind: Literal["associative-recall"] = "associative-recall"
    sizes: tuple[Size, Size] = (2, 6)
    symbols: Size = 8
    """This many different letters occur."""
    length: Size = 3
    """An item has this many letters."""
