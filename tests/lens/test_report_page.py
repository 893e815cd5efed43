"""The page of a report, as readers use it: with a pointer, with keys, by ear, at night and on a telephone."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from regard.lens.curves import read_curves
from regard.lens.page import Figure
from tests.lens.reports import RUNS, make_curves, make_evaluations, make_history, make_report, make_samples
from tests.lens.screen import Screen, show
from tests.lens.test_injection import PAYLOADS
from tests.lens.test_viewer import AXE, COLORS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

PICTURE = "(canvas) => canvas.toDataURL()"


@pytest.fixture
def screen(browser: Browser, tmp_path: Path) -> Iterator[Screen]:
    with show(browser, tmp_path, make_report()) as found:
        yield found


def chart(found: Screen, number: int = 0) -> Locator:
    return found.page.locator(".chart").nth(number)


def told(found: Screen, number: int = 0) -> str:
    """What a chart says to those who hear it."""
    return str(chart(found, number).get_by_role("slider").get_attribute("aria-valuetext"))


def test_a_chart_tells_the_end_of_every_run(screen: Screen) -> None:
    assert told(screen).startswith("at the end: attention: training ")
    loss = make_history(40, 5.0)[-2]["loss"]
    assert f"attention: training {loss:.4g}" in told(screen)  # the mean at the very end is the last value
    assert "short: training 0.35, validation 0.35 (0.175 to 1.4)" in told(screen)
    readout = chart(screen).locator(".chart-values").inner_text()
    assert "at the end" in readout and "0.35" in readout


def test_hovering_shows_one_place_in_all_charts(screen: Screen) -> None:
    slider = chart(screen).get_by_role("slider")
    box = slider.bounding_box()
    assert box is not None
    screen.page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 50)
    screen.settle()
    found = re.match(r"(\d+) steps: ", told(screen))
    assert found is not None and 35 <= int(found[1]) <= 50
    assert f"{found[1]} steps: " in told(screen, 1)
    assert "short: training – (ended at 20), validation 0.35 (0.175 to 1.4) at 20" in told(screen)  # never in silence
    screen.page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 50)
    screen.page.mouse.move(2, 2)
    screen.settle()
    assert ", locked" in told(screen)
    slider.focus()
    screen.press("Escape")
    assert told(screen).startswith("at the end")


def test_keys_go_from_point_to_point(screen: Screen) -> None:
    slider = chart(screen, 1).get_by_role("slider")  # of evaluations alone
    slider.focus()
    screen.press("Home")
    assert told(screen, 1) == f"10 steps: {'; '.join(f'{label}: 5' for label in RUNS)}"
    screen.press("ArrowRight", "ArrowRight")
    assert told(screen, 1).startswith(f"30 steps: {RUNS[0]}: 15; {RUNS[1]}: 15; short: 10 at 20")
    screen.press("End")
    assert told(screen, 1).startswith("60 steps: attention: 20 at 40; runs/long/transformer: 30")
    assert slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax") == "5"


def test_the_legend_hides_runs_and_shows_one_alone(screen: Screen) -> None:
    keys = screen.page.locator(".run-key")
    before = chart(screen).locator("canvas").evaluate(PICTURE)
    keys.nth(1).click()
    screen.settle()
    assert keys.nth(1).get_attribute("aria-pressed") == "false"
    assert RUNS[1] not in told(screen) and RUNS[0] in told(screen)
    assert chart(screen).locator("canvas").evaluate(PICTURE) != before
    keys.nth(1).click(modifiers=["Shift"])
    screen.settle()
    assert [key.get_attribute("aria-pressed") for key in keys.all()] == ["false", "true", "false"]
    assert RUNS[0] not in told(screen) and RUNS[1] in told(screen)
    keys.nth(1).click()
    screen.settle()
    assert told(screen) == "at the end: nothing"


def test_the_axis_and_the_smoothing_can_be_chosen(screen: Screen) -> None:
    screen.page.get_by_label("Over").select_option("tokens")
    slider = chart(screen).get_by_role("slider")
    slider.focus()
    screen.press("Home")
    assert told(screen).startswith("100 tokens: ")
    screen.page.get_by_label("Over").select_option("minutes")
    screen.settle()
    screen.page.get_by_label("Smoothing").select_option("off")
    screen.settle()
    slider.focus()
    screen.press("Home", "ArrowRight")
    assert told(screen).startswith("0.0167 minutes: attention: training 2.5,")  # step 2: 5 / 2 after a second
    button = chart(screen).get_by_role("button", name="Logarithmic axis for loss")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"


def test_numbers_stand_behind_every_chart(screen: Screen) -> None:
    chart(screen, 1).locator("summary").click()
    chart(screen, 1).locator("tbody tr").first.wait_for()  # they are made when somebody looks
    rows = [row.inner_text().split("\t") for row in chart(screen, 1).locator("tbody tr").all()]
    assert len(rows) == 4 + 6 + 2
    assert rows[0][:6] == ["attention", "validation", "10", "1000", rows[0][4], "5"]


def test_pictures_and_numbers_can_be_saved(screen: Screen) -> None:
    saved = {}
    for form in ("CSV", "PNG", "SVG"):
        with screen.page.expect_download() as found:
            chart(screen).locator(f"[data-save={form}]").click()
        assert found.value.suggested_filename == f"curves-loss.{form.lower()}"
        saved[form] = Path(found.value.path()).read_bytes()
    rows = list(csv.DictReader(io.StringIO(saved["CSV"].decode(), newline="")))
    history = make_history(40, 5.0)
    logged = [line["loss"] for line in history if line["event"] == "step"]
    mine = [float(row["loss"]) for row in rows if row["run"] == "attention" and row["what"] == "training"]
    assert mine == pytest.approx(logged, rel=1e-5)
    assert saved["PNG"].startswith(b"\x89PNG")
    texts = [item.text for item in ElementTree.fromstring(saved["SVG"]).iter("{http://www.w3.org/2000/svg}text")]
    assert "loss" in texts and set(RUNS) <= set(texts)


@pytest.mark.parametrize("part", ["summary", "evaluations", "samples", "settings"])
def test_every_part_can_be_saved_as_a_table(part: str, screen: Screen) -> None:
    with screen.page.expect_download() as found:
        screen.page.locator(f"section.{part} .part-head").get_by_role("button", name="CSV").first.click()
    rows = list(csv.reader(io.StringIO(Path(found.value.path()).read_text("utf-8"), newline="")))
    assert len(rows) > 2 and len({len(row) for row in rows}) == 1


def test_facts_are_read_as_people_write_them(screen: Screen) -> None:
    text = screen.page.locator("section.summary").inner_text()
    for words in (
        "1,234,567",
        "2 min 5 s",
        "2 h 1 min",
        "1,235 tokens/s",
        "4.56 MB",
        "0123456789ab",
        "1970-01-01 00:00 UTC",
    ):
        assert words in text
    assert "metrics.jsonl: damaged" not in text and "le petit chat" in text  # the note that was given


def test_the_best_is_marked_by_more_than_a_color(screen: Screen) -> None:
    table = screen.page.locator("section.evaluations table").first
    assert [cell.text_content() for cell in table.locator("td.won").all()] == ["★ best of all: 22"]
    assert "more is better" in table.inner_text() and "0.5 to 1.5" in table.inner_text()
    screen.page.locator("section.evaluations summary").first.click()
    screen.settle()
    opened = screen.page.locator("section.evaluations details table").first
    assert opened.locator("tr.chosen").count() == 1 and "best" in opened.locator("tr.chosen").inner_text()


def test_samples_keep_their_lines_and_mark_what_differs(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [make_samples()]) as screen:
        first = screen.page.locator(".sample").first
        assert [one.inner_text() for one in first.locator(".pair").nth(2).locator(".other").all()] == ["petit"]
        assert first.get_by_role("img", name="not as expected").count() == 1
        second = screen.page.locator(".sample").nth(1).locator(".pair").first
        assert second.locator("dd").inner_text().split("\n") == ["a", "⇥b le petit chat"]
        wrong = screen.page.locator(".sample").nth(2).locator("td.wrong")
        assert wrong.count() == len(RUNS) and wrong.first.inner_text().startswith("VERB")


def test_looks_are_drawn_when_they_are_opened(screen: Screen) -> None:
    section = screen.page.locator("section.looks")
    assert section.locator(".panels").count() == 1
    section.locator(".run-box > summary").nth(1).click()
    screen.settle()
    assert section.locator(".panels").count() == 2
    assert section.locator(".map canvas").nth(1).evaluate(COLORS) > 3


def test_run_files_can_be_read_and_what_differs_stands_first(screen: Screen) -> None:
    section = screen.page.locator("section.settings")
    assert section.locator("thead th").all_inner_texts() == RUNS
    assert section.locator("tbody tr").first.inner_text().split("\t") == [
        "model.kind",
        "le petit chat",
        "not set",
        "gru",
    ]
    section.get_by_text("Run file of attention").click()
    assert section.locator(".code-line").nth(1).inner_text() == "  seed: 1"
    section.get_by_text("2 settings that are equal").click()
    assert "seed" in section.locator("table").nth(1).inner_text()


def test_one_run_needs_no_legend_and_no_columns(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, make_report(["alone"])) as screen:
        assert screen.page.locator(".run-key").count() == 0
        assert screen.page.locator(".run-facts dt").first.inner_text() == "state"
        assert told(screen).startswith("at the end: training 0.125, validation 0.125")
        assert screen.page.locator("section.evaluations tr.chosen").count() == 1


def test_a_run_without_anything_is_no_mistake(browser: Browser, tmp_path: Path) -> None:
    empty = make_curves(["a"], (0,))
    with show(browser, tmp_path, [empty]) as screen:
        assert told(screen) == "at the end: nothing"
        chart(screen).get_by_role("slider").focus()
        screen.press("ArrowRight", "Enter")
        assert told(screen) == "at the end: nothing"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 320)])
def test_axe_finds_nothing_serious_in_a_report(scheme: str, width: int, browser: Browser, tmp_path: Path) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    figures = [figure for figure in make_report() if figure.kind != "looks"]  # which has tests of its own
    with show(browser, tmp_path, figures, color_scheme=scheme) as screen:
        screen.page.set_viewport_size({"width": width, "height": 900})
        chart(screen, 1).locator("summary").click()
        for part in ("evaluations", "settings"):
            for summary in screen.page.locator(f".{part} summary").all():
                summary.click()
        screen.settle()
        assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= width
        screen.page.evaluate(axe)
        assert screen.page.evaluate(AXE) == []


def test_a_report_fits_a_telephone(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, make_report()) as screen:
        screen.page.set_viewport_size({"width": 320, "height": 700})
        screen.settle()
        assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= 320
        assert chart(screen).locator("canvas").evaluate("(canvas) => canvas.clientWidth") < 320


def test_both_themes_draw_other_colors(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [make_curves()]) as screen:
        canvas, theme = chart(screen).locator("canvas"), screen.page.get_by_role("button", name="Theme")
        light = canvas.evaluate(PICTURE)
        theme.click()
        theme.click()
        screen.settle()
        assert theme.inner_text() == "Theme: dark"
        assert canvas.evaluate(PICTURE) != light


def test_links_lead_to_the_parts(screen: Screen) -> None:
    screen.page.get_by_role("link", name="Settings").click()
    screen.settle()
    heading = screen.page.locator("section.settings h2")
    assert heading.evaluate("(element) => element === document.activeElement")
    assert "#" not in screen.page.url


def test_measures_may_have_any_name(browser: Browser, tmp_path: Path) -> None:
    """A journal may call a measure as JavaScript calls something that every object has."""
    names = ["constructor", "__proto__", "toString", "x.y"]
    plain = make_history(20, 5.0)
    strange = [{**line, **dict.fromkeys(names, 1.5)} if line["event"] == "evaluation" else line for line in plain]
    told_of = [{"label": label, **read_curves(one).as_json()} for label, one in (("a", plain), ("b", strange))]
    panels = [{"name": name, "title": name, "logarithmic": False, "noisy": False} for name in names]
    rows = make_evaluations(["a", "b"]).data
    row = {**rows["rows"][-1], "values": {name: [1.5, None, None] for name in names}}
    measures = [{"name": name, "title": name, "rising": None} for name in names]
    evaluations = {**rows, "rows": [*rows["rows"], row], "measures": [*rows["measures"], *measures], "winners": {}}
    figures = [Figure("curves", {"runs": told_of, "panels": panels, "note": ""}), Figure("evaluations", evaluations)]
    with show(browser, tmp_path, figures) as screen:
        assert [told(screen, n) for n in range(4)] == ["at the end: b: 1.5"] * 4
        assert screen.page.locator("section.evaluations thead").first.inner_text().split()[-4:] == names


OPEN = "(boxes) => boxes.forEach((box) => { box.open = true; })"
STRANGE = "img, iframe, object, embed, form, input, video, base, style:not(head style), a[href^=java]"


def test_payloads_in_a_report_are_only_read(browser: Browser, tmp_path: Path) -> None:
    """Every payload as a run's name, and all of them as whatever a file or a model may say."""
    word = "\n".join(PAYLOADS)
    names = make_curves(PAYLOADS, (2,) * len(PAYLOADS))
    parts = [figure for figure in make_report(PAYLOADS[:3], word) if figure.kind != "looks"]
    with show(browser, tmp_path, [names, *parts], title=word) as screen:
        screen.page.locator("section:not(.curves) .run-box").evaluate_all(OPEN)
        screen.page.locator(".chart summary").first.click()
        screen.settle()
        assert screen.page.locator(".run-key").count() == len(PAYLOADS) + 3
        assert screen.page.evaluate("() => typeof window.__fired") == "undefined"
        assert screen.page.locator(STRANGE).count() == 0
