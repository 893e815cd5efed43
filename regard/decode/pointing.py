"""Points in, some of them in order out: what a model that learned to point is for its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import torch

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding
from regard.decode.filters import Demands
from regard.decode.filters.once import WrittenOnce
from regard.decode.pipeline import Pipeline
from regard.decode.reading import Reading, Strip
from regard.decode.search import Hypothesis, Search, beam_search
from regard.errors import InputError, SpecError

Places = Sequence[Sequence[float]]  # points of the plane, each of two numbers
STOP = 0  # the position that ends an answer, and that it begins from; the points follow it
ROWS = 64  # sets of points that are searched together


@dataclass
class OrderedPoints:
    """Points that a model chose, in order."""

    order: list[int]  # their places among those that were given, from 1 upwards
    points: list[tuple[float, float]]
    log_probabilities: list[float]  # the model's own, that of the end is the last of them
    score: float

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def lay_points(sets: Sequence[Places]) -> Inputs:
    """Points as a model reads them, (rows, 1 + points, 3): coordinates, and a mark on the stop, which comes first.

    Coordinates are read from -1 to 1, so that the middle of the square, where the stop stands, is nothing special.
    """
    rows = [torch.tensor([[0.0, 0.0, 1.0], *([2 * x - 1, 2 * y - 1, 0.0] for x, y in points)]) for points in sets]
    return Inputs(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), Padding([len(row) for row in rows]))


@dataclass(repr=False)
class PointSelector(Pipeline):
    """A network that points.

    >>> selector.point([[0.1, 0.1], [0.9, 0.2], [0.5, 0.4], [0.4, 0.9]]).order  # doctest: +SKIP
    [1, 2, 4]
    """

    verbs: ClassVar[tuple[str, ...]] = ("point",)
    model: Model
    search: Search = field(default_factory=Search)  # the settings unless others are given
    once: bool = True  # a point is chosen once at most

    def point(self, points: Places | Sequence[Places], **settings: Any) -> OrderedPoints | list[OrderedPoints]:
        """The points that a model chooses, in order, from one set of points or from each of a list of such."""
        search = self.settings(settings)
        one = is_set(points)
        sets: Sequence[Places] = [points] if one else points  # type: ignore[list-item, assignment]
        check_points(sets)
        found = [best[0] for best in self.find(sets, search)]
        told = [self._tell(places, best) for places, best in zip(sets, found, strict=True)]
        return told[0] if one else told

    def settings(self, given: Mapping[str, Any]) -> Search:
        """A search with what is given, and else as the model learned to be used."""
        return self.search.heed(given)

    @torch.no_grad()
    def find(self, sets: Sequence[Places], search: Search) -> list[list[Hypothesis]]:
        """The best hypotheses of each set; those of like size are searched together."""
        if search.filters:
            told = f"filters: {search.filters[0].kind} is about pieces of text, and these are points"
            raise SpecError(told, "leave filters out")
        order = sorted(range(len(sets)), key=lambda n: len(sets[n]))
        found: dict[int, list[Hypothesis]] = {}
        for first in range(0, len(order), ROWS):
            group = order[first : first + ROWS]
            inputs = lay_points([sets[n] for n in group]).to(self.model.device)
            demands = Demands(
                most=[min(len(sets[n]), search.max_tokens or len(sets[n])) for n in group],
                filters=[WrittenOnce((STOP,))] if self.once else (),
            )
            answers = beam_search(self.model, self.model.encode(inputs), len(group), STOP, STOP, search, demands)
            found |= dict(zip(group, answers, strict=True))
        return [found[n] for n in range(len(sets))]

    def _tell(self, points: Places, best: Hypothesis) -> OrderedPoints:
        order = [token for token in best.tokens if token != STOP]
        chosen = [(float(points[place - 1][0]), float(points[place - 1][1])) for place in order]
        return OrderedPoints(order, chosen, best.log_probabilities, best.score)

    def lay_out(self, text: Any, target: str | None = None) -> Reading:
        """Points, as numbers or as text (`0.1 0.2, 0.5 0.4`), and what the model points at, or what it is to."""
        points = parse_points(text) if isinstance(text, str) else text
        check_points([points])
        wanted = [int(word) for word in target.split()] if target else self.find([points], self.search)[0][0].tokens
        wanted = [*(place for place in wanted if place != STOP), STOP]
        given = [STOP, *wanted[:-1]]
        names = ["⇐", *(f"{place}" for place in range(1, len(points) + 1))]
        read = [f"{x:g} {y:g}" for x, y in points]
        inputs = Inputs.pad([given], STOP)
        return Reading(
            Inputs(inputs.tokens, inputs.valid, memory=lay_points([points])),
            strip(["⇒", *(names[place] for place in given[1:])], 0),
            strip(["⇐", *read], 0),
            strip([names[place] for place in wanted], len(wanted) - 1),
            dict(enumerate(wanted)),
            lambda numbers: [names[number] if number < len(names) else "" for number in numbers],
            text=str(text),
        )


def strip(pieces: Sequence[str], special: int) -> Strip:
    """Pieces, one of which is no point."""
    return Strip(tuple(pieces), tuple(place == special for place in range(len(pieces))))


def parse_points(text: str) -> list[list[float]]:
    """Points from text: `0.1 0.2, 0.5 0.4`."""
    try:
        return [[float(number) for number in part.split()] for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} isn't a list of points", "0.1 0.2, 0.5 0.4, 0.9 0.7") from None


def is_set(points: Any) -> bool:
    """Whether something is one set of points, and not a list of such: what it begins with has a number first."""
    try:
        return bool(points) and isinstance(points[0][0], Real)
    except (TypeError, IndexError, KeyError):
        return False


def is_point(point: Any) -> bool:
    """Whether something is a pair of numbers, of whatever type."""
    try:
        return len(point) == 2 and all(isinstance(number, Real) for number in point)
    except TypeError:
        return False


def check_points(sets: Any) -> None:
    """Refuse what a model that reads points of the unit square was never shown."""
    if not isinstance(sets, Sequence) or isinstance(sets, str):
        raise InputError(f"points are pairs of numbers, not {sets!r}"[:200], "[[0.1, 0.2], [0.5, 0.4]]")
    for points in sets:
        if not isinstance(points, Sequence) or not points or not all(map(is_point, points)):
            raise InputError(f"points are pairs of numbers, not {points!r}"[:200], "[[0.1, 0.2], [0.5, 0.4]]")
        outside = next((point for point in points if not all(0 <= number <= 1 for number in point)), None)
        if outside is not None:
            raise InputError(f"the point {list(outside)} isn't in the unit square", "scale all points to 0 … 1")
