"""Curves through measured points: what some experiments conclude from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from regard.errors import InputError
from regard.tasks.measures import Numbers

Growth = Literal["O(1)", "O(log n)", "O(n)", "O(n²)"]
CURVES: dict[Growth, Callable[[Numbers], Numbers]] = {"O(log n)": np.log2, "O(n)": np.positive, "O(n²)": np.square}
FLAT = 0.02  # the relative spread up to which values are the same


class FittedLine(NamedTuple):
    """y = slope · x + intercept, by least squares."""

    slope: float
    intercept: float
    fit: float  # R²: the share of the variance that the line explains


def fit_line(x: Sequence[float], y: Sequence[float]) -> FittedLine:
    """The line through points, by least squares."""
    across, down = _pair(x, y)
    if np.ptp(across) == 0:
        raise InputError(f"all {len(across)} points are at {across[0]:g}: a line needs two places")
    slope, intercept = np.polyfit(across, down, 1)
    if np.ptp(down) == 0:  # there is no variance to explain, and what rounding leaves of it says nothing
        return FittedLine(0.0, float(down[0]), 1.0)
    rest, spread = down - (slope * across + intercept), down - down.mean()
    return FittedLine(float(slope), float(intercept), 1 - float((rest**2).sum() / (spread**2).sum()))


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> FittedLine:
    """The exponent p of y = c · x^p: the slope of a line on two logarithmic axes."""
    across, down = _pair(x, y)
    if (across <= 0).any() or (down <= 0).any():
        raise InputError("an exponent is fitted to numbers above zero")
    return fit_line(list(np.log(across)), list(np.log(down)))


def fit_growth(n: Sequence[float], y: Sequence[float]) -> Growth:
    """Which of O(1), O(log n), O(n) and O(n²) a count follows best, as a·f(n) + b with a not below 0.

    Each but the first has two free numbers, so the best fit among them counts; what hardly changes, or falls, is O(1).
    """
    across, down = _pair(n, y)
    if np.ptp(down) <= FLAT * max(abs(float(down.mean())), 1e-12):
        return "O(1)"
    losses: dict[Growth, float] = {}
    for name, curve in CURVES.items():
        line = fit_line(list(curve(across)), list(down))
        if line.slope > 0:
            losses[name] = 1 - line.fit
    return min(losses, key=lambda name: losses[name], default="O(1)")


def _pair(x: Sequence[float], y: Sequence[float]) -> tuple[Numbers, Numbers]:
    across, down = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(across) != len(down) or len(across) < 2:
        raise InputError(f"{len(across)} places and {len(down)} values: a curve needs two points at least")
    return across, down
