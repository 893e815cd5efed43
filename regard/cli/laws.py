"""The verb that tries laws on a mixer, ours or anybody's."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.arguments import JSON, verb
from regard.cli.progress import ProgressMeter
from regard.errors import BrokenLaw


@verb("Measure and look inside")
def laws(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A file or something in it, FILE.py or FILE.py:NAME, which runs the file; MODULE:NAME, such as "
            "torch.nn:Linear; or a kind of mixer, such as attention. NAME is a spec, a mixer, a torch module that maps "
            "(batch, time, width) to the same, or a function that makes one.",
        ),
    ],
    width: Annotated[
        int | None, typer.Option(metavar="N", help="The width to build it with. [16, or its own]", min=1, max=4096)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What else it is built with: --set heads=4."),
    ] = None,
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--any-direction",
            help="Whether a plain module must not look ahead. Unless said, what it was seen to do is told.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Try a spec with its defaults alone, and no setting varied.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Try every law on a mixer, yours or ours, and print the smallest case that breaks one."""
    from regard.config import assignments
    from regard.laws import check
    from regard.laws.find import find

    given = assignments(settings or [])
    found = find(what, given, width)
    trials = []
    for number, (name, thing) in enumerate(found.things.items()):
        trial = check(thing, name=name, width=width, settings=given, causal=causal, quick=quick, meter=ProgressMeter())
        trials.append(trial)
        print(json.dumps(trial.to_json()) if as_json else "\n" * bool(number) + trial.tell(), flush=True)
    for name, reason in found.passed_over.items():
        if as_json:
            print(json.dumps({"name": name, "passed_over": reason}))
        else:
            print(f"{name} wasn't tried: {reason}")
    broken = {trial.name: [ruling.law.name for ruling in trial.broken] for trial in trials if trial.broken}
    if broken:
        told = "; ".join(f"{name} breaks “{'”, “'.join(names)}”" for name, names in broken.items())
        raise BrokenLaw(told)
