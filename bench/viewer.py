"""How soon a page is there and how soon it answers: a look at 512 tokens in 12 layers of 12 heads, in Chromium.

    python -m bench.viewer [--rounds 5] [--json]

Weights are softmaxes of random scores: without a mask, which deflates worst, and causal. For each: the size of the
file, the first paint, when the first map is drawn (opens), the time from a key to the next layer's map (answers) and
from a pointer's move to what it shows (hovers), as the browser's own clock tells them; the best of several rounds,
since the machine may be busy. And the size of a look at 64 tokens in 4 layers of 4 heads. The exit status is 1 where a
bar isn't met.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from regard.lens.page import make_page
from tests.lens.conftest import OPTIONS, find_browser
from tests.lens.looks import write

BARS = {"megabytes": 40, "first_paint": 0.3, "opens": 1.0, "answers": 1.0, "hovers": 1.0}
SMALL = 600_000  # bytes of a page with 64 tokens and 16 heads
STEPS = 6  # layers that are asked for in a round

DRAWN = """() => new Promise((done) => {
  const look = () => {
    const [drawn] = performance.getEntriesByName("regard:drawn");
    if (drawn) done(drawn.startTime);
    else setTimeout(look, 5);
  };
  look();
})"""
# from a key to the frame after the one in which its map was drawn
ANSWER = """() => new Promise((done) => {
  performance.clearMarks();
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "]", bubbles: true }));
  const look = () => {
    if (!performance.getEntriesByName("regard:drawn").length) setTimeout(look, 1);
    else requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  };
  look();
})"""
HOVER = """() => new Promise((done) => {
  const map = document.querySelector(".map .scroller");
  const { x, y, width, height } = map.getBoundingClientRect();
  const began = performance.now();
  const place = { clientX: x + width * (0.3 + Math.random() / 2), clientY: y + height * (0.3 + Math.random() / 2) };
  map.dispatchEvent(new PointerEvent("pointermove", { ...place, bubbles: true, pointerType: "mouse" }));
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began))));
})"""


def measure(browser: Browser, path: Path) -> dict[str, float]:
    """One round: seconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri(), wait_until="commit")
    opens = page.evaluate(DRAWN)
    page.wait_for_load_state("load")
    paints = page.evaluate("() => performance.getEntriesByName('first-contentful-paint').map((it) => it.startTime)")
    answers = [page.evaluate(ANSWER) for _ in range(STEPS)]
    hovers = [page.evaluate(HOVER) for _ in range(STEPS)]
    page.close()
    told = {"first_paint": paints[0], "opens": opens, "answers": max(answers), "hovers": max(hovers)}
    return {name: value / 1000 for name, value in told.items()}


def compare(rounds: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as place:
        browser = driver.chromium.launch(executable_path=find_browser(), args=OPTIONS)
        for name, causal in (("full", False), ("causal", True)):
            figure = write(512, 12, 12, causal=causal)
            began = time.perf_counter()
            path = Path(place) / f"{name}.html"
            path.write_text(make_page("512 tokens", [figure]), "utf-8")
            made = time.perf_counter() - began
            tries = [measure(browser, path) for _ in range(rounds)]
            best = {key: min(each[key] for each in tries) for key in tries[0]}
            found[name] = {"megabytes": path.stat().st_size / 1e6, "made": made, **best}
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = compare(asked.rounds)
    small = len(make_page("64 tokens", [write(64, 4, 4, causal=False)]).encode())
    if asked.json:
        print(json.dumps({**found, "small": small}))
    else:
        print(f"512 tokens, 12 × 12 heads, the best of {asked.rounds}; at most wanted: {BARS}")
        for name, told in found.items():
            print(f"{name:7}", "  ".join(f"{key} {value:.3g}" for key, value in told.items()))
        print(f"64 tokens, 4 × 4 heads: {small:,} bytes, at most {SMALL:,} wanted")
    sys.exit(small > SMALL or any(told[key] > most for told in found.values() for key, most in BARS.items()))


if __name__ == "__main__":
    main()
