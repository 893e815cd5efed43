"""What an experiment is: a question, a measurement, and a sentence that the measured numbers support, or don't.

Measuring takes minutes; drawing and concluding follow from the tables alone, so both can be tested by tables that are
made up, and a page can be made again from what was kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.core.hint import suggest
from regard.errors import InputError, SpecError
from regard.lab.apparatus.bench import Bench
from regard.lens.plot import Plot

Rows = Sequence[
    Mapping[str, Any]
]  # a table: every row has the same keys, which are its columns; cells are numbers, texts, None
Tables = Mapping[str, Rows]  # by title; the first is the one that answers the question


@dataclass(frozen=True)
class Conclusion:
    """What the tables say of the claim, in one sentence with their numbers in it."""

    shown: bool  # whether the numbers support the claim
    sentence: str

    def __str__(self) -> str:
        return self.sentence if self.shown else f"Not shown here: {self.sentence}"


class Experiment(ABC):
    """One claim of the lectures, tried. A subclass enters itself under its name."""

    known: ClassVar[dict[str, Experiment]] = {}
    name: ClassVar[str]
    place: ClassVar[int]  # in the order in which `regard lab all` runs them: that of the lectures
    question: ClassVar[str]  # in plain words
    claim: ClassVar[str]  # what the lectures say
    method: ClassVar[str]  # what is done, and what is held equal
    minutes: ClassVar[float]  # on two cores
    full_minutes: ClassVar[float]  # with --full

    def __init_subclass__(cls) -> None:
        taken = Experiment.known.get(cls.name)
        if taken is not None and type(taken).__module__ != cls.__module__:
            raise SpecError(f"two experiments are called {cls.name}: {type(taken).__module__} has one", "another name")
        Experiment.known[cls.name] = cls()

    @abstractmethod
    def measure(self, bench: Bench) -> Tables:
        """Do the work."""

    @abstractmethod
    def conclude(self, tables: Tables) -> Conclusion:
        """What the tables say, and nothing that they don't."""

    @abstractmethod
    def draw(self, tables: Tables) -> Sequence[Plot]:
        """The tables as plots, the most telling first."""


def list_experiments() -> list[Experiment]:
    """All of them, in the order of the lectures."""
    return sorted(Experiment.known.values(), key=lambda experiment: experiment.place)


def choose_experiment(name: str) -> Experiment:
    """One by its name."""
    if name not in Experiment.known:
        raise InputError(f"no experiment is called {name!r}{suggest(name, Experiment.known)}", "regard lab lists all")
    return Experiment.known[name]
