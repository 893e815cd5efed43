"""A grid: where the positions of a sequence stand in a picture. An embedding has one, and the view carries it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """Positions that are places of a picture, row by row; `first`: positions before it, such as a class token.

    Where a place has several channels that are positions of their own, they follow each other.
    """

    height: int
    width: int
    channels: int = 1
    first: int = 0

    @property
    def count(self) -> int:
        """All positions, those before the picture too."""
        return self.first + self.height * self.width * self.channels
