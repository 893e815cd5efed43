"""The viewer, as readers use it: with a pointer, with keys, with a screen reader, at night and on a telephone."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from regard.lens import chunk
from regard.lens.page import Figure, embed_page, make_page
from regard.lens.script import VIEWER, kinds
from tests.lens import looks
from tests.lens.screen import SETTLE, Screen, serve, show, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CROSS = "decoder.blocks.0.cross.weights"
COLORS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""
SHAPES = [looks.attend, looks.turn, looks.single, looks.puzzle, looks.stretch, looks.write]


@pytest.fixture
def screen(browser: Browser, tmp_path: Path) -> Iterator[Screen]:
    """A translation: three layers of four heads, in the encoder, in the decoder and between them."""
    with show(browser, tmp_path, [looks.translate()]) as found:
        yield found


def weights(name: str = CROSS, head: int = 0) -> Any:
    return looks.translate().arrays[name][head]


def read_csv(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text("utf-8"), newline="")))


def numbers(path: Path) -> Any:
    return np.array([[float(value) for value in line[1:]] for line in read_csv(path)[1:]])


def labels(found: Screen, panel: str) -> list[str]:
    options = found.page.locator(f".{panel} [role=option]")
    return [str(option.get_attribute("aria-label")) for option in options.all()]


def selected(found: Screen, panel: str) -> str:
    return str(found.page.locator(f".{panel} [aria-selected=true]").get_attribute("aria-label"))


def test_hovering_shows_a_cell_in_every_view_and_leaving_clears_it(screen: Screen) -> None:
    screen.hover(2, 4)
    assert "chat → the" in screen.readout
    assert screen.weight == pytest.approx(weights()[2, 4], rel=5e-4)
    assert selected(screen, "bars").startswith("chat,")
    assert screen.page.locator(".alternatives b").inner_text() == "chat"
    best = int(weights()[2].argmax())
    assert looks.SOURCE[best] == "den"
    assert screen.page.locator(".strongest p").inner_text() == "chat looks at"
    told = screen.page.locator(".strongest li").first.inner_text().split()
    assert told == ["-den", f"{100 * weights()[2, best]:.0f}", "%"]
    screen.page.mouse.move(2, 2)
    screen.settle()
    assert "→" not in screen.readout
    assert screen.page.locator(".bars [aria-selected=true]").count() == 0


def test_a_click_holds_a_cell_until_it_is_clicked_again_or_escape(screen: Screen) -> None:
    screen.click(2, 4)
    assert "held" in screen.readout
    x, y = screen.page.locator(".map .cell").bounding_box()["x"], 700  # type: ignore[index]
    screen.page.mouse.move(x + 60, y)
    screen.settle()
    assert "chat → the" in screen.readout
    screen.page.locator(".sheet [role=option]").nth(7).hover()
    screen.settle()
    assert screen.readout.startswith("layer 1, head 2")  # another head, at the same cell
    assert screen.weight == pytest.approx(weights("decoder.blocks.1.cross.weights", 2)[2, 4], rel=5e-4)
    screen.press("Escape")
    assert "held" not in screen.readout
    where = screen.point(2, 4)
    for held in (True, False):
        screen.page.mouse.click(*where)
        screen.settle()
        assert ("held" in screen.readout) is held


def test_keys_move_hold_and_clear(screen: Screen) -> None:
    screen.cell.focus()
    screen.press("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    row, column = 2, 1  # a cell that gets the focus by a key is the first one
    assert screen.weight == pytest.approx(weights()[row, column], rel=5e-4)
    assert "held" in screen.readout
    screen.press("End")
    assert screen.weight == pytest.approx(weights()[row, -1], rel=5e-4)
    screen.press("Home", "ArrowUp", "ArrowUp", "ArrowUp")
    assert screen.weight == pytest.approx(weights()[0, 0], rel=5e-4)
    screen.press("Enter")
    assert "held" not in screen.readout
    screen.press("Escape")
    assert "→" not in screen.readout


def test_keys_change_layer_and_head_from_anywhere(screen: Screen) -> None:
    """From the first one they go round; after the last head comes the mean."""
    screen.page.locator("body").click(position={"x": 3, "y": 3})
    for key, place in (
        ("]", "layer 1, head 0"),
        (".", "layer 1, head 1"),
        ("[", "layer 0, head 1"),
        (",", "layer 0, head 0"),
    ):
        screen.press(key)
        assert screen.readout.startswith(place)
        assert selected(screen, "sheet").startswith(place)
    screen.press(",")
    assert screen.readout.startswith("layer 0, mean of heads")
    screen.press("[")
    assert screen.readout.startswith("layer 2, mean of heads")
    found = numbers(screen.save("map", "CSV").path())
    np.testing.assert_allclose(found, looks.translate().arrays["decoder.blocks.2.cross.weights"].mean(0), rtol=1e-6)


def test_a_screen_reader_hears_cell_by_cell(screen: Screen) -> None:
    grid = screen.page.get_by_role("grid")
    assert grid.get_attribute("aria-label") == "Map of layer 0, head 0: 10 tokens look at 10 tokens"
    screen.cell.focus()
    screen.press("ArrowDown")  # the first key is told with the name of the map
    screen.press("ArrowRight")
    said = screen.page.locator("[aria-live=polite]").inner_text()
    assert said.startswith("“petit” to “small”: 0.")
    assert float(said.rpartition(" ")[2]) == pytest.approx(weights()[1, 1], rel=5e-4)
    assert screen.cell.get_attribute("aria-label") == said
    assert grid.locator("[aria-rowindex='2'] [aria-colindex='2']").count() == 1
    screen.press("Enter")
    assert screen.page.locator("[aria-live=polite]").inner_text() == f"{said}, held"
    screen.press("]")
    name, cell, held = screen.page.locator("[aria-live=polite]").inner_text().rsplit(", ", 2)
    assert (name, held) == ("layer 1, head 0", "held")
    expected = weights("decoder.blocks.1.cross.weights")[1, 1]  # not what was there when the key was pressed
    assert float(cell.rpartition(" ")[2]) == pytest.approx(expected, rel=5e-4)


def test_words_are_added_over_keys_and_averaged_over_queries(screen: Screen) -> None:
    np.testing.assert_array_equal(numbers(screen.save("map", "CSV").path()).astype(np.float32), weights())
    screen.click(6, 6)  # -din to -den
    screen.page.get_by_role("button", name="words").click()
    screen.settle()
    assert "jardin → garden" in screen.readout
    path = screen.save("map", "CSV").path()
    expected = np.add.reduceat(weights().astype(float), [0, 1, 2, 3, 4, 5, 7, 8, 9], 1)
    expected = np.concatenate([expected[:5], expected[5:7].mean(0, keepdims=True), expected[7:]])
    np.testing.assert_allclose(numbers(path), expected, rtol=1e-6)
    assert read_csv(path)[0] == ["", *["The", "small", "cat", "in", "the", "garden", "sleeps", ".", "[EOS]"]]
    assert screen.weight == pytest.approx(expected[5, 5], rel=5e-4)
    screen.press("w")
    assert "jar → gar" in screen.readout


@pytest.mark.parametrize(("measure", "sign"), [("entropy", 1), ("importance", -1), ("distance", 1)])
def test_heads_are_sorted(measure: str, sign: int, screen: Screen) -> None:
    screen.page.get_by_label("Sort by").select_option(measure)
    screen.settle()
    maps = [map for map in looks.translate().data["maps"] if map["part"] == "cross"]
    ranked = [(sign * head[measure], map["layer"], n) for map in maps for n, head in enumerate(map["summary"])]
    expected = [f"layer {layer}, head {head}" for _, layer, head in sorted(ranked)]
    assert [label.rpartition(", ")[0] for label in labels(screen, "sheet")] == expected
    screen.page.locator(".sheet [role=option]").first.focus()
    screen.press("ArrowRight")
    assert screen.readout.startswith(expected[1])


def test_groups_of_maps_are_switched(screen: Screen) -> None:
    buttons = screen.page.get_by_role("group", name="Which maps").get_by_role("button")
    assert buttons.all_inner_texts() == ["encoder", "decoder", "cross"]
    screen.click(1, 1)
    buttons.nth(0).click()
    screen.settle()
    assert "held" not in screen.readout  # other axes
    screen.hover(1, 2)
    assert "small → cat" in screen.readout
    assert screen.weight == pytest.approx(weights("encoder.blocks.0.mix.weights")[1, 2], rel=5e-4)
    assert screen.page.locator(".bars [aria-selected=true]").count() == 0  # these rows predict nothing


def test_predictions_and_lines_point_at_rows(screen: Screen) -> None:
    screen.page.locator(".bars [role=option]").nth(3).hover()
    screen.settle()
    assert "dans →" in screen.readout
    said = looks.make_predictions(looks.TARGET)[3]
    assert screen.page.locator(".alternatives li").first.inner_text().startswith("dans")
    assert f"rank {said['rank']}" in screen.page.locator(".alternatives .muted").inner_text()
    screen.page.locator(".bars [role=option]").nth(3).click()
    screen.press("ArrowDown")
    assert "le →" in screen.readout
    assert "held" in screen.readout
    screen.press("Escape")
    screen.page.locator(".lines canvas").hover(position={"x": 20, "y": 24 + 22 * 2 + 11})
    screen.settle()
    assert "chat →" in screen.readout
    screen.page.locator(".lines canvas").click(position={"x": 20, "y": 24 + 22 * 2 + 11})
    screen.settle()
    assert "held" in screen.readout


def test_every_picture_has_its_numbers_and_files(screen: Screen) -> None:
    for panel, columns in (("map", 11), ("sheet", 5), ("lines", 5), ("bars", 16)):
        screen.page.locator(f".{panel} .numbers summary").click()
        screen.settle()
        assert screen.page.locator(f".{panel} table thead tr > *").count() == columns
        assert len(read_csv(screen.save(panel, "CSV").path())[0]) == columns
        with Image.open(screen.save(panel, "PNG").path()) as picture:
            assert picture.format == "PNG"
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10
        assert len(list(ElementTree.parse(screen.save(panel, "SVG").path()).getroot())) > 10
    shown = screen.page.locator(".map tbody tr").nth(2).locator("td").all_inner_texts()
    np.testing.assert_allclose([float(text) for text in shown], weights()[2], rtol=1e-5)
    drawn = ElementTree.parse(screen.save("map", "SVG").path()).getroot()
    texts = [text.text for text in drawn.iter() if text.tag.endswith("text")]
    assert {"petit", "chat", "small", "cat"} <= set(texts)
    pairs = read_csv(screen.save("lines", "CSV").path())[1:]
    assert len(pairs) == 100
    assert float(pairs[0][4]) == pytest.approx(float(weights().max()), rel=1e-6)


def test_a_table_is_sorted_by_its_columns(browser: Browser, tmp_path: Path) -> None:
    rows = [["b", 2.0], ["a", None], ["c", 10.0], ["d", -1.0]]
    with show(
        browser, tmp_path, [Figure("table", {"title": "t", "columns": ["name", "size"], "rows": rows})]
    ) as screen:
        for order in ("dbca", "cbda"):  # what has no number is last both ways
            screen.page.get_by_role("button", name="size").click()
            assert "".join(screen.page.locator("tbody td:first-child").all_inner_texts()) == order
        assert screen.page.get_by_role("columnheader", name="size").get_attribute("aria-sort") == "descending"


def brightness(found: Screen) -> tuple[float, float]:
    """Of the page, and of the map's darkest or lightest cells."""
    with Image.open(io.BytesIO(found.page.screenshot())) as picture:
        return picture.convert("L").getpixel((2, 2)), np.median(np.asarray(picture.convert("L")))  # type: ignore[return-value]


