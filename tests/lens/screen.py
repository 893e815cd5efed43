"""A page as a reader meets it, with an eye on what must never happen: errors, requests, dialogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from regard.lens.page import Figure, make_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Download, Locator, Page


SETTLE = """() => new Promise((done) => {
  const draw = () => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 10)));
  const look = () => (document.querySelector('[aria-busy="true"]') ? setTimeout(look, 5) : draw());
  requestAnimationFrame(() => setTimeout(look));
})"""


@dataclass
class Screen:
    """A page in the browser, and what went wrong in it."""

    page: Page
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def refuse(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    @property
    def readout(self) -> str:
        return self.page.locator(".readout").first.inner_text().replace("\n", " ")

    @property
    def cell(self) -> Locator:
        return self.page.get_by_role("gridcell").first

    @property
    def weight(self) -> float:
        """The weight that the line above all views tells."""
        return float(self.page.locator(".readout .weight").first.inner_text().replace("−", "-").removeprefix("≈ "))

    def settle(self) -> None:
        """Until all that was asked for is drawn: a frame that asks, nothing that is busy, a frame that draws."""
        self.page.evaluate(SETTLE)

    def press(self, *keys: str) -> None:
        self.settle()  # a key goes to what is drawn by then
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def point(self, row: int, column: int) -> tuple[float, float]:
        """Where a cell of the map is on the screen: what takes the focus lies over the first, unless one is chosen."""
        self.press("Escape")
        box = self.page.locator(".map .cell").first.bounding_box()
        assert box is not None
        return box["x"] + (column + 0.5) * box["width"], box["y"] + (row + 0.5) * box["height"]

    def hover(self, row: int, column: int) -> None:
        self.page.mouse.move(*self.point(row, column))
        self.settle()

    def click(self, row: int, column: int) -> None:
        self.page.mouse.click(*self.point(row, column))
        self.settle()

    def save(self, panel: str, form: str) -> Download:
        with self.page.expect_download() as found:
            self.page.locator(f".{panel} [data-save={form}]").first.click()
        return found.value


@contextmanager
def show(
    browser: Browser, place: Path, figures: Sequence[Figure], title: str = "a page", **settings: Any
) -> Iterator[Screen]:
    """A page in the browser; afterwards, nothing may have gone wrong."""
    place.mkdir(parents=True, exist_ok=True)
    path = place / "page.html"
    path.write_text(make_page(title, figures), "utf-8")
    with visit(browser, path.as_uri(), **settings) as screen:
        yield screen
    assert screen.faults == []
    assert screen.asked == [path.as_uri()]


@dataclass
class Server:
    """A folder on localhost, and what was asked of it."""

    address: str
    asked: list[str] = field(default_factory=list)


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/favicon.ico":  # browsers ask for one by themselves
                self.send_response(HTTPStatus.NO_CONTENT)
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, format: str, *words: Any) -> None:
            server.asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as running:
        server = Server(f"http://127.0.0.1:{running.server_port}")
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def visit(browser: Browser, address: str, **settings: Any) -> Iterator[Screen]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
    page = context.new_page()
    screen = Screen(page)
    page.on("console", lambda said: screen.faults.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: screen.faults.append(f"error: {error}"))
    page.on("dialog", screen.refuse)
    page.on("request", lambda request: screen.asked.append(request.url))
    page.goto(address)
    screen.settle()
    try:
        yield screen
    finally:
        context.close()
