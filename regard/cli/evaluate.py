"""The verb that measures a run by what it learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, format_number, search_settings, verb
from regard.cli.completion import complete_runs
from regard.cli.pictures import FIT, choose_fit
from regard.cli.progress import ProgressMeter
from regard.host.machine import give_way, keep_memory


@verb("Measure and look inside", "eval")
@give_way()
def evaluate(
    run: RUN,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A test set: test.csv, or any file to train on; or --data test.en --data test.fr; or a corpus that is "
            "made here, such as '{kind: copy, test_sizes: [80, 80]}'. [the run's own]",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A part that the run kept: test, validation. [test, if there is one]"),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(metavar="NAME", help="Lines and pictures of FILE that can't be used: stop, skip or repair."),
    ] = "stop",
    fit: FIT = None,
    beam: Annotated[
        int | None, typer.Option(metavar="N", help="The number of hypotheses a sentence. [the model's own, or 5]")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="RUN", help="Another run, for an ensemble.", autocompletion=complete_runs),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SETTING",
            help="A setting of the search: alpha=0.8; `regard settings search` tells all.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write the translations to.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="A further measure of translations, such as ter."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Put a row into this Markdown page of results.")
    ] = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Measure a run by what it learned, on a test set: BLEU, perplexity, accuracy, F1, with their intervals."""
    from regard.host.output import put
    from regard.runs.evaluate import TestSet, check_policy, check_split, evaluate, record_evaluation

    keep_memory()
    nouns, files, how = [run, *(also or [])], data or [], search_settings(beam, 1, settings)
    wanted = TestSet(files, check_split(split), check_policy(policy), choose_fit(fit))
    evaluation = evaluate(nouns, wanted, how, out, page, metrics or [], ProgressMeter(), precision)
    show_measures(evaluation.measures, as_json)  # before anything else can go wrong
    if out is not None and evaluation.texts is not None:
        put(out, "".join(f"{text}\n" for text in evaluation.texts).encode())
    if page is not None:
        record_evaluation(page, nouns, files, evaluation)


def show_measures(measures: dict[str, Any], as_json: bool) -> None:
    """Measures with their intervals and signatures, then by label, by size and by part."""
    if as_json:
        print(json.dumps(measures))
        return
    show_numbers(measures)
    found = dict(measures)
    if "labels" in found:
        from regard.tasks.measures import tables

        print("\n".join(["", *tables(found)]))
    steps = found.get("steps_by_size", {})
    for size, share in found.get("by_size", {}).items():
        taken = f"  {steps[size]:.2f} steps" if size in steps else ""
        print(f"size {size:>9}  {share:.1%}{taken}")
    for part, share in found.get("by_part", {}).items():
        print(f"part {part:>9}  {share:.1%}")
    for size, error in found.get("error_by_size", {}).items():
        print(f"size {size:>9}  {format_number(error)}")


def show_numbers(measures: Mapping[str, Any]) -> None:
    """A measure a line, with its interval or its signature."""
    found = dict(measures)
    signatures = found.pop("signatures", {})
    for name, value in found.items():
        if not isinstance(value, dict) and not name.endswith(("_low", "_high")):
            between = (
                f"({format_number(found[f'{name}_low'])} to {format_number(found[f'{name}_high'])})"
                if f"{name}_low" in found
                else ""
            )
            told = "  ".join(filter(None, (between, signatures.get(name, ""))))
            print(f"{name:15} {format_number(value)}  {told}".rstrip())
