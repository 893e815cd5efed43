"""A grid: where the positions of a sequence stand in a picture. An embedding has one, and the view carries it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Grid:
    """Positions that are places of a picture, row by row; `first`: positions before it, such as a class token.

    Where a place has several channels that are positions of their own, they follow each other.
    """

    height: int
    width: int
    channels: int = 1
    first: int = 0
    offset: float = field(default=0.0, compare=False)
    """By this share of a place they stand further down and to the right than equal parts of the picture would: what a
    place sees lies around its middle, and convolutions that take every second place begin at the edge."""

    def find_edges(self, places: int, length: float) -> list[float]:
        """Where so many places along a side of this length begin, and where the last one ends."""
        inner = [(place + self.offset) * length / places for place in range(1, places)]
        return [0.0, *inner, float(length)]

    def find_place(self, at: float, places: int) -> int:
        """The place along a side at a share of its length."""
        return min(max(int((at * places - self.offset) // 1), 0), places - 1)

    @property
    def count(self) -> int:
        """All positions, those before the picture too."""
        return self.first + self.height * self.width * self.channels
