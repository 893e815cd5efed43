"""Progress of long work, on standard error: one line that is drawn over on a terminal, elsewhere one now and then.

It is drawn by a thread of its own, so work that tells nothing of itself still shows that time passes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from regard.host.meter import Advance, Meter

EVERY = 30.0  # seconds between lines where nothing can be drawn over
REDRAWN = 4  # times a second


class Work:
    """How far a piece of work is."""

    def __init__(self, what: str, total: int | None) -> None:
        self.what, self.total, self.done, self.begun = what, total, 0, time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.done += count

    def describe(self) -> str:
        """`translating  512 of 2,000  26%  0:12, 0:36 left`, as far as it is known."""
        seconds = time.monotonic() - self.begun
        words = [self.what]
        if self.total:
            words += [f"{self.done:,} of {self.total:,}", f"{self.done / self.total:.0%}"]
        elif self.done:
            words.append(f"{self.done:,}")
        left = seconds * (self.total - self.done) / self.done if self.total and self.done else None
        passed = format_seconds(seconds)
        return "  ".join([*words, passed if left is None else f"{passed}, {format_seconds(max(left, 0))} left"])


def format_seconds(seconds: float) -> str:
    """`1:02:03`, or `2:03` when it is less than an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class ProgressMeter(Meter):
    """Shows work to whoever looks at standard error."""

    @contextmanager
    def watch(self, what: str, total: int | None = None) -> Iterator[Advance]:
        work = Work(what, total)
        with draw_over(work) if can_draw() else print_now_and_then(work):
            yield work.advance


def can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def draw_over(work: Work) -> Iterator[None]:
    """One line that changes, and is gone at the end; what others print goes above it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def draw() -> Text:
        return Text(work.describe(), no_wrap=True, overflow="ellipsis")

    # standard output is for results, and isn't to be led through this console
    console = Console(file=sys.stderr, highlight=False)
    with Live(console=console, get_renderable=draw, refresh_per_second=REDRAWN, transient=True, redirect_stdout=False):
        yield


@contextmanager
def print_now_and_then(work: Work) -> Iterator[None]:
    """A line every half minute, for logs."""
    ended, stream = threading.Event(), sys.stderr

    def tell() -> None:
        while not ended.wait(EVERY):
            print(f"regard: {work.describe()}", file=stream, flush=True)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
