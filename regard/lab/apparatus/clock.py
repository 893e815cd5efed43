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
