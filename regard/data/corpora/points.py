"""Points of the plane, and an answer that is some of them in order: the convex hull, or all from left to right.

The answer's numbers are places among the points, from 1 upwards: 0 is left for the end. A hull goes counter-clockwise
and is a ring, so it is the same wherever it begins (Vinyals et al. 2015).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.corpora.algorithms import SizedSpec
from regard.data.corpus import Split
from regard.data.sample import Form, Sample
from regard.errors import SpecError

Point = tuple[float, float]
UNIT = 10_000  # coordinates are whole ten-thousandths: what is asked is decided by the numbers that a model reads


def find_hull(points: Sequence[Point]) -> list[int]:
    """The corners of the convex hull, by their places from 0, counter-clockwise from the leftmost.

    Andrew's monotone chain (1979), in whole ten-thousandths, so that nothing is nearly straight. A point on an edge is
    no corner, and of equal points the first counts.
    """
    first: dict[tuple[int, int], int] = {}
    for place, (x, y) in enumerate(points):
        first.setdefault((round(x * UNIT), round(y * UNIT)), place)
    order = sorted((x, y, place) for (x, y), place in first.items())
    if len(order) < 3:
        return [place for _, _, place in order]
    return climb(order) + climb(order[::-1])


def climb(order: Sequence[tuple[int, int, int]]) -> list[int]:
    """One side of a hull: the places of points that always turn left on the way; the last begins the other side."""
    chain: list[tuple[int, int, int]] = []
    for x, y, place in order:
        while len(chain) > 1:
            (ax, ay, _), (bx, by, _) = chain[-2:]
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                break
            chain.pop()
        chain.append((x, y, place))
    return [place for _, _, place in chain[:-1]]


class PointSpec(SizedSpec):
    """So many points, drawn evenly from the unit square."""

    gives: ClassVar[tuple[Form, ...]] = ("points",)
    least: ClassVar[int] = 1
    sizes: tuple[Size, Size] = (5, 50)

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        sizes, chance = self.bounds(split), Random(f"{self.kind} {split} {self.seed}")
        if not self.least <= sizes[0] <= sizes[1]:
            raise SpecError(f"{self.kind}: {sizes[0]} to {sizes[1]} points", f"sizes from {self.least}, in order")
        while True:
            size = chance.randint(*sizes)
            # splits share no problem: two draws of five points are the same once in 10⁴⁰
            points = [(int(chance.random() * UNIT) / UNIT, int(chance.random() * UNIT) / UNIT) for _ in range(size)]
            yield {"points": [list(point) for point in points], **self.solve(points), "size": size}

    def solve(self, points: Sequence[Point]) -> Sample:
        """The answer, as fields of a sample."""
        raise NotImplementedError


class Hull(PointSpec):
    """The corners of the convex hull, counter-clockwise."""

    kind: Literal["hull"] = "hull"
    least: ClassVar[int] = 3
    begins: Literal["left", "given"] = "left"
    """A hull begins with its leftmost corner, which is known by the points alone, or with the corner that was given
    first, as in Vinyals et al. (2015); wherever it begins, it is the same hull."""

    def solve(self, points: Sequence[Point]) -> Sample:
        ring = find_hull(points)
        first = ring.index(min(ring)) if self.begins == "given" else 0
        return {"target": [place + 1 for place in ring[first:] + ring[:first]], "ring": True}


class SortPoints(PointSpec):
    """All points from left to right."""

    kind: Literal["sort-points"] = "sort-points"
    sizes: tuple[Size, Size] = (2, 10)

    def solve(self, points: Sequence[Point]) -> Sample:
        return {"target": [place + 1 for place in sorted(range(len(points)), key=lambda place: points[place])]}