def test_both_themes_by_the_system_and_by_the_switch(browser: Browser, tmp_path: Path) -> None:
    for scheme, light in (("light", True), ("dark", False)):
        with show(browser, tmp_path / scheme, [looks.translate()], color_scheme=scheme) as screen:
            button = screen.page.get_by_role("button", name="Theme")
            assert all((value > 128) == light for value in brightness(screen))
            for theme in ("light", "dark", "auto"):
                button.click()
                screen.settle()
                assert button.inner_text() == f"Theme: {theme}"
                expected = light if theme == "auto" else theme == "light"
                assert all((value > 128) == expected for value in brightness(screen))


@pytest.mark.parametrize("make", [looks.translate, *SHAPES])
def test_every_shape_is_drawn_and_fits_a_telephone(
    make: Callable[[], Figure], browser: Browser, tmp_path: Path
) -> None:
    with show(browser, tmp_path, [make()], title="") as screen:
        for width in (1200, 800, 320):
            screen.page.set_viewport_size({"width": width, "height": 700})
            screen.settle()
            assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert screen.page.locator(".failure").count() == 0
        screen.press("ArrowDown", "]", ".", "Enter", "+", "-", "w")
        assert "layer 0" in screen.readout or "layer 1" in screen.readout
        for summary in screen.page.locator(".numbers summary").all():
            if summary.is_visible():
                summary.click()
        assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= 320
        assert screen.page.locator(".map canvas").evaluate(COLORS) > 5


