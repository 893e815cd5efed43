"""The verb that draws what policies earn by how far they went."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import PRECISION, format_number, hint, verb
from regard.cli.completion import complete_runs
from regard.cli.progress import ProgressMeter
from regard.errors import SpecError
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.runs.frontier import Frontier


@verb("Measure and look inside")
@give_way()
def frontier(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Runs that learned policy or preference, all from one start.",
            autocompletion=complete_runs,
        ),
    ],
    reward: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REWARD",
            help="What answers are graded by: a kind (right), settings ({kind: label, …}) or a run that judges; may be "
            "given several times. The first is what matters, the last chooses the best of n. [the first run's own]",
        ),
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Prompts. [those that the first run kept]")
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="A part that the first run kept. [validation, if there is one]")
    ] = None,
    prompts: Annotated[int, typer.Option(metavar="N", help="So many prompts are answered.", min=2)] = 200,
    points: Annotated[int, typer.Option(metavar="N", help="At most so many checkpoints of each run.", min=1)] = 12,
    best_of: Annotated[
        int,
        typer.Option("--best-of", metavar="N", help="The most answers of the start to choose among; 1: none.", min=1),
    ] = 16,
    most: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of an answer. [the first run's own, or 64]", min=1)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A page to write (.html), or a picture (.png), or a table (.csv)."),
    ] = None,
    precision: PRECISION = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was found as one JSON object.")] = False,
) -> None:
    """Show whether pleasing worked: reward by divergence from the start, for each checkpoint and the best of n."""
    from regard.host.output import check_file
    from regard.runs.frontier import trace_frontier

    if out is not None:
        if out.suffix.lower() not in (".html", ".png", ".csv"):
            raise SpecError(f"--out {out}: a page, a picture or a table", f"--out {out.with_suffix('.html')}")
        check_file(out)
    keep_memory()
    numbers = prompts, points, best_of, most
    found = trace_frontier(runs, reward or [], data or [], split, *numbers, ProgressMeter(), precision)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
    else:
        show(found)
    if out is not None:
        found.save(out)
        if not as_json:
            hint(f"open {quote(str(out))}")


def show(found: Frontier) -> None:
    """A row for each point, then what the curves say."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("policy", "point"):
        drawn.add_column(name, no_wrap=True)
    for name in ("KL, nats", *found.rewards, "tokens"):
        drawn.add_column(name, justify="right")
    for one in (found.start, *found.stands):
        earned = [f"{value.value:.3f} ±{(value.high - value.low) / 2:.2g}" for value in one.rewards.values()]
        drawn.add_row(one.policy, one.point, f"{one.kl.value:.2f}", *earned, format_number(round(one.length, 1)))
    packed = "" if found.precision == "fp32" else f", in {found.precision}"
    console.print(f"{found.prompts:,} prompts of {found.data}{packed}\n")
    console.print(drawn)
    console.print()
    for line in found.conclude():
        console.print(line, style="bold")
