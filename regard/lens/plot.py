"""A plot: points of several series over one axis, described once and drawn twice, as a PNG and in the viewer.

The description is plain data. Where the places are numbers, series are lines with marks; where they are names, bars.
An interval around a point is drawn as a whisker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.lens.chart import COLORS, DASHES, GREY, PATTERNS, begin_figure, encode_figure, set_plain
from regard.lens.page import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

MARKS = "osD^vPX"
TICKS = 8  # places up to which a logarithmic axis names each, and no other


@dataclass(frozen=True)
class Point:
    """One value at a place: a number on the axis, or a name below a bar; with an interval where there is one."""

    place: float | str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Plot:
    """Series over one axis. What isn't finite, or isn't above zero on a logarithmic axis, is left out."""

    title: str
    across: str  # what the x axis tells, with its unit
    down: str  # the same of the y axis
    series: Mapping[str, Sequence[Point]]
    logarithmic: Sequence[str] = ()  # "across", "down", or both
    note: str = ""
    guides: Mapping[str, Sequence[Point]] = field(default_factory=dict)  # what a formula says: thin lines, no marks

    def __post_init__(self) -> None:
        if not any(self.series.values()):
            raise InputError(f"{self.title}: there are no points to draw")
        every = (*self.series.values(), *self.guides.values())
        kinds = {isinstance(point.place, str) for points in every for point in points}
        if len(kinds) > 1:
            raise InputError(f"{self.title}: some places are names and some are numbers", "one of them")

    @property
    def named(self) -> bool:
        """Whether places are names, so that series are bars."""
        return any(isinstance(point.place, str) for points in self.series.values() for point in points)

    def figure(self) -> Figure:
        """For a page."""
        data: dict[str, Any] = {"title": self.title, "note": self.note, "across": self.across, "down": self.down}
        data |= {"named": self.named, "logarithmic": {side: side in self.logarithmic for side in ("across", "down")}}
        data["series"] = [_lay_out(name, points, False) for name, points in self.series.items()]
        data["series"] += [_lay_out(name, points, True) for name, points in self.guides.items()]
        return Figure("graph", data)

    def png(self) -> bytes:
        """As a picture; drawing is by matplotlib, which comes with the extra `plot`."""
        return encode_figure(self.picture(), "png")

    def picture(self) -> Picture:
        """As matplotlib's figure, which can be looked at or changed."""
        names = list(dict.fromkeys(point.place for points in self.series.values() for point in points))
        wide = max(6.5, min(14.0, 1.5 + 0.28 * len(names) * (len(self.series) + 1))) if self.named else 7.5
        figure = begin_figure(wide, 4.4)
        axes = figure.add_subplot()
        set_plain(axes, self.title)
        axes.set_xlabel(self.across, fontsize=11, color=GREY, parse_math=False)
        axes.set_ylabel(self.down, fontsize=11, color=GREY, parse_math=False)
        if "down" in self.logarithmic:
            axes.set_yscale("log")
        if "across" in self.logarithmic and not self.named:
            _double_across(axes, [float(name) for name in names if self._fits(name, "across")])
        _draw_bars(axes, self, [str(name) for name in names]) if self.named else _draw_lines(axes, self)
        if len(self.series) + len(self.guides) > 1:
            legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=10)
            for text in legend.get_texts():
                text.set_parse_math(False)
        return figure

    def sound(self, points: Sequence[Point]) -> list[Point]:
        """Those that can be drawn."""
        return [point for point in points if self._fits(point.value, "down") and self._fits(point.place, "across")]

    def _fits(self, value: float | str, side: str) -> bool:
        return isinstance(value, str) or (math.isfinite(value) and (side not in self.logarithmic or value > 0))


def make_series(
    rows: Sequence[Mapping[str, Any]], by: str, place: str, value: str, interval: tuple[str, str] | None = None
) -> dict[str, list[Point]]:
    """The rows of a table as series: one for each value of `by`, with a point for each row; gaps are left out."""
    found: dict[str, list[Point]] = {}
    for row in rows:
        if row[value] is not None and row[place] is not None:
            low, high = (None, None) if interval is None else (_real(row[interval[0]]), _real(row[interval[1]]))
            found.setdefault(str(row[by]), []).append(Point(row[place], row[value], low, high))
    return found


def _real(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _lay_out(name: str, points: Sequence[Point], guide: bool) -> dict[str, Any]:
    columns = {key: [getattr(point, key) for point in points] for key in ("place", "value", "low", "high")}
    return {"name": name, "guide": guide, **columns}


def _whiskers(points: Sequence[Point]) -> list[list[float]] | None:
    """How far each interval goes down and up from its value, as matplotlib wants it."""
    if all(point.low is None or point.high is None for point in points):
        return None
    below = [0.0 if point.low is None else max(0.0, point.value - point.low) for point in points]
    above = [0.0 if point.high is None else max(0.0, point.high - point.value) for point in points]
    return [below, above]


def _double_across(axes: Axes, measured: Sequence[float]) -> None:
    """A logarithmic x axis; few places are named where something was measured, be it a width or a learning rate."""
    axes.set_xscale("log", base=2)
    if len(measured) <= TICKS:
        axes.set_xticks(sorted(measured))
        axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")


def _draw_lines(axes: Axes, plot: Plot) -> None:
    for n, (name, points) in enumerate(plot.series.items()):
        there = plot.sound(points)
        style: dict[str, Any] = {"color": COLORS[n % len(COLORS)], "linestyle": DASHES[n // len(COLORS) % len(DASHES)]}
        mark = MARKS[n % len(MARKS)] if len(there) <= 40 else ""  # a mark at each of many would be a band
        places, values = [float(point.place) for point in there], [point.value for point in there]
        axes.errorbar(
            places, values, _whiskers(there), label=name, marker=mark, ms=5, lw=1.7, elinewidth=1, capsize=2, **style
        )
    for name, points in plot.guides.items():
        there = plot.sound(points)
        places, values = [float(point.place) for point in there], [point.value for point in there]
        axes.plot(places, values, label=name, color=GREY, linewidth=0.9, linestyle=(0, (2, 2)))


def _draw_bars(axes: Axes, plot: Plot, names: Sequence[str]) -> None:
    thickness = 0.8 / len(plot.series)
    for n, (name, points) in enumerate(plot.series.items()):
        there = plot.sound(points)
        places = [names.index(str(point.place)) + thickness * (n - (len(plot.series) - 1) / 2) for point in there]
        style: dict[str, Any] = {"color": COLORS[n % len(COLORS)], "hatch": PATTERNS[n // len(COLORS) % len(PATTERNS)]}
        values = [point.value for point in there]
        axes.bar(places, values, 0.92 * thickness, yerr=_whiskers(there), capsize=2, ec="white", label=name, **style)
    for name, points in plot.guides.items():
        there = [point for point in plot.sound(points) if point.place in names]
        middles, values = [names.index(str(point.place)) for point in there], [point.value for point in there]
        left, right = ([middle + side for middle in middles] for side in (-0.42, 0.42))
        axes.hlines(values, left, right, label=name, color="black", linewidth=1.2, linestyle=(0, (2, 2)))
    crowded = sum(map(len, names)) > 70
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axes.set_xticks(range(len(names)), names, parse_math=False, **turned)
    axes.grid(False, axis="x")