def test_what_has_one_head_one_layer_or_no_words_offers_no_choice(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.single()]) as screen:
        for name in ("Which maps", "layer", "head", "Unit"):
            assert not screen.page.get_by_role("group", name=name, exact=True).is_visible()
        assert not screen.page.locator(".sheet").is_visible()
        assert screen.page.locator(".bars").count() == 0
    with show(browser, tmp_path, [looks.turn()]) as screen:
        screen.hover(0, 11)
        assert "1 → 11" in screen.readout
        assert screen.page.get_by_role("grid").get_attribute("aria-label", timeout=5000) == (
            "Map of layer 0, head 0: 5 tokens look at 12 slots"
        )


def test_a_weight_that_is_no_number_is_told_and_drawn_apart(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.puzzle()]) as screen:
        screen.hover(1, 2)
        assert screen.page.locator(".readout .weight").inner_text() == "–"
        texts = [element.text for element in ElementTree.parse(screen.save("map", "SVG").path()).getroot().iter()]
        assert texts.count("×") == 1
        assert read_csv(screen.save("map", "CSV").path())[2][3] == ""


def test_signs_of_direction_are_shown_and_not_obeyed(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.puzzle()]) as screen:
        screen.hover(4, 0)
        assert "⟨202E⟩evil →" in screen.readout
        screen.hover(5, 6)
        assert "⏎ → ∅" in screen.readout
        screen.hover(3, 7)
        assert "◌̈ → �" in screen.readout


