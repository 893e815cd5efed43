"""The verb that compares runs: measures with intervals, differences with their tests, and what each run costs."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import PRECISION, format_number, hint, verb
from regard.cli.completion import complete_runs
from regard.cli.contest import contest, split_words
from regard.cli.progress import ProgressMeter, format_seconds
from regard.cli.runs import format_bytes
from regard.errors import SpecError
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from regard.runs.breakdown import Breakdown
    from regard.runs.comparison import Contrast, RunComparison, RunPair
    from regard.tasks.measures import Measure

EXAMPLES = 3  # that a terminal shows


@verb("Measure and look inside")
@give_way()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="The runs to compare, two or more; RUN@step-2000 names one checkpoint. With --recipes: run files, and "
            "settings that change them all: model.depth=2.",
            autocompletion=complete_runs,
        ),
    ],
    recipes: Annotated[
        bool,
        typer.Option("--recipes", help="Train run files first, all at one budget on the same data in the same order."),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="BUDGET", help="With --recipes: what each may use: tokens=2M, minutes=5, flops=1e15."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="With --recipes: how often each is trained. [3]", min=1)
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(metavar="parameters", help="With --recipes: size the other models to the first, within 2 %."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A test set for all of them, as for `regard eval`. [what all of them kept]"),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A part that all runs kept: test, validation. [test, if there is one]"),
    ] = None,
    by_text: Annotated[
        bool,
        typer.Option("--by-text", help="Runs whose target tokens differ: leave out what is counted a token."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A page to write, such as compare.html; with --recipes, the runs' folder."),
    ] = None,
    precision: PRECISION = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was found as one JSON object.")] = False,
) -> None:
    """Compare runs fairly: intervals, paired tests of every difference, cost, by length, by rare and frequent words."""
    from regard.host.output import check_file
    from regard.runs.compare import compare

    if recipes:
        compare_recipes(runs, budget, seeds, match, out, as_json, data or split or by_text or precision)
        return
    for option, value in (("--budget", budget), ("--seeds", seeds), ("--match", match)):
        if value is not None:
            raise SpecError(f"{option} {value}: runs were trained already", "--recipes a.yaml b.yaml trains run files")
    if out is not None:
        if out.suffix.lower() not in (".html", ".htm", ""):
            raise SpecError(f"--out {out}: a comparison is an HTML page", f"--out {out.with_suffix('.html')}")
        check_file(out)
    keep_memory()
    found = compare(runs, data or [], split, ProgressMeter(), by_text, precision)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
    else:
        show(found)
    if out is not None:
        found.save(out)
        if not as_json:
            hint(f"open {quote(str(out))} in a browser, or mail it: it needs no other file")


def compare_recipes(
    nouns: Sequence[str],
    budget: str | None,
    seeds: int | None,
    match: str | None,
    out: Path | None,
    as_json: bool,
    measured: object,
) -> None:
    """Train run files at one budget, and tell which did better."""
    if measured:
        raise SpecError(
            "--data, --split, --by-text, --precision: recipes are measured as they were trained, on validation data "
            "with one tokenizer",
            "regard compare RUN RUN --data FILE",
        )
    if budget is None:
        raise SpecError("--recipes: a fair comparison gives each the same budget", "--budget tokens=2M")
    files, words = split_words(nouns)
    contest(files, words, 3 if seeds is None else seeds, budget, match, out, as_json)


def show(found: RunComparison) -> None:
    """Measures, then differences, costs, groups and examples."""
    from rich.console import Console

    from regard.runs.comparison import explain

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"{found.task}, {found.samples:,} samples of {found.data}\n")
    rows = [
        [label, *(format_measure(values[n]) for values in found.measures.values())]
        for n, label in enumerate(found.labels)
    ]
    draw(console, ["run", *(name_measure(name, up) for name, up in found.rising.items())], rows)
    pairs: dict[tuple[str, str], list[RunPair]] = {}
    for pair in found.pairs:
        pairs.setdefault((pair.one, pair.other), []).append(pair)
    for (one, other), own in pairs.items():
        console.print(f"\n{one} against {other}")
        head = ["measure", "difference", "95 % interval", "p boot", "p rand", "p Holm", "verdict"]
        draw(console, head, [list_pair(pair) for pair in own], last=True)
    show_costs(console, found)
    for breakdown in (*(one for one in found.by_length if one.measure == found.main), *found.by_frequency):
        show_breakdown(console, breakdown, found.labels)
    if found.contrasts:
        console.print(f"\nWhere they differ most (by {found.telling})")
    for contrast in found.contrasts[:EXAMPLES]:
        show_contrast(console, contrast, found)
    console.print()
    for line in explain(found):
        console.print(line, style="dim")


def draw(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], last: bool = False) -> None:
    """Cells in columns: words to the left, numbers to the right; `last`: the last column is of words too."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for n, name in enumerate(columns):
        words = n == 0 or (last and n + 1 == len(columns))
        table.add_column(name, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def name_measure(name: str, rising: bool) -> str:
    return f"{name} {'↑' if rising else '↓'}"


def format_measure(value: Measure | None) -> str:
    """A value and half of its interval's width."""
    if value is None:
        return "–"
    return f"{format_number(value.value)} ±{(value.high - value.low) / 2:.2g}"


def list_pair(pair: RunPair) -> list[str]:
    found = pair.difference
    between = f"{found.low:+.3g}, {found.high:+.3g}"
    likely = map(format_likely, (found.bootstrap, found.randomisation, pair.holm))
    return [pair.measure, f"{found.value:+.3g}", between, *likely, pair.verdict + " *" * pair.is_doubted]


def format_likely(share: float) -> str:
    """A p-value, with as many digits as say something."""
    return f"{share:.4f}" if share < 0.001 else f"{share:.3f}"


def show_costs(console: Console, found: RunComparison) -> None:
    """A row for each fact, a column for each run."""
    from regard.runs.comparison import COSTS

    rows = [
        [name_cost(name, unit), *("–" if name not in one else format_cost(one[name], unit) for one in found.costs)]
        for name, unit in COSTS.items()
        if any(name in one for one in found.costs)
    ]
    console.print()
    draw(console, ["what it costs", *found.labels], rows)


def name_cost(name: str, unit: str) -> str:
    """What a fact is called, with its unit where the numbers don't say it."""
    return f"{name}, {unit.replace(' a second', '/s')}" if unit.endswith(" a second") else name


def format_cost(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_bytes(value)
    return format_seconds(value) if unit == "seconds" else f"{value:,.0f}"


def show_breakdown(console: Console, breakdown: Breakdown, labels: Sequence[str]) -> None:
    """A row for each group, a column for each run."""
    console.print(f"\n{breakdown.measure} by {breakdown.by}")
    rows = [
        [group, f"{count:,}", *map(format_measure, values)]
        for group, count, values in zip(breakdown.groups, breakdown.counts, breakdown.values, strict=True)
    ]
    draw(console, ["group", "count", *labels], rows)


def show_contrast(console: Console, contrast: Contrast, found: RunComparison) -> None:
    """A sample, and what each run made of it."""
    given, expected, _ = found.roles
    sides = [(given, " ".join(contrast.examples[0].given)), (expected, " ".join(contrast.examples[0].expected))]
    answers = zip(found.labels, contrast.examples, strict=True)
    sides += [(label, " ".join((*one.answer, f"({one.note})" if one.note else "")).strip()) for label, one in answers]
    draw(console, ["", ""], [(name, " ".join(text.split())) for name, text in sides if text], last=True)
