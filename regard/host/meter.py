"""What long work tells of itself: what it is doing, how much of it is done, how much there is.

Whoever works takes a `Meter` and knows nothing of terminals; the command line gives one that draws. Unless given, it is
`SILENT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Tells that so much more is done; without a count, one."""

    def __call__(self, count: int = 1) -> None: ...


class Meter:
    """Hears of work; this one shows it to nobody."""

    @contextmanager
    def watch(self, what: str, total: int | None = None) -> Iterator[Advance]:
        """Show a piece of work for as long as it takes; `total`: how much there is, where it is known."""
        yield ignore


def ignore(count: int = 1) -> None:
    """Advance nothing."""


SILENT = Meter()