def test_rounded_weights_say_so(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "EXACT", 0)
    with show(browser, tmp_path, [looks.translate()]) as screen:
        foot = screen.page.locator(".foot").inner_text()
        assert "0.39 % of a map's largest" in foot
        assert 'look.save("look.npz")' in foot
        screen.hover(2, 4)
        assert "≈" in screen.readout
        top = weights().max()
        assert abs(screen.weight - weights()[2, 4]) <= top / 254 + 0.05 * weights()[2, 4]
        lines = read_csv(screen.save("map", "CSV").path())
        assert lines[0][0] == "rounded"
        found = np.array([[float(value) for value in line[1:]] for line in lines[1:]])
        assert np.abs(found - weights()).max() <= top / 254 + 1e-3 * top
        assert len(labels(screen, "sheet")) == 15  # painted from the thumbnails that the page carries


def test_large_maps_are_zoomed_and_scrolled_to_the_cell(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.write(200, 1, 1)]) as screen:
        assert "Lines are drawn for up to 64 tokens" in screen.page.locator(".lines .note").inner_text()
        screen.cell.focus()
        small = screen.page.locator(".map .cell").bounding_box()
        screen.press("+", "+", "+", "+", "End", *["ArrowDown"] * 5)
        large = screen.page.locator(".map .cell").bounding_box()
        scroller = screen.page.locator(".map .scroller").bounding_box()
        assert small and large and scroller
        assert large["width"] > 3 * small["width"]
        assert scroller["x"] <= large["x"] <= scroller["x"] + scroller["width"]
        assert screen.page.locator(".map .scroller").evaluate("(it) => it.scrollLeft") > 0
        screen.page.locator(".map .numbers summary").click()
        screen.settle()
        assert screen.page.locator(".map caption").inner_text() == "Rows 0 to 23 of 200, columns 192 to 199 of 200"
        screen.page.get_by_role("button", name="← columns").click()
        screen.settle()
        assert "columns 168 to 191" in screen.page.locator(".map caption").inner_text()


def test_two_looks_on_a_page_have_their_own_keys(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.translate(), looks.write(8, 3, 2)]) as screen:
        readouts = screen.page.locator(".readout")
        screen.press("]")
        assert [text.split(",")[0] for text in readouts.all_inner_texts()] == ["layer 1", "layer 0"]
        screen.page.locator(".readout").nth(1).hover()
        screen.press("]", "]")
        assert [text.split(",")[0] for text in readouts.all_inner_texts()] == ["layer 1", "layer 2"]


