"""The demo on the screen: one table, the sentence in three translations, and two grids of attention."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.demo import LENGTHS, SENTENCE, Shown, demo, pictures
from regard.lens.grid import by_word, grid

FOLDED = {"parameters": "para-\nmeters", "combinations": "combi-\nnations"}


def perform(out: Path, tokens: int, as_json: bool) -> None:
    """Run the demo and show it; as JSON, one object for each model."""

    def report(line: str) -> None:
        print(line, file=sys.stderr)

    shown = []
    for item in demo(out, tokens, report):
        shown.append(item)
        if as_json:
            print(json.dumps(item.row.as_json(), ensure_ascii=False), flush=True)
    paths = pictures(shown, out)
    if not as_json:
        show(shown, paths)


def show(shown: Sequence[Shown], paths: Sequence[Path]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    console.print()
    console.print(table(shown, narrow=console.width < 110))
    told = "Exact match: the share of sentences translated right to the letter; combinations: words in patterns where "
    console.print(f"{told}training never saw them.\n")
    width = max(len(item.row.model) for item in shown)
    console.print(f"{SENTENCE:>{width + len(SENTENCE) + 2}}")
    for item in shown:
        console.print(f"{item.row.model:>{width}}  {item.row.translation}", markup=False)
    for item in shown:
        if item.example.attention is not None:
            cells = by_word(item.example.source_tokens, item.example.tokens, item.example.attention)
            print(f"\n{grid(*cells, color=console.is_terminal, title=f'{item.row.model}: where each word looked')}")
    print("\n" + "\n".join(str(path) for path in paths))


def table(shown: Sequence[Shown], narrow: bool = False) -> Table:
    """The models side by side; `narrow`: with the names of columns on two lines."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "parameters", "tokens/s", "exact match", "combinations", *LENGTHS):
        folded = FOLDED.get(name, name.replace(" ", "\n")) if narrow else name
        drawn.add_column(folded, justify="left" if name == "model" else "right", no_wrap=True)
    for item in shown:
        row = item.row
        lengths = [f"{row.lengths[name]:.1%}" if name in row.lengths else "–" for name in LENGTHS]
        numbers = f"{row.parameters:,}", f"{row.tokens_per_second:,.0f}", f"{row.exact:.1%}", f"{row.combinations:.1%}"
        drawn.add_row(row.model, *numbers, *lengths)
    return drawn
