"""Algorithmic tasks: problems of any size with one right answer, to see what a model learns and how far it carries.

A problem is a source and a target of short tokens. Train on some sizes and test on longer ones, and accuracy by size
says whether the algorithm was learned, or only its cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from math import comb
from random import Random
from string import ascii_letters, ascii_lowercase, digits
from typing import ClassVar, Literal, get_args

from regard.core.spec import Size
from regard.data.corpus import Generated
from regard.data.corpus import Split as CorpusSplit
from regard.data.dialogue import ASSISTANT, USER, say
from regard.data.sample import Form, Sample
from regard.data.split import split_by_text
from regard.errors import SpecError

Split = Literal["train", "validation", "test"]
LETTERS = ascii_lowercase
SORTED = digits + ascii_lowercase  # in order
HINTS = ascii_letters  # marks for the places of a number
PLUS, TRIGGER, NOISE = "+", "!", "."
FEW = 1000  # problems: too few to share out
TRIES = 1000  # before a size counts as one that a split has no problem of


@dataclass(frozen=True)
class Problem:
    """What is given, what is asked for, and the size that accuracy is told by."""

    source: list[str]
    target: list[str]
    size: int


@dataclass(frozen=True)
class Series:
    """The adding problem: numbers, two of which are marked with 1, and the sum of those two."""

    values: list[float]
    marks: list[int]
    target: float


def copy(random: Random, size: int, symbols: int = 10) -> Problem:
    """The same letters again: c a f → c a f."""
    source = random.choices(alphabet(LETTERS, symbols), k=size)
    return Problem(source, list(source), size)


def reverse(random: Random, size: int, symbols: int = 10) -> Problem:
    """The letters from last to first: c a f → f a c."""
    source = random.choices(alphabet(LETTERS, symbols), k=size)
    return Problem(source, source[::-1], size)


def sort(random: Random, size: int, symbols: int = 10) -> Problem:
    """The digits from small to large: 7 2 7 0 → 0 2 7 7. Above ten symbols, letters follow the digits."""
    source = random.choices(alphabet(SORTED, symbols), k=size)
    return Problem(source, sorted(source), size)


def alphabet(letters: str, symbols: int) -> str:
    """The first so many letters."""
    if not 1 <= symbols <= len(letters):
        raise SpecError(f"{symbols} symbols: there must be 1 to {len(letters)}")
    return letters[:symbols]


def add(random: Random, size: int, reverse: bool = False, hints: bool = False) -> Problem:
    """Two numbers, the longer of `size` digits, and their sum: 1 2 3 + 4 5 → 1 6 8.

    `reverse` writes all three numbers from the ones upwards, as one adds by hand (Shen et al. 2023): 3 2 1 + 5 4 →
    8 6 1. `hints` writes a letter before each digit, the same letter for the same place in all three numbers (Zhou et
    al. 2023): b 1 c 2 d 3 + b 0 c 4 d 5 → b 1 c 6 d 8. The letters follow each other from a random place of a longer
    alphabet, so that short sums in training show the letters that long ones need. With hints the shorter number is
    padded with zeros to the digits of the longer; where the sum has a digit more, that has the letter next to theirs.
    """
    lengths = [size, random.randint(1, size)]
    random.shuffle(lengths)
    operands = [natural(random, length) for length in lengths]
    letters = draw_run(random, size + 1) if hints else ""
    places = letters if reverse else letters[::-1]  # from the ones upwards
    left, right, target = (write_digits(value, places, reverse) for value in (*operands, sum(operands)))
    return Problem([*left, PLUS, *right], target, size)


def natural(random: Random, length: int) -> int:
    """A number of so many digits; of one digit, it may be 0."""
    return random.randint(10 ** (length - 1) if length > 1 else 0, 10**length - 1)


def draw_run(random: Random, length: int) -> str:
    """Letters that follow each other, from anywhere."""
    if length > len(HINTS):
        raise SpecError(
            f"hints: numbers of {length - 1} digits need {length} letters, and there are {len(HINTS)}",
            f"sizes up to {len(HINTS) - 1}",
        )
    start = random.randint(0, len(HINTS) - length)
    return HINTS[start : start + length]


def write_digits(value: int, places: str, reverse: bool) -> list[str]:
    """The digits of a number; if places have letters, each behind its own, with zeros up to the last place but one."""
    upwards = str(value)[::-1].ljust(len(places) - 1, "0")
    marked: list[tuple[str, ...]] = list(zip(places, upwards, strict=False)) if places else list(zip(upwards))
    return [token for group in (marked if reverse else reversed(marked)) for token in group]


def induction(random: Random, size: int, vocabulary: int = 16) -> Problem:
    """What followed the trigger? (induction heads, as in Gu & Dao 2023): c a ! f b e ! → f.

    Random letters, the trigger once among them and again at the very end; `vocabulary` counts it.
    """
    if size < 3:
        raise SpecError(f"induction: size {size} has no room for trigger, letter and trigger", "sizes from 3")
    letters = random.choices(alphabet(LETTERS, vocabulary - 1), k=size - 2)
    place = random.randrange(size - 2)
    return Problem([*letters[:place], TRIGGER, *letters[place:], TRIGGER], [letters[place]], size)


def selective_copy(random: Random, size: int, tokens: int = 16, symbols: int = 15) -> Problem:
    """The letters without the noise between them (selective copying, Gu & Dao 2023): . c . . a f . → c a f."""
    if not 1 <= tokens <= size:
        raise SpecError(f"selective-copy: {tokens} tokens among {size}", "tokens from 1 to the smallest size")
    target = random.choices(alphabet(LETTERS, symbols), k=tokens)
    source = [NOISE] * size
    for place, letter in zip(sorted(random.sample(range(size), tokens)), target, strict=True):
        source[place] = letter
    return Problem(source, target, size)


def adding(random: Random, size: int) -> Series:
    """The adding problem (Hochreiter & Schmidhuber 1997): numbers from 0 to 1, one of each half marked, their sum."""
    if size < 2:
        raise SpecError(f"adding: size {size} has no two halves", "sizes from 2")
    values = [round(random.random(), 4) for _ in range(size)]
    chosen = random.randrange(size // 2), random.randrange(size // 2, size)
    marks = [int(place in chosen) for place in range(size)]
    return Series(values, marks, round(values[chosen[0]] + values[chosen[1]], 4))


ALGORITHMS: dict[str, Callable[..., Problem]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "add": add,
    "induction": induction,
    "selective-copy": selective_copy,
}


def sequences(size: int, symbols: int = 10) -> int:
    return symbols**size


def sums(size: int, reverse: bool = False, hints: bool = False) -> int:
    """All pairs of numbers up to `size` digits but those of which both are shorter; hints make no new sums."""
    return 10 ** (2 * size) - (10 ** (2 * size - 2) if size > 1 else 0)


def inductions(size: int, vocabulary: int = 16) -> int:
    return (size - 2) * (vocabulary - 1) ** (size - 2)


def selections(size: int, tokens: int = 16, symbols: int = 15) -> int:
    return comb(size, tokens) * symbols**tokens


# how many problems of a size there are, by the algorithm's own options
SPACES: dict[str, Callable[..., int]] = {
    "copy": sequences,
    "reverse": sequences,
    "sort": sequences,
    "add": sums,
    "induction": inductions,
    "selective-copy": selections,
}


def problems(
    name: str, split_seed: str, sizes: tuple[int, int], options: Mapping[str, int] | None = None
) -> Iterator[Problem]:
    """An endless stream of problems of one split, the same for the same `split_seed`: a split and a seed, `train 0`.

    Sizes are drawn evenly between two, both included. A problem belongs to one split by a stable hash of its source,
    without hints, whatever the seed; a size that has no problem in the split is left out. Where there are fewer than
    a thousand problems in all, each split has all of them: a twentieth would be too few to test with, and the question
    is then whether they can be learned at all.
    """
    split, options = split_seed.partition(" ")[0], options or {}
    if split not in get_args(Split):
        raise ValueError(f"split {split} is none of {', '.join(get_args(Split))}")
    make = maker(name, options)
    check(sizes, make)
    belongs = None if few(partial(SPACES[name], **options), sizes) else split
    return stream(make, Random(f"{name} {split_seed}"), sizes, belongs)


def maker(name: str, options: Mapping[str, int]) -> Callable[[Random, int], Problem]:
    """An algorithm with its options."""
    if name not in ALGORITHMS:
        raise SpecError(f"algorithm {name} is none of {', '.join(ALGORITHMS)}")
    known = list(signature(ALGORITHMS[name]).parameters)[2:]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise SpecError(f"{name} has no {unknown[0]}; it has {', '.join(known)}")
    return partial(ALGORITHMS[name], **options)


def check(sizes: tuple[int, int], make: Callable[[Random, int], Problem]) -> None:
    """Refuse sizes that the algorithm can't do, before the first problem is asked for."""
    if not 1 <= sizes[0] <= sizes[1]:
        raise SpecError(f"sizes {sizes[0]} to {sizes[1]}: the first must be at least 1, and at most the second")
    for size in sizes:
        make(Random(0), size)


def few(count: Callable[[int], int], sizes: tuple[int, int]) -> bool:
    """Whether there are too few problems to share out."""
    total = 0
    for size in range(sizes[0], sizes[1] + 1):
        total += count(size)
        if total >= FEW:
            return False
    return True


def stream(
    make: Callable[[Random, int], Problem], random: Random, sizes: tuple[int, int], split: str | None
) -> Iterator[Problem]:
    """Problems by chance; with a split, those that belong to it."""
    left = list(range(sizes[0], sizes[1] + 1))
    while left:
        size = random.choice(left)
        drawn = (make(random, size) for _ in range(TRIES))
        problem = next((problem for problem in drawn if split in (None, choose_split(problem))), None)
        if problem is None:
            left.remove(size)
        else:
            yield problem


def choose_split(problem: Problem) -> Split:
    """The split of a problem, whatever the seed; the letters of hints don't count."""
    bare = [token for token in problem.source if token not in HINTS] if PLUS in problem.source else problem.source
    return split_by_text(" ".join(bare))


class SizedSpec(Generated):
    """Problems of sizes that can be chosen, and others for the test."""

    sizes: tuple[Size, Size] = (1, 20)
    """Problems of training and validation have sizes from the first number to the second."""
    test_sizes: tuple[Size, Size] | None = None
    """Problems of the test have these sizes; unless given, those of training. Longer ones show what carries over."""

    def bounds(self, split: CorpusSplit) -> tuple[int, int]:
        return (self.test_sizes or self.sizes) if split == "test" else self.sizes


