"""Times that mean something on a noisy machine: the sides take turns, and the best of several rounds counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from regard.host.meter import Advance, ignore


def time_sides(
    sides: Mapping[str, Callable[[], object]], rounds: int = 3, advance: Advance = ignore
) -> dict[str, float]:
    """Seconds of each side, the least of so many rounds after one that only warms up."""
    best = dict.fromkeys(sides, float("inf"))
    for number in range(rounds + 1):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            if number:
                best[name] = min(best[name], time.perf_counter() - began)
            advance()
    return best


def time_longer(sides: Mapping[str, Callable[[], object]], rounds: int = 3, brief: float = 0.25) -> dict[str, float]:
    """As `time_sides`, but who takes less than `brief` seconds has twice as many further rounds.

    What is short is disturbed the most, and repeating it costs the least.
    """
    best = time_sides(sides, rounds)
    again = time_sides({name: side for name, side in sides.items() if best[name] < brief}, 2 * rounds)
    return {name: min(seconds, again.get(name, seconds)) for name, seconds in best.items()}
