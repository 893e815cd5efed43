"""Plots on a page, as readers use them: with a pointer, with keys, by ear, at night and on a telephone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.lens.page import Figure
from regard.lens.plot import Plot, Point
from tests.lens.screen import Screen, show
from tests.lens.test_injection import PAYLOADS
from tests.lens.test_report_page import PICTURE, STRANGE
from tests.lens.test_viewer import AXE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

TEXT = "{http://www.w3.org/2000/svg}text"


def make_lines() -> Plot:
    """Two logarithmic axes, an interval that reaches below zero, a gap, a formula with points of its own."""
    attention = [Point(n, n * n / 1e6, n * n / 2e6, n * n / 5e5) for n in (128, 256, 512, 1024)]
    mamba = [Point(128, 0.01, -0.01, 0.03), Point(512, 0.04), Point(1024, 0.08), Point(0, 0.5)]
    guide = [Point(100, 0.01), Point(10_000, 100.0)]
    series = {"attention": attention, "mamba": mamba}
    return Plot("Time", "length", "seconds", series, ("across", "down"), "Three seeds.", {"n²": guide})


def make_bars() -> Plot:
    names = ("none", "rotary", "a name that is much too long for a telephone and goes on")
    copying = [Point(name, value, value - 1, value + 1) for name, value in zip(names, (10.0, 20.0, -3.0), strict=True)]
    return Plot("Error", "scheme", "percent", {"copying": copying, "addition": [Point("rotary", 1234.5)]})


def make_question(shown: bool = True) -> Figure:
    told = {"question": "Why?", "claim": "So.", "method": "This.", "finding": "It is 3 times.", "about": "seed 1"}
    return Figure("question", {**told, "shown": shown})


@pytest.fixture
def screen(browser: Browser, tmp_path: Path) -> Iterator[Screen]:
    with show(browser, tmp_path, [make_question(), make_lines().figure(), make_bars().figure()]) as found:
        yield found


def slider(found: Screen, number: int = 0) -> Locator:
    return found.page.get_by_role("slider").nth(number)


def told(found: Screen, number: int = 0) -> str:
    return str(slider(found, number).get_attribute("aria-valuetext"))


def test_a_graph_tells_its_last_place_and_bars_their_first(screen: Screen) -> None:
    assert told(screen) == "length 1,024: attention: 1.049 (0.5243 to 2.097); mamba: 0.08; n²: 1.049"
    assert told(screen, 1) == "none: copying: 10 (9 to 11); addition: –"
    assert "length 1,024" in screen.page.locator(".graph-values").first.inner_text()


def test_keys_go_from_place_to_place(screen: Screen) -> None:
    slider(screen).focus()
    screen.press("Home")
    # a place of zero can't be on a logarithmic axis, and the formula is read between its points
    assert told(screen) == (
        "length 128: attention: 0.01638 (0.008192 to 0.03277); mamba: 0.01 (−0.01 to 0.03); n²: 0.01638"
    )
    screen.press("ArrowRight")
    assert told(screen).startswith("length 256: ") and "mamba: –" in told(screen)
    assert slider(screen).get_attribute("aria-valuenow") == "1"
    assert slider(screen).get_attribute("aria-valuemax") == "3"
    screen.press("Enter")
    assert "length 256, locked" in told(screen)
    screen.press("Escape")
    assert told(screen).startswith("length 1,024: ")


def test_the_next_group_of_bars_is_the_one_below(screen: Screen) -> None:
    slider(screen, 1).focus()
    screen.press("Home", "ArrowDown")
    assert told(screen, 1) == "rotary: copying: 20 (19 to 21); addition: 1,235"
    screen.press("ArrowUp", "ArrowUp")
    assert told(screen, 1).startswith("none: ")


def test_hovering_takes_the_nearest_place_and_a_click_holds_it(screen: Screen) -> None:
    box = slider(screen).bounding_box()
    assert box is not None
    before = slider(screen).locator("canvas").evaluate(PICTURE)
    screen.page.mouse.move(box["x"] + 0.24 * box["width"], box["y"] + 90)
    screen.settle()
    assert told(screen).startswith("length 256: ")
    assert slider(screen).locator("canvas").evaluate(PICTURE) != before
    screen.page.mouse.click(box["x"] + 0.24 * box["width"], box["y"] + 90)
    screen.page.mouse.move(2, 2)
    screen.settle()
    assert told(screen).startswith("length 256, locked: ")
    slider(screen, 1).scroll_into_view_if_needed()
    bars = slider(screen, 1).bounding_box()
    assert bars is not None
    screen.page.mouse.move(bars["x"] + 200, bars["y"] + 60)
    screen.settle()
    assert told(screen, 1).startswith("rotary: ")


def test_a_finger_chooses_a_place_too(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [make_lines().figure()], has_touch=True) as screen:
        box = slider(screen).bounding_box()
        assert box is not None
        screen.page.touchscreen.tap(box["x"] + 0.24 * box["width"], box["y"] + 90)
        screen.settle()
        assert told(screen).startswith("length 256, locked: ")


def test_the_legend_hides_series_and_shows_one_alone(screen: Screen) -> None:
    keys = screen.page.locator("section.graph").first.locator(".run-key")
    before = slider(screen).locator("canvas").evaluate(PICTURE)
    keys.nth(0).click()
    screen.settle()
    assert keys.nth(0).get_attribute("aria-pressed") == "false"
    assert told(screen) == "length 1,024: mamba: 0.08; n²: 1.049"
    assert slider(screen).locator("canvas").evaluate(PICTURE) != before
    keys.nth(2).click(modifiers=["Shift"])
    screen.settle()
    assert told(screen) == "length 10,000: n²: 100"  # a formula alone is told at its own points
    keys.nth(2).click()
    screen.settle()
    assert told(screen) == ": nothing"


def test_a_graph_can_be_saved_and_read_as_a_table(screen: Screen) -> None:
    first = screen.page.locator("section.graph").first
    saved = {}
    for form in ("CSV", "PNG", "SVG"):
        with screen.page.expect_download() as found:
            first.locator(f"[data-save={form}]").click()
        assert found.value.suggested_filename == f"Time.{form.lower()}"
        saved[form] = Path(found.value.path()).read_bytes()
    rows = list(csv.DictReader(io.StringIO(saved["CSV"].decode(), newline="")))
    assert rows[1] == {"series": "attention", "length": "256", "seconds": "0.065536", "low": "0.032768"} | {
        "high": "0.131072"
    }
    assert len(rows) == 4 + 4 + 2
    assert saved["PNG"].startswith(b"\x89PNG")
    texts = [item.text for item in ElementTree.fromstring(saved["SVG"]).iter(TEXT)]
    assert {"Time", "length", "seconds", "attention", "mamba", "n²", "256", "1,024"} <= set(texts)
    first.locator("summary").click()
    first.locator("tbody tr").first.wait_for()  # a box is filled when it has opened
    assert first.locator("tbody tr").count() == len(rows)


def test_saved_bars_have_their_names_and_values(screen: Screen) -> None:
    with screen.page.expect_download() as found:
        screen.page.locator("section.graph").nth(1).locator("[data-save=SVG]").click()
    texts = [item.text for item in ElementTree.fromstring(Path(found.value.path()).read_bytes()).iter(TEXT)]
    assert {"none", "rotary", "10", "20", "−3", "1,235", "copying", "addition", "percent"} <= set(texts)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 320)])
def test_axe_finds_nothing_serious_in_graphs(scheme: str, width: int, browser: Browser, tmp_path: Path) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    figures = [make_question(), make_question(False), make_lines().figure(), make_bars().figure()]
    with show(browser, tmp_path, figures, color_scheme=scheme) as screen:
        screen.page.set_viewport_size({"width": width, "height": 900})
        for summary in screen.page.locator("summary").all():
            summary.click()
        screen.page.locator(".run-key").nth(1).click()
        screen.settle()
        assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert screen.page.locator("canvas").first.evaluate("(canvas) => canvas.clientWidth") < width
        screen.page.evaluate(axe)
        assert screen.page.evaluate(AXE) == []


def test_graphs_follow_the_theme(screen: Screen) -> None:
    canvas, theme = screen.page.locator("canvas").nth(1), screen.page.get_by_role("button", name="Theme")
    light = canvas.evaluate(PICTURE)
    theme.click()
    theme.click()
    screen.settle()
    assert theme.inner_text() == "Theme: dark"
    assert canvas.evaluate(PICTURE) != light


def test_the_answer_is_hidden_until_it_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [make_question(), make_question(False)]) as screen:
        answer = screen.page.get_by_text("It is 3 times.")
        assert not answer.first.is_visible()
        screen.page.locator("summary").first.focus()
        screen.press("Enter")
        assert answer.first.is_visible() and not answer.nth(1).is_visible()
        assert screen.page.locator(".verdict").all_text_contents() == ["✓ Shown", "✗ Not shown here"]


def test_payloads_in_plots_are_only_read(browser: Browser, tmp_path: Path) -> None:
    lines = Plot(PAYLOADS[0], PAYLOADS[1], PAYLOADS[2], {name: [Point(1, 1.0), Point(2, 2.0)] for name in PAYLOADS})
    bars = Plot("bars", "x", "y", {"one": [Point(name, 1.0) for name in PAYLOADS]}, note=PAYLOADS[0])
    with show(browser, tmp_path, [lines.figure(), bars.figure()]) as screen:
        for summary in screen.page.locator("summary").all():
            summary.click()
        screen.settle()
        assert screen.page.locator(".run-key").count() == len(PAYLOADS)
        assert screen.page.evaluate("() => typeof window.__fired") == "undefined"
        assert screen.page.locator(STRANGE).count() == 0


def test_one_point_and_equal_values_can_be_drawn(browser: Browser, tmp_path: Path) -> None:
    one = Plot("one", "x", "y", {"a": [Point(8, 3.0)]}, ("across", "down"))
    flat = Plot("flat", "x", "y", {"a": [Point("b", 0.0), Point("c", float("nan"))]})
    with show(browser, tmp_path, [one.figure(), flat.figure()]) as screen:
        assert told(screen) == "x 8: 3"
        assert screen.page.locator(".run-key").count() == 0
        slider(screen, 1).focus()
        screen.press("End")
        assert told(screen, 1) == "c: –"


def test_formulas_are_drawn_across_the_bars_of_a_picture_too() -> None:
    pytest.importorskip("matplotlib")
    series = {"a": [Point("one", 1.0), Point("two", 2.0)]}
    plot = Plot("t", "x", "y", series, guides={"formula": [Point("two", 1.5), Point("nowhere", 9.0)]})
    (axes,) = plot.picture().axes
    lines = [part for part in axes.collections if part.get_label() == "formula"]
    (path,) = [path for part in lines for path in part.get_paths()]
    assert np.allclose(np.asarray(path.vertices, float), [[0.58, 1.5], [1.42, 1.5]])