class AlgorithmSpec(SizedSpec):
    """Problems with one right answer, their tokens divided by spaces; a user may put them, and an assistant answer."""

    gives: ClassVar[tuple[Form, ...]] = ("pairs", "conversations", "prompts")

    def stream(self, form: Form, split: CorpusSplit) -> Iterator[Sample]:
        common = {*AlgorithmSpec.model_fields}
        options = {name: value for name, value in self.fields().items() if name not in common}
        for problem in problems(self.kind, f"{split} {self.seed}", self.bounds(split), options):
            source, target = " ".join(problem.source), " ".join(problem.target)
            yield {**_put_problem(source, target, form), "size": problem.size}


def _put_problem(source: str, target: str, form: Form) -> Sample:
    """A problem as a sample of a form."""
    if form == "conversations":
        return {"messages": [say(USER, source), say(ASSISTANT, target)]}
    if form == "prompts":
        return {"prompt": [say(USER, source)], "answer": target}
    return {"source": source, "target": target}


class Copy(AlgorithmSpec):
    """The same letters again."""

    kind: Literal["copy"] = "copy"
    symbols: Size = 10
    """This many different letters occur."""


class Reverse(AlgorithmSpec):
    """Letters from last to first."""

    kind: Literal["reverse"] = "reverse"
    symbols: Size = 10
    """This many different letters occur."""


class Sort(AlgorithmSpec):
    """Digits from small to large."""

    kind: Literal["sort"] = "sort"
    symbols: Size = 10
    """This many different symbols occur: ten digits, and then letters."""


class Add(AlgorithmSpec):
    """Two numbers and their sum, digit by digit."""

    kind: Literal["add"] = "add"
    sizes: tuple[Size, Size] = (1, 10)
    reverse: bool = False
    """Numbers are written from the ones upwards, as one adds by hand."""
    hints: bool = False
    """A letter before each digit marks its place."""


class Induction(AlgorithmSpec):
    """What followed the trigger, the last time?"""

    kind: Literal["induction"] = "induction"
    sizes: tuple[Size, Size] = (256, 256)
    vocabulary: Size = 16
    """This many different letters occur."""


class SelectiveCopy(AlgorithmSpec):
    """The letters that stand scattered among noise."""

    kind: Literal["selective-copy"] = "selective-copy"
    sizes: tuple[Size, Size] = (256, 256)
    tokens: Size = 16
    """This many letters are scattered among the noise."""
    symbols: Size = 15
    """This many different letters occur."""


class Adding(SizedSpec):
    """The adding problem: so many numbers from 0 to 1, two of them marked, and the sum of these."""

    gives: ClassVar[tuple[Form, ...]] = ("series",)
    kind: Literal["adding"] = "adding"
    train: Size = 50_000
    sizes: tuple[Size, Size] = (600, 600)

    def stream(self, form: Form, split: CorpusSplit) -> Iterator[Sample]:
        chance = Random(f"adding {split} {self.seed}")
        while True:
            yield vars(adding(chance, chance.randint(*self.bounds(split))))
