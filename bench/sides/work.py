"""What all sides of a case have alike: rows of random tokens, the same for everybody, and how a cost is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

Row = TypeVar("Row")  # tokens as numbers, or as words
FIRST = 4  # special tokens stand before it


def draw_rows(settings: Mapping[str, Any]) -> list[list[int]]:
    """Rows of tokens, shortest first: `rows` of them, each of `shortest` to `longest` tokens."""
    chance = Random(settings.get("seed", 7))
    lengths = sorted(chance.randint(settings["shortest"], settings["longest"]) for _ in range(settings["rows"]))
    return [[chance.randrange(FIRST, settings["vocabulary"]) for _ in range(length)] for length in lengths]


def slice_rows(rows: list[Row], size: int) -> list[list[Row]]:
    """Batches of neighbours."""
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def rate(work: Callable[[], int], settings: Mapping[str, Any]) -> Callable[[], float]:
    """Units a second of some work, once warm; it is done again until `seconds` have passed, 0 unless told."""
    work()

    def measure() -> float:
        began, count, took = time.perf_counter(), 0, 0.0
        while not count or took < settings.get("seconds", 0.0):
            count += work()
            took = time.perf_counter() - began
        return count / took

    return measure


def gauge(what: str, work: Callable[[], object]) -> Callable[[], float]:
    """Milliseconds of some work, once warm; or the megabytes that it takes at most above what is there now."""
    from regard.host.machine import forget_peak, peak_memory

    if what == "time":
        work()
    forget_peak()  # or what importing took would hide what the work takes
    before = peak_memory()

    def measure() -> float:
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        return 1e3 * took if what == "time" else (peak_memory() - before) / 2**20

    return measure


def tell_in_turn(find_all: Callable[[], list[float]]) -> Callable[[], float]:
    """Figures that come of one long piece of work: it is done when the first is asked for, and each is told once."""
    found: list[float] = []

    def measure() -> float:
        if not found:
            found.extend(find_all())
        return found.pop(0)

    return measure
