"""Charts, by what their figures hold and what is left on the disk."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from regard.errors import DiskError, InputError, RegardError
from regard.lens.chart import (
    COLORS,
    bars,
    bars_figure,
    curves,
    curves_figure,
    heatmap,
    heatmap_figure,
    series,
    smooth,
)


def history(steps: int = 100, **found: float) -> list[dict[str, Any]]:
    """Lines of a run, with an evaluation every 25 steps."""
    lines: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        noise = math.sin(7.0 * step) / 10
        lines.append({"event": "step", "step": step, "loss": 1 + 9 / step + noise, "rate": 1e-3, "gradient": 1 + noise})
        if step % 25 == 0:
            lines.append({"event": "evaluation", "step": step, "seconds": 2.0, "loss": 2.0, **found})
    return lines


def panels(figure: Figure) -> dict[str, Axes]:
    return {axes.get_title("left"): axes for axes in figure.axes}


def check_picture(path: Path) -> None:
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.info["dpi"] == pytest.approx((150, 150), abs=0.1)
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10
    assert list(path.parent.iterdir()) == [path]


def test_each_series_has_its_panel() -> None:
    shown = panels(curves_figure({"run": history(bleu=30.0, exact=0.5)}))
    assert list(shown) == ["loss", "BLEU", "exact matches", "learning rate", "gradient norm"]
    assert shown["gradient norm"].get_yscale() == "log"
    assert {axes.get_yscale() for title, axes in shown.items() if title != "gradient norm"} == {"linear"}


def test_a_metric_that_never_has_a_value_has_no_panel() -> None:
    lines: Any = [*history(chrf=50.0), {"event": "evaluation", "step": 101, "bleu": None, "exact": math.nan}]
    assert list(panels(curves_figure({"run": lines}))) == ["loss", "chrF", "learning rate", "gradient norm"]


def test_loss_is_drawn_faint_and_smooth_and_validation_as_dots() -> None:
    faint, smooth, dots = panels(curves_figure({"run": history()}))["loss"].lines
    assert (faint.get_alpha() or 1) < 0.5 < (smooth.get_alpha() or 1)
    assert len(faint.get_xdata()) == len(smooth.get_xdata()) == 100  # type: ignore[arg-type]
    assert list(dots.get_xdata()) == [25, 50, 75, 100]  # type: ignore[arg-type]
    assert (dots.get_marker(), dots.get_linestyle()) == ("o", "None")


def test_a_run_has_one_color_in_every_panel_and_no_other_has_it() -> None:
    runs = {name: history(bleu=30.0 + n) for n, name in enumerate(["one", "_two", "$three$"])}
    figure = curves_figure(runs)
    for title, axes in panels(figure).items():
        colors = list(dict.fromkeys(to_hex(line.get_color()) for line in axes.lines))
        assert colors == [color.lower() for color in COLORS[:3]], title
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    assert not any(text.get_parse_math() for text in legend.get_texts())
    assert [to_hex(line.get_color()) for line in legend.get_lines()] == [color.lower() for color in COLORS[:3]]


def test_a_gradient_of_zero_is_left_out_of_the_log_axis() -> None:
    lines = [{**line, "gradient": float(line["step"] - 1)} for line in history(10)]
    (line,) = panels(curves_figure({"run": lines}))["gradient norm"].lines
    assert list(line.get_xdata()) == list(range(2, 11))  # type: ignore[arg-type]


def test_one_run_needs_no_legend() -> None:
    assert curves_figure({"run": history()}).legends == []


def test_more_runs_than_colors_differ_in_their_dashes() -> None:
    figure = curves_figure({str(n): history(10) for n in range(2 * len(COLORS))})
    styles = {(to_hex(line.get_color()), line.get_linestyle()) for line in panels(figure)["learning rate"].lines}
    assert len(styles) == 2 * len(COLORS)


def test_a_run_that_went_back_is_drawn_once() -> None:
    lines = [{"event": "step", "step": step, "loss": loss} for step, loss in [(1, 5.0), (3, 9.0), (2, 4.0), (3, 3.0)]]
    assert series(lines, "step", "loss") == {1: 5.0, 2: 4.0, 3: 3.0}
    assert list(series(lines, "step", "loss")) == [1, 2, 3]


def test_series_take_finite_numbers_only() -> None:
    values = [1.0, math.nan, math.inf, None, "2", True, 3]
    lines = [{"event": "step", "step": step, "loss": value} for step, value in enumerate(values)]
    assert series([*lines, {"event": "step", "loss": 1.0}, {"event": "begin"}], "step", "loss") == {0: 1.0, 6: 3}


def test_smoothing_keeps_a_straight_line_and_calms_noise() -> None:
    assert smooth([1.0, 2.0, 3.0, 4.0, 5.0], 1) == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.5])
    assert smooth([3.0, 1.0, 2.0], 0) == pytest.approx([3.0, 1.0, 2.0])
    calm = smooth([(-1.0) ** n for n in range(101)], 10)
    assert max(map(abs, calm[10:])) < 0.1


@pytest.mark.parametrize(
    ("histories", "words"),
    [
        ({}, "no history"),
        ({"empty one": []}, "'empty one' is empty"),
        ({"good": history(), "bad": [{"event": "evaluation", "step": 1, "loss": 2.0}]}, "'bad' has no steps"),
        ({"lost": [{"event": "step", "step": 1, "loss": math.nan}]}, "'lost' has no steps with a loss"),
    ],
)
def test_a_history_without_steps_is_refused(histories: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        curves(histories, tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_curves_are_a_picture_however_short_the_run(steps: int, tmp_path: Path) -> None:
    curves({"run": history(steps), "still": [{**line, "gradient": 0.0} for line in history(steps)]}, tmp_path / "a.png")
    check_picture(tmp_path / "a.png")


def test_a_peak_of_the_map_stands_at_its_words() -> None:
    figure = heatmap_figure(["▁gre", "en", "▁$x$"], ["▁vert", "[EOS]"], [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]], "A title")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["gre", "-en", "$x$"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["vert", "[EOS]"]
    (image,) = axes.images
    values: Any = image.get_array()
    assert values.tolist() == [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]]
    assert {text.get_position(): text.get_text() for text in axes.texts} == {(1, 0): "25", (2, 0): "75", (0, 1): "100"}
    assert figure.get_suptitle() == "A title"


def test_a_large_map_has_no_numbers() -> None:
    assert len(heatmap_figure(["a"] * 10, ["b"] * 10, [[0.1] * 10] * 10).axes[0].texts) == 100
    assert len(heatmap_figure(["a"] * 10, ["b"] * 11, [[0.1] * 10] * 11).axes[0].texts) == 0


def test_a_map_of_the_wrong_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 × 1 don't fit tokens of shape 1 × 2"):
        heatmap(["a", "b"], ["c"], [[1.0]], tmp_path / "map.png")


@pytest.mark.parametrize("size", [1, 3, 30])
def test_a_map_is_a_picture(size: int, tmp_path: Path) -> None:
    weights = [[float(row == column) for column in range(size)] for row in range(size)]
    heatmap(["▁$a$"] * size, ["▁$\\b$"] * size, weights, tmp_path / "map.png", "costs $5 or $6")
    check_picture(tmp_path / "map.png")


def test_bars_stand_in_groups_and_missing_values_leave_a_gap() -> None:
    figure = bars_figure(
        {"one": {"short": 3.0, "long": 1.0}, "two": {"short": 2.0, "long": math.nan, "longest": None}, "three": {}},
        "Scores",
        "BLEU",
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["short", "long", "longest"]
    models = bars_by_model(axes)
    drawn = [[(round(bar.get_x() + bar.get_width() / 2), bar.get_height()) for bar in group] for group in models]
    assert drawn == [[(0, 3.0), (1, 1.0)], [(0, 2.0)], []]
    assert models[0][0].get_x() + models[0][0].get_width() < models[1][0].get_x()
    assert [text.get_text() for text in axes.texts] == ["3.00", "1.00", "2.00"]
    assert (axes.get_title("left"), axes.get_ylabel()) == ("Scores", "BLEU")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two", "three"]


def bars_by_model(axes: Axes) -> list[Any]:
    """The bars of each model."""
    return [container.patches for container in axes.containers]  # type: ignore[attr-defined]


def test_bars_of_one_model_need_no_legend() -> None:
    assert bars_figure({"one": {"short": 0.0}}, "Scores", "BLEU").legends == []


def test_bars_without_values_are_refused() -> None:
    nothing: list[dict[str, dict[str, float | None]]] = [{}, {"one": {}}, {"one": {"short": None, "long": math.nan}}]
    for groups in nothing:
        with pytest.raises(InputError, match="no values"):
            bars_figure(groups, "Scores", "BLEU")


@pytest.mark.parametrize("buckets", [1, 40])
def test_bars_are_a_picture(buckets: int, tmp_path: Path) -> None:
    scores: dict[str, float | None] = {f"{n} words": -float(n) - 1 for n in range(buckets)}
    bars({"$one$": scores, "two": scores}, tmp_path / "bars.png", "$", "%")
    check_picture(tmp_path / "bars.png")


DRAWINGS: list[Callable[[Path], None]] = [
    lambda path: curves({"run": history(3)}, path),
    lambda path: heatmap(["a"], ["b"], [[1.0]], path),
    lambda path: bars({"one": {"short": 1.0}}, path, "Scores", "BLEU"),
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_picture_that_fails_leaves_the_old_one(
    draw: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chart.png"
    path.write_text("old")

    def full(aside: Path, content: bytes) -> int:
        with aside.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    def forbidden(aside: Path, place: Path) -> None:
        raise OSError(1, "Operation not permitted")

    for owner, name, failure in ((Path, "write_bytes", full), (os, "replace", forbidden)):
        monkeypatch.setattr(owner, name, failure)
        with pytest.raises(DiskError, match=r"No space left on device|Operation not permitted"):
            draw(path)
        monkeypatch.undo()
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    draw(path)
    check_picture(path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("nowhere", "file"):
        with pytest.raises(DiskError, match=folder):
            bars({"one": {"short": 1.0}}, tmp_path / folder / "chart.png", "Scores", "BLEU")


@pytest.mark.parametrize("draw", DRAWINGS)
def test_without_matplotlib_the_extra_is_named(
    draw: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RegardError, match=r"drawing needs the package matplotlib") as raised:
        draw(tmp_path / "chart.png")
    assert raised.value.hint == "pip install 'regard[plot]'"


def test_drawing_leaves_no_global_state(tmp_path: Path) -> None:
    def settings() -> dict[str, Any]:
        return {key: rcParams[key] for key in rcParams if key != "backend"}  # asking for that one would load pyplot

    before, loaded = settings(), "matplotlib.pyplot" in sys.modules
    for draw in DRAWINGS:
        draw(tmp_path / "chart.png")
    assert settings() == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded
