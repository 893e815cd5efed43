"""Pages, by what stands in the file: data that can't become markup, numbers that can be had back, one script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import InputError
from regard.lens import chunk
from regard.lens.page import Figure, embed_page, make_page, write_json
from regard.lens.script import IMPORT, VIEWER, kinds, make_script, order
from tests.lens.looks import make_weights, translate, write

MODULES = sorted(path.stem for path in VIEWER.glob("*.js"))
MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "Function("]
MARKUP += ["http:", "https:", "fetch(", "XMLHttpRequest", "setAttributeNS", "srcdoc"]
TOP = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let|var) (\w+)", re.MULTILINE)


class Reader(HTMLParser):
    """A page as a browser reads it: its elements, and the text that each begins with."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self.texts.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, text: str) -> None:
        if self.inside:
            self.texts[-1] += text

    def text(self, tag: str, **wanted: str) -> str:
        found = [
            n for n, (name, has) in enumerate(self.elements) if name == tag and wanted.items() <= has.items()
        ]  # fmt: skip
        return self.texts[found[0]]


def read_header(page: str) -> dict[str, Any]:
    return dict(json.loads(Reader(page).text("script", id="header")))


def unpack(page: str, entry: dict[str, Any], index: int) -> Any:
    """What the viewer does, once more: the values of one head."""
    reader = Reader(page)
    raw = zlib.decompress(base64.b64decode(reader.text("script", id=f"chunk-{entry['first'] + index}")), -15)
    if entry["form"] == "float32":
        values = np.frombuffer(raw, np.uint8).reshape(4, -1).T.copy().view("<f4")
        return values.reshape(entry["shape"][-2:] if len(entry["shape"]) == 3 else entry["shape"])
    levels = np.frombuffer(raw, np.uint8).reshape(entry["shape"][1:]).astype(np.float64)
    middle = entry["levels"] / 2 if entry["signed"] else 0
    roots = (levels - middle) / (entry["levels"] - middle)
    return np.where(levels == 255, np.nan, np.sign(roots) * roots**2 * entry["tops"][index])


def test_a_small_page_has_its_numbers_to_the_bit() -> None:
    figure = translate()
    page = make_page("a page", [figure])
    (told,) = read_header(page)["figures"]
    assert told["kind"] == "look"
    assert told["data"] == figure.data
    for name, array in figure.arrays.items():
        for head, weights in enumerate(array):
            assert np.array_equal(unpack(page, told["arrays"][name], head), weights)


def test_arrays_that_are_no_maps_are_exact_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "EXACT", 0)
    arrays = {"line": np.arange(5.0), "sheet": np.array([[1e-30, np.nan], [np.inf, -2.5]]), "nothing": np.zeros((0,))}
    page = make_page("", [Figure("text", {"text": ""}, arrays)])
    entries = read_header(page)["figures"][0]["arrays"]
    for name, array in arrays.items():
        assert np.array_equal(unpack(page, entries[name], 0), array.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("levels", chunk.LEVELS)
@pytest.mark.parametrize("signed", [False, True])
def test_rounded_weights_are_as_near_as_the_page_says(
    levels: int, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "EXACT", 0)
    monkeypatch.setattr(chunk, "LEVELS", (levels,))
    weights = make_weights(2, 40, 50) * (np.sign(np.arange(50) - 25.5) if signed else 1)
    weights[1, 3, 4] = np.nan
    page = make_page("", [Figure("text", {"text": ""}, {"a": weights})])
    entry = read_header(page)["figures"][0]["arrays"]["a"]
    assert (entry["form"], entry["levels"], entry["signed"]) == ("levels", levels, signed)
    for head in range(2):
        drawn, top = unpack(page, entry, head), np.nanmax(np.abs(weights[head]))
        gap = np.abs(drawn - weights[head])
        assert np.nanmax(gap) <= top / (levels / 2 if signed else levels)
        assert np.nanmax(gap) > 0  # or it wouldn't be rounded
        assert np.array_equal(np.isnan(drawn), np.isnan(weights[head]))


def test_thumbnails_lose_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "EXACT", 0)
    weights = np.zeros((1, 300, 500), np.float32)
    weights[0, 123, 456] = 1
    page = make_page("", [Figure("text", {"text": ""}, {"a": weights})])
    small = read_header(page)["figures"][0]["arrays"]["a"]["small"]
    assert small["shape"] == [chunk.SIDE, chunk.SIDE]
    raw = zlib.decompress(base64.b64decode(Reader(page).text("script", id=f"chunk-{small['chunk']}")), -15)
    (peak,) = np.argwhere(np.frombuffer(raw, np.uint8).reshape(small["shape"]))
    assert peak.tolist() == [123 * 64 // 300, 456 * 64 // 500]


def test_levels_are_halved_until_the_page_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "EXACT", 0)
    figure = Figure("text", {"text": ""}, {"a": make_weights(4, 64, 64)})
    sizes = {}
    for levels in chunk.LEVELS:
        monkeypatch.setattr(chunk, "LEVELS", (levels,))
        sizes[levels] = sum(map(len, chunk.encode([figure.arrays])[1]))
    monkeypatch.undo()
    monkeypatch.setattr(chunk, "EXACT", 0)
    assert sizes[254] > sizes[126] > sizes[62]
    for levels in chunk.LEVELS:
        monkeypatch.setattr(chunk, "ROOM", sizes[levels])
        assert chunk.encode([figure.arrays])[0][0]["a"]["levels"] == levels


