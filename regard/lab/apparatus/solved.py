"""The share of problems that are solved, by their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping


def average_sizes(solved: Mapping[int, float], first: int, last: int) -> float:
    """The mean over the sizes from the first to the last, each counted once; of none it isn't a number."""
    found = [share for size, share in solved.items() if first <= size <= last]
    return sum(found) / len(found) if found else math.nan


def allow_chance(problems: int) -> float:
    """How far two shares of so many problems each may lie apart by chance: twice the standard error at worst."""
    return 2 * math.sqrt(2 * 0.25 / problems)
