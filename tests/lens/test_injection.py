"""Whatever a model, a file or a user says is text: nothing of it runs, is fetched or becomes an element."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.lens.page import Figure, embed_page, make_page
from tests.lens.looks import make_weights
from tests.lens.screen import Screen, serve, show, visit
from tests.lens.test_page import Reader

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAYLOADS: list[str] = json.loads((Path(__file__).parent / "payloads.json").read_text())
# what the viewer itself makes; anything else would have come from a payload
ELEMENTS = """html head meta title link style body div header h1 h2 main section p span b bdi button script canvas
details summary label select option table caption thead tbody tr th td dl dt dd ol li noscript"""
STRANGERS = """(known) => [...document.querySelectorAll("*")].filter((element) =>
  !known.includes(element.localName) ||
  element.getAttributeNames().some((name) => name.startsWith("on") || ["src", "srcdoc"].includes(name)) ||
  (element.localName === "script" && !["module", "application/json", "text/plain"].includes(element.type)) ||
  (element.localName === "link" && element.getAttribute("href") !== "data:,")
).map((element) => element.outerHTML)"""


def cut(items: list[str], size: int) -> list[list[str]]:
    return [items[n : n + size] for n in range(0, len(items), size)]


def make_hostile(payload: str) -> Figure:
    """A look in which everything that can be said is said by a payload."""
    summary = [{payload: 1.0, "entropy": 0.5}]
    told = {
        "name": payload, "stack": payload, "part": payload, "what": payload, "layer": payload, "heads": 1,
        "rows": "target", "columns": "target", "array": payload, "summary": summary,
    }  # fmt: skip
    predictions = [{"position": 0, "token": payload, "log_probability": -1.0, "rank": 1, "entropy": 1.0}]
    data = {
        "title": payload, "model": payload, "maps": [told, {**told, "layer": 1}],
        "axes": {"target": {"tokens": [payload], "words": [[0, 1]]}},
        "predictions": [{**predictions[0], "alternatives": [[payload, 0.5]]}],
    }  # fmt: skip
    return Figure("look", data, {payload: np.ones((1, 1, 1), np.float32)})


def make_crowd() -> list[Figure]:
    """All payloads at once: as tokens of one map, in a table, in a text."""
    axis = {"tokens": PAYLOADS, "words": [[n, n + 1] for n in range(len(PAYLOADS))]}
    told = {
        "name": "m", "stack": "encoder", "part": "mix", "what": "weights", "layer": 0, "heads": 2, "summary": [],
        "rows": "target", "columns": "target", "array": "m",
    }  # fmt: skip
    predictions = [
        {"position": n, "token": payload, "log_probability": -1.0, "rank": 1, "entropy": 1.0}
        | {"alternatives": [[payload, 0.5]]}
        for n, payload in enumerate(PAYLOADS)
    ]
    data = {"title": "a", "model": "b", "axes": {"target": axis}, "maps": [told], "predictions": predictions}
    size = len(PAYLOADS)
    return [
        Figure("look", data, {"m": make_weights(2, size, size)}),
        Figure("table", {"title": PAYLOADS[0], "columns": PAYLOADS[:9], "rows": cut(PAYLOADS[9:99], 9)}),
        Figure("text", {"title": PAYLOADS[1], "note": PAYLOADS[2], "text": "\n".join(PAYLOADS)}),
    ]


def check_harmless(screen: Screen) -> None:
    assert screen.page.evaluate("() => typeof window.__fired") == "undefined"
    assert screen.page.evaluate(STRANGERS, ELEMENTS.split()) == []


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 120


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_leaves_its_place_in_the_file(payload: str) -> None:
    page = make_page(payload, [make_hostile(payload), Figure("text", {"text": payload})])
    plain = make_page("a page", [make_hostile("a"), Figure("text", {"text": "b"})])
    assert [(tag, sorted(has)) for tag, has in Reader(page).elements] == [
        (tag, sorted(has)) for tag, has in Reader(plain).elements
    ]
    assert json.loads(Reader(page).text("script", id="header"))["title"] == payload
    assert Reader(embed_page(page)).elements[0][1]["srcdoc"] == page.replace("\r\n", "\n").replace("\r", "\n")


def test_payloads_in_every_field_run_nothing(browser: Browser, tmp_path: Path) -> None:
    for n, some in enumerate(cut(PAYLOADS, 40)):
        with show(browser, tmp_path / str(n), [make_hostile(payload) for payload in some], title=some[0]) as screen:
            check_harmless(screen)
            assert screen.page.locator(".look .panels").count() == len(some)
            assert screen.page.locator(".failure").count() == 0


def test_payloads_as_tokens_run_nothing_wherever_they_are_shown(browser: Browser, tmp_path: Path) -> None:
    with show(browser, tmp_path, make_crowd()) as screen:
        for panel in ("map", "sheet", "lines", "bars"):
            screen.page.locator(f".{panel} .numbers summary").click()
        for row in range(0, len(PAYLOADS), 40):
            screen.hover(row, row // 2)
        screen.press("ArrowDown", "ArrowRight", "Enter")
        check_harmless(screen)
        drawing = ElementTree.parse(screen.save("map", "SVG").path()).getroot()
        assert {element.tag.rpartition("}")[2] for element in drawing.iter()} <= {"svg", "rect", "text", "image"}
        lines = screen.save("bars", "CSV").path().read_text("utf-8")
        tokens = [line[1] for line in csv.reader(io.StringIO(lines, newline=""))][1:]
        assert len(tokens) == len(PAYLOADS)
        assert not [token for token in tokens if token[1:] and token[0] in "=+-@\t\r"]


@pytest.mark.parametrize(
    "code",
    [
        "document.body.innerHTML = '<img src=x onerror=__fired=1>'",
        "document.body.append(Object.assign(document.createElement('script'), { textContent: '__fired=1' }))",
        "document.body.append(Object.assign(document.createElement('img'), { src: 'ADDRESS' }))",
        "document.body.append(Object.assign(document.createElement('iframe'), { src: 'ADDRESS' }))",
        "fetch('ADDRESS').catch(() => 0)",
        "document.body.setAttribute('onclick', '__fired=1'); document.body.click()",
    ],
)
def test_the_policy_stops_what_a_payload_would_need(code: str, browser: Browser, tmp_path: Path) -> None:
    """Were there a hole in the viewer, the page's own policy would still run nothing and ask for nothing."""
    (tmp_path / "page.html").write_text(make_page("a page", [Figure("text", {"text": "b"})]))
    with serve(tmp_path) as server, visit(browser, (tmp_path / "page.html").as_uri()) as screen:
        screen.page.evaluate(f"() => {{ try {{ {code.replace('ADDRESS', f'{server.address}/x')} }} catch {{}} }}")
        screen.settle()
        assert screen.page.evaluate("() => typeof window.__fired") == "undefined"
        assert [fault for fault in screen.faults if "Content Security Policy" in fault or "requires 'Trusted" in fault]
        assert server.asked == []
