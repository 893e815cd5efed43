"""Sizes that fit a corpus and a machine: plain rules of thumb, each with its reason, for a first run that works.

They are a place to start from: `regard plan` measures what a run will cost, and a curve says whether it was enough.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from regard.data.survey import SplitSurvey
from regard.host.machine import device, total_memory

# words to train on up to which a model is so wide and deep; beyond the last it is as large as the machine allows
SMALL, MEDIUM, LARGE = 200_000, 2_000_000, 20_000_000
PASSES = {SMALL: 30, MEDIUM: 12, LARGE: 4}  # over the corpus: the less there is, the more often it is seen
SPEED = 6000  # words a second that one core trains at width 128 and depth 2, roughly
BUDGETS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120)  # minutes, of which one is chosen
PIECE = 2.5  # characters of a token, of a small vocabulary
GIGABYTE = 2**30


@dataclass(frozen=True)
class Machine:
    """What there is to compute with."""

    cores: int
    memory: int
    gpu: bool = False

    @classmethod
    def look(cls) -> Machine:
        """The one that this runs on."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(cores, total_memory(), device("auto").type != "cpu")

    def describe(self) -> str:
        graphics = ", a GPU" if self.gpu else ""
        return f"{self.cores} core{'s' * (self.cores > 1)}{graphics}, {self.memory / GIGABYTE:.0f} GB"


@dataclass(frozen=True)
class Amount:
    """How much there is to learn from."""

    samples: int
    words: int  # all of them, or what else the samples are made of
    different: int
    longest: int  # tokens of a sample, reckoned from its characters

    @classmethod
    def measure(cls, part: SplitSurvey, scale: int = 1) -> Amount:
        """Of a split; `scale`: how many times as much there will be."""
        sides = {name: count for name, count in part.lengths.items() if not name.endswith(" characters")}
        characters = {name: count.longest for name, count in part.lengths.items() if name.endswith(" characters")}
        longest = max((int(most / PIECE) for most in characters.values()), default=0)
        longest = max(longest, *(count.longest for count in sides.values()), 1)
        if "second words" in sides:  # both texts are read together
            longest *= 2
        words = sum(count.total for count in sides.values())
        return cls(part.samples * scale, words * scale, part.words.different, longest)


@dataclass(frozen=True)
class Sizes:
    """What a run of a first try is given."""

    width: int
    depth: int
    dropout: float
    vocabulary: int
    longest: int
    batch: int
    rate: float
    passes: int
    minutes: int
    evaluate: int


def choose_sizes(amount: Amount, machine: Machine) -> Sizes:
    """Sizes for a corpus on a machine."""
    width, depth = _choose_shape(amount.words, machine)
    longest = min(1024, _round_up(amount.longest + 8, 64))
    batch = max(1024 if machine.memory < 4 * GIGABYTE else 2048 if amount.words < MEDIUM else 4096, 2 * longest)
    passes = next((count for most, count in PASSES.items() if amount.words < most), 2)
    steps = max(1, passes * amount.words // batch)
    return Sizes(
        width=width,
        depth=depth,
        dropout=0.3 if amount.words < SMALL else 0.2 if amount.words < MEDIUM else 0.1,
        vocabulary=_choose_vocabulary(amount.different, machine),
        longest=longest,
        batch=batch,
        rate=0.002 if width < 256 else 0.001 if width < 512 else 0.0005,
        passes=passes,
        minutes=_choose_minutes(amount.words * passes, width, depth, machine),
        evaluate=min(1000, max(50, _round_up(steps // 10, 50))),
    )


def _choose_shape(words: int, machine: Machine) -> tuple[int, int]:
    if words < SMALL:
        return 128, 2
    if words < MEDIUM:
        return (256, 4) if machine.gpu else (128, 3)
    if words < LARGE or not machine.gpu:
        return (512, 6) if machine.gpu else (256, 4)
    return 512, 8


def _choose_vocabulary(different: int, machine: Machine) -> int:
    """A third of the words that there are: those that come again stay whole, and rare ones are cut."""
    most = 16_000 if machine.gpu else 8000
    return min(most, max(300, _round_up(different // 3, 100)))


def _choose_minutes(words: int, width: int, depth: int, machine: Machine) -> int:
    power = 50 if machine.gpu else min(machine.cores, 8)
    speed = SPEED * power * (128 / width) ** 1.5 * (2 / depth)
    return next((most for most in BUDGETS if most >= words / speed / 60), BUDGETS[-1])


def _round_up(number: int, step: int) -> int:
    return max(step, -(-number // step) * step)