def test_a_page_that_no_browser_opens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "MOST", 1000)
    with pytest.raises(InputError, match="more than a browser opens") as raised:
        make_page("", [write(32, 1, 2)])
    assert "look.save" in raised.value.hint


def test_a_page_of_64_tokens_and_16_heads_is_under_600_kilobytes() -> None:
    for causal in (False, True):
        assert len(make_page("a page", [write(64, 4, 4, causal=causal)]).encode()) < 600_000


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True])
def test_a_page_of_512_tokens_and_144_heads_is_under_40_megabytes(causal: bool) -> None:
    assert len(make_page("a page", [write(512, 12, 12, causal=causal)]).encode()) < 40_000_000


def test_the_policy_allows_one_script_and_one_style_sheet() -> None:
    page = make_page("a page", [Figure("text", {"text": "hello"})])
    reader = Reader(page)
    policy = reader.elements[[tag for tag, _ in reader.elements].index("meta") + 1][1]["content"] or ""
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for directive, text in (
        ("script-src", reader.text("script", type="module")),
        ("style-src", reader.text("style")),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[directive] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy
    assert "http" not in policy


def test_data_has_none_of_the_signs_that_markup_is_made_of() -> None:
    hostile = "</script><!--<script>&amp;\u2028\u2029\x00\ud800\U0001f600]]>"
    text = write_json({hostile: [hostile, float("nan"), float("inf"), 1.5, None, True]})
    assert text.isascii()
    assert not set(text) & set("<>&\n\r\x00")
    assert json.loads(text) == {hostile: [hostile, None, None, 1.5, None, True]}


def test_a_title_is_text() -> None:
    for title, shown in (
        ("</title><script>alert(1)</script>", "</title><script>alert(1)</script>"),
        ("", "regard"),
        (" \n ", "regard"),
        ("a\ud800b\x00c\u2028d", "a?b c d"),
    ):
        page = make_page(title, [Figure("text", {"text": ""})])
        page.encode()
        assert Reader(page).text("title") == shown
        assert [tag for tag, _ in Reader(page).elements].count("script") == 2


def test_figures_that_nothing_draws_are_refused() -> None:
    with pytest.raises(InputError, match=r"no figure of the kind 'tabel'; did you mean 'table'\?"):
        make_page("", [Figure("tabel", {})])
    with pytest.raises(InputError, match="no figure of the kind 'dom'"):  # a module, but no component
        make_page("", [Figure("dom", {})])
    with pytest.raises(InputError, match="without figures"):
        make_page("", [])
    assert {"look", "table", "text"} <= set(kinds())


def test_a_page_carries_only_what_it_draws() -> None:
    page = make_page("", [Figure("text", {"text": ""})])
    assert "drawText" in page
    assert "drawTable" not in page
    assert len(page) < 25_000


def test_a_page_in_a_page_is_whole_and_shut_in() -> None:
    page = make_page('a "page" & more', [Figure("text", {"text": "'\"<>&"})])
    frame = Reader(embed_page(page, 500))
    ((tag, settings),) = frame.elements
    assert tag == "iframe"
    assert settings["srcdoc"] == page
    assert "allow-same-origin" not in (settings["sandbox"] or "")
    assert "500px" in (settings["style"] or "")


@pytest.mark.parametrize("name", MODULES)
def test_modules_can_stand_in_one_script(name: str) -> None:
    """Every import is one that the assembly knows, and nothing could end the script's element early."""
    text = (VIEWER / f"{name}.js").read_text("utf-8")
    rest = IMPORT.sub("", text)
    assert not re.search(r"^\s*import\b", rest, re.MULTILINE)
    assert not re.search(r"^export (default|\{|\*)", rest, re.MULTILINE)
    assert not re.search(r"</script|<!--", text, re.IGNORECASE)
    assert len(text.splitlines()) <= 400
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("words", MARKUP)
def test_modules_have_no_way_from_text_to_markup_or_out(words: str) -> None:
    for path in VIEWER.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert path.suffix == ".md" or words not in text, path


@pytest.mark.parametrize("name", MODULES)
def test_modules_use_what_they_import_and_import_what_there_is(name: str) -> None:
    text = (VIEWER / f"{name}.js").read_text("utf-8")
    for listed, module in re.findall(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', text, re.MULTILINE):
        given = re.findall(
            r"^export (?:async )?(?:function|class|const) (\w+)", (VIEWER / f"{module}.js").read_text("utf-8"), re.M
        )
        for word in filter(None, map(str.strip, listed.split(","))):
            assert word in given, f"{module}.js has no {word}"
            assert len(re.findall(rf"\b{word}\b", text)) > 1, f"{name}.js doesn't use {word}"


def test_no_top_level_name_is_given_twice() -> None:
    places: dict[str, str] = {}
    for name in MODULES:
        for word in TOP.findall((VIEWER / f"{name}.js").read_text("utf-8")):
            assert word not in places, f"{word}: {name}.js and {places[word]}.js"
            places[word] = name


def test_a_module_stands_after_what_it_imports() -> None:
    found = order([*kinds(), "start"])
    assert sorted(found) == MODULES  # and no file lies around that no page needs
    for n, name in enumerate(found):
        assert set(IMPORT.findall((VIEWER / f"{name}.js").read_text("utf-8"))) <= set(found[:n])
    assert make_script(kinds()).count("define(") >= len(kinds())


def test_magma_is_magma() -> None:
    """The shades are sixteenths of matplotlib's, and what is between them is blended."""
    from matplotlib import colormaps

    listed = re.findall(r"[0-9a-f]{6}(?=[ \"])", (VIEWER / "shade.js").read_text("utf-8").split("];")[0])
    anchors = np.array([[int(color[n : n + 2], 16) for n in (0, 2, 4)] for color in listed])
    true = np.array([colormaps["magma"](n)[:3] for n in range(256)]) * 255
    for channel in range(3):
        blended = np.interp(np.arange(256), np.linspace(0, 255, 17), anchors[:, channel])
        assert np.abs(blended - true[:, channel]).max() < 3


def test_the_wheel_has_every_file_of_the_viewer(tmp_path: Path) -> None:
    """As hatchling chooses them: what git doesn't ignore below the package."""
    from hatchling.builders.wheel import WheelBuilder

    builder = WheelBuilder(str(VIEWER.parent.parent.parent))
    packed = {Path(file.path) for file in builder.recurse_included_files()}
    assert {path for path in VIEWER.iterdir() if path.suffix in (".js", ".css")} <= packed
