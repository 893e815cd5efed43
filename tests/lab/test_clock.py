"""Who is quick is timed more often, and the best time counts."""

from __future__ import annotations

import time
from collections import Counter

from regard.lab.apparatus.clock import time_longer


def test_what_is_short_has_more_rounds() -> None:
    calls: Counter[str] = Counter()

    def make_side(name: str, seconds: float) -> None:
        calls[name] += 1
        time.sleep(seconds)

    sides = {"short": lambda: make_side("short", 0.0), "long": lambda: make_side("long", 0.03)}
    best = time_longer(sides, rounds=2, brief=0.02)
    assert calls == {"short": 3 + 5, "long": 3}  # each time one more, which warms up
    assert best["short"] < 0.02 <= best["long"]
