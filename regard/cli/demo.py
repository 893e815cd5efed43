"""The demo: one table, the sentence in three translations, and two grids of attention."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, hint, verb

if TYPE_CHECKING:
    from rich.table import Table

    from regard.runs.demo import DemoResult

FOLDED = {"parameters": "para-\nmeters", "combinations": "combi-\nnations"}


@verb("Train, and look after runs")
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for the runs and the pictures.")] = Path(
        "runs/demo"
    ),
    tokens: Annotated[
        int, typer.Option(metavar="N", help="The number of tokens that each of the three models learns from.", min=1000)
    ] = 800_000,
    as_json: JSON = False,
) -> None:
    """Walk the path: a bottleneck, then attention, then a Transformer, trained here and now on English and French."""
    from regard.host.machine import keep_memory

    keep_memory()
    perform(out, tokens, as_json)
    run = quote(str(out / "transformer"))
    hint(f'regard translate {run} "The old woman sees the red house." --attention')


def perform(out: Path, tokens: int, as_json: bool) -> None:
    """Run the demo and show it; as JSON, one object for each model."""
    from regard.runs.demo import pictures, run_demo

    def report(line: str) -> None:
        print(line, file=sys.stderr)

    shown = []
    for item in run_demo(out, tokens, report):
        shown.append(item)
        if as_json:
            print(json.dumps(item.row.as_json(), ensure_ascii=False), flush=True)
    paths = pictures(shown, out)
    if not as_json:
        show(shown, paths)


def show(shown: Sequence[DemoResult], paths: Sequence[Path]) -> None:
    from rich.console import Console

    from regard.lens.grid import by_word, grid
    from regard.runs.demo import SENTENCE

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


def table(shown: Sequence[DemoResult], narrow: bool = False) -> Table:
    """The models side by side; `narrow`: with the names of columns on two lines."""
    from rich.table import Table

    from regard.runs.demo import LENGTHS

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
