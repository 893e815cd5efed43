"""Plots, by what their figures and their pages hold."""

from __future__ import annotations

import io
import json
import math

import pytest
from matplotlib.axes import Axes
from PIL import Image

from regard.errors import InputError
from regard.lens.page import make_page, write_json
from regard.lens.plot import Plot, Point, make_series

ROWS = [
    {"mixer": "rnn", "length": 1, "loss": 4.0, "low": 3.0, "high": 6.0},
    {"mixer": "rnn", "length": 2, "loss": 2.0, "low": math.nan, "high": math.nan},
    {"mixer": "mamba", "length": 1, "loss": 1.0, "low": None, "high": None},
    {"mixer": "mamba", "length": 2, "loss": None, "low": None, "high": None},
]


def make_plot(logarithmic: tuple[str, ...] = (), **series: list[Point]) -> Plot:
    return Plot("a title", "across, steps", "down, nats", series, logarithmic)


def draw(plot: Plot) -> Axes:
    (axes,) = plot.picture().axes
    return axes


def list_lines(plot: Plot) -> dict[str, tuple[list[float], list[float]]]:
    """Each line of a picture by its name: places and values."""
    handles, names = draw(plot).get_legend_handles_labels()
    lines = [handle.lines[0] if hasattr(handle, "lines") else handle for handle in handles]
    return {
        name: (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[union-attr]
        for name, line in zip(names, lines, strict=True)
    }


def test_numbers_are_lines_and_names_are_bars() -> None:
    lines = make_plot(one=[Point(1, 4.0), Point(2, 2.0)], two=[Point(2, 8.0)])
    assert not lines.named
    assert list_lines(lines) == {"one": ([1, 2], [4, 2]), "two": ([2], [8])}
    assert not draw(lines).patches
    bars = make_plot(one=[Point("rnn", 4.0), Point("lstm", 2.0)], two=[Point("lstm", 8.0)])
    assert bars.named
    axes = draw(bars)
    assert [patch.get_height() for patch in axes.patches] == [4.0, 2.0, 8.0]  # type: ignore[attr-defined]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["rnn", "lstm"]
    middle = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]  # type: ignore[attr-defined]
    assert [round(place) for place in middle] == [0, 1, 1] and middle[1] < middle[2]


def test_one_series_needs_no_legend() -> None:
    assert draw(make_plot(one=[Point(1, 4.0)])).get_legend() is None
    legend = draw(make_plot(one=[Point(1, 4.0)], two=[Point(1, 3.0)])).get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["one", "two"]


def test_log_axes_leave_out_what_is_not_positive() -> None:
    points = [Point(0, 1.0), Point(1, 0.0), Point(2, -1.0), Point(4, math.inf), Point(8, math.nan), Point(16, 5.0)]
    assert [point.place for point in make_plot(("across", "down"), one=points).sound(points)] == [16]
    assert [point.place for point in make_plot(("across",), one=points).sound(points)] == [1, 2, 16]
    assert [point.place for point in make_plot(("down",), one=points).sound(points)] == [0, 16]
    assert [point.place for point in make_plot(one=points).sound(points)] == [0, 1, 2, 16]
    plot = make_plot(("across", "down"), one=points, two=points)
    assert list_lines(plot) == {"one": ([16], [5]), "two": ([16], [5])}
    assert (draw(plot).get_xscale(), draw(plot).get_yscale()) == ("log", "log")
    assert plot.png()


def test_a_log_axis_names_the_places_that_were_measured() -> None:
    axes = draw(make_plot(("across",), one=[Point(rate, 1.0) for rate in (0.001, 0.003, 0.01)]))
    axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.001", "0.003", "0.01"]
    many = draw(make_plot(("across",), one=[Point(n, 1.0) for n in range(1, 2000, 100)]))
    assert len(many.get_xticks()) < 20


def test_intervals_are_whiskers() -> None:
    axes = draw(make_plot(one=[Point(1, 4.0, 3.0, 6.0), Point(2, 2.0)]))
    (whiskers,) = axes.collections
    ends = [[float(place[1]) for place in segment] for segment in whiskers.get_segments()]  # type: ignore[attr-defined]
    assert ends == [[3.0, 6.0], [2.0, 2.0]]


def test_guides_are_drawn_over_lines_and_over_bars() -> None:
    over = Plot("t", "x", "y", {"one": [Point(1, 4.0)]}, guides={"formula": [Point(1, 3.0), Point(2, 2.0)]})
    assert list_lines(over)["formula"] == ([1, 2], [3, 2])
    bars = Plot("t", "x", "y", {"one": [Point("a", 4.0), Point("b", 1.0)]}, guides={"chance": [Point("b", 3.0)]})
    (across,) = [drawn for drawn in draw(bars).collections if drawn.get_label() == "chance"]
    ((left, right),) = across.get_segments()  # type: ignore[attr-defined]
    assert left[0] < 1 < right[0] and left[1] == right[1] == 3
    assert [line["guide"] for line in bars.figure().data["series"]] == [False, True]


def test_mixed_places_and_empty_plots_are_refused() -> None:
    with pytest.raises(InputError, match="some places are names"):
        make_plot(one=[Point(1, 1.0)], two=[Point("a", 1.0)])
    with pytest.raises(InputError, match="some places are names"):
        Plot("t", "x", "y", {"one": [Point(1, 4.0)]}, guides={"chance": [Point("b", 3.0)]})
    for nothing in ({}, {"one": list[Point]()}):
        with pytest.raises(InputError, match="no points"):
            Plot("t", "x", "y", nothing)


def test_rows_become_series() -> None:
    found = make_series(ROWS, "mixer", "length", "loss", ("low", "high"))
    assert found == {"rnn": [Point(1, 4.0, 3.0, 6.0), Point(2, 2.0)], "mamba": [Point(1, 1.0)]}
    assert make_series(ROWS, "length", "mixer", "loss") == {
        "1": [Point("rnn", 4.0), Point("mamba", 1.0)],
        "2": [Point("rnn", 2.0)],
    }


def test_a_page_holds_the_points() -> None:
    plot = Plot("t", "x", "y", make_series(ROWS, "mixer", "length", "loss", ("low", "high")), ("across",), "a note")
    told = json.loads(write_json(plot.figure().data))
    assert told["logarithmic"] == {"across": True, "down": False} and told["note"] == "a note"
    assert told["series"][0] == {
        "name": "rnn",
        "guide": False,
        "place": [1, 2],
        "value": [4.0, 2.0],
        "low": [3.0, None],
        "high": [6.0, None],
    }
    assert "<html" in make_page("p", [plot.figure()])


def test_signs_are_not_formulas() -> None:
    """A dollar sign in a name would be read as mathematics, and a wrong one stops the drawing."""
    plot = Plot("costs $1 $", r"$\frac$", "$y_$", {"$a_$": [Point("$b_$", 1.0)], "c": [Point("$b_$", 2.0)]})
    with Image.open(io.BytesIO(plot.png())) as picture:
        assert picture.format == "PNG" and picture.width > 600
