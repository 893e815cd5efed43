"""One browser for all tests of a module: a real Chromium, without a screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = [
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HELP = "the viewer's tests need a browser: apt-get install chromium (or Chrome on the PATH), and pip install playwright"


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    place = find_browser()
    if place is None:
        pytest.skip(HELP)
    driver = pytest.importorskip("playwright.sync_api", reason=HELP)
    with driver.sync_playwright() as running:
        found = running.chromium.launch(executable_path=place, args=OPTIONS)
        yield found
        found.close()