AXE = """async (source) => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]);
}"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 320)])
def test_axe_finds_nothing_serious(scheme: str, width: int, browser: Browser, tmp_path: Path) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    table = Figure("table", {"title": "t", "columns": ["a", "b"], "rows": [["x", 1.0]]})
    figures = [looks.translate(), table, Figure("text", {"title": "t", "text": "a\nb"})]
    with show(browser, tmp_path, figures, color_scheme=scheme) as screen:
        screen.page.set_viewport_size({"width": width, "height": 900})
        for summary in screen.page.locator("summary").all():
            summary.click()
        screen.cell.focus()
        screen.press("ArrowDown", "Enter")
        screen.page.evaluate(axe)
        assert screen.page.evaluate(AXE) == []


def test_nothing_moves_for_those_who_want_it_still(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, [looks.translate()], reduced_motion="reduce") as screen:
        screen.hover(1, 1)
        assert screen.page.evaluate("() => document.getAnimations().length") == 0


def test_a_page_in_a_notebook_draws_and_saves_inside_its_frame(browser: Browser, tmp_path: Path) -> None:
    page = make_page("inside", [looks.translate()])
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>outside</title>{embed_page(page, 900)}", "utf-8")
    with visit(browser, (tmp_path / "notebook.html").as_uri()) as screen:
        frame = screen.page.frame_locator("iframe")
        frame.locator(".sheet [role=option]").nth(6).click()
        screen.page.frames[1].evaluate(SETTLE)
        assert frame.locator(".readout .where").inner_text() == "layer 1, head 1"
        with screen.page.expect_download() as found:
            frame.locator(".map [data-save=CSV]").click()
        expected = weights("decoder.blocks.1.cross.weights", 1)
        np.testing.assert_allclose(numbers(found.value.path()), expected, rtol=1e-6)
        frame.get_by_role("button", name="Theme").click()  # there is no place to remember it in, and it still works
        assert frame.get_by_role("button", name="Theme").inner_text() == "Theme: light"
    assert screen.faults == []


def test_a_file_that_is_cut_short_says_so(browser: Browser, tmp_path: Path) -> None:
    page = make_page("cut", [looks.translate()])
    (tmp_path / "cut.html").write_text(page[: page.index('id="chunk-9"')], "utf-8")
    with visit(browser, (tmp_path / "cut.html").as_uri()) as screen:
        assert "the file isn't whole" in screen.page.get_by_role("alert").first.inner_text()


@pytest.mark.parametrize("kind", kinds())
def test_modules_load_one_by_one_from_a_server(kind: str, browser: Browser) -> None:
    """As pages of a server will have them: real modules, each with its own imports."""
    with serve(VIEWER) as server, visit(browser, f"{server.address}/base.css") as screen:
        code = f"""async () => {{
          await import("{server.address}/{kind}.js");
          return typeof (await import("{server.address}/registry.js")).component("{kind}");
        }}"""
        assert screen.page.evaluate(code) == "function"
        assert screen.faults == []
        assert all(path.endswith((".js", ".css", "favicon.ico")) for path in server.asked)


def test_steps_stand_above_their_tokens(browser: Browser, tmp_path: Path) -> None:
    plain, counts = looks.translate(), [float(1 + n % 4) for n in range(len(looks.SOURCE))]
    steps = {"name": "encoder.blocks.0.mix.steps", "axis": "source", "counts": counts}
    with show(browser, tmp_path, [Figure("look", {**plain.data, "steps": [steps]}, plain.arrays)]) as found:
        items = found.page.locator(".steps li")
        assert [int(each.locator("b").inner_text()) for each in items.all()] == counts
        assert items.nth(5).locator("bdi").inner_text() == "gar" and items.nth(6).locator("bdi").inner_text() == "-den"
        for each in items.all():
            number, token = (each.locator(part).bounding_box() for part in ("b", "bdi"))
            assert number is not None and token is not None and number["y"] < token["y"]
    with show(browser, tmp_path, [plain]) as found:
        assert found.page.locator(".steps").count() == 0
