"""The verb that makes preferences of a model's own answers."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from regard.cli.arguments import PRECISION, RUN, hint, verb
from regard.cli.progress import ProgressMeter
from regard.errors import SpecError
from regard.host.machine import give_way, keep_memory


@verb("Train, and look after runs")
@give_way()
def prefer(
    run: RUN,
    reward: Annotated[
        str,
        typer.Option(
            metavar="REWARD",
            help="What answers are graded by: a kind (right), settings ({kind: label, …}) or a run that judges.",
        ),
    ],
    data: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="Prompts: a line each, or as `regard data` reads them; or reader settings."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSON lines to write: prompt, chosen, rejected.")],
    pairs: Annotated[int, typer.Option(metavar="N", help="So many pairs of answers to a prompt.", min=1)] = 1,
    prompts: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many prompts, by chance. [all]", min=1)
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="A-B", help="A prompt is the first A to B tokens of its text, by chance. [all of it]"),
    ] = None,
    most: Annotated[int, typer.Option(metavar="N", help="Tokens of an answer.", min=1)] = 64,
    temperature: Annotated[float, typer.Option(metavar="T", help="How freely answers are drawn.", min=0.01)] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="What chance follows from.")] = 1,
    precision: PRECISION = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as one JSON object.")] = False,
) -> None:
    """Make preferences of a model's own answers: it answers each prompt twice, and a reward chooses.

    What is written can be learned from by DPO (task preference) and by reward models (task reward), and its prompts by
    PPO and GRPO (task policy): all of them read this file.
    """
    from regard.host.output import check_file, put
    from regard.runs.prefer import PairDrawing, draw_preferences

    if out.suffix.lower() != ".jsonl":
        raise SpecError(f"--out {out}: JSON lines are written", f"--out {out.with_suffix('.jsonl')}")
    check_file(out)
    keep_memory()
    how = PairDrawing(pairs, most, temperature, prompts, read_range(prefix), seed)
    found = draw_preferences(run, reward, data, how, ProgressMeter(), precision)
    put(out, "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in found.pairs).encode())
    if as_json:
        counts = {"prompts": found.prompts, "pairs": len(found.pairs), "ties": found.ties, "short": found.short}
        print(json.dumps({"file": str(out), **counts, "precision": found.precision}))
        return
    print(f"{out}: {len(found.pairs):,} pairs of answers to {found.prompts:,} prompts")
    if found.ties:
        print(f"left out: {found.ties:,} pairs, of which neither answer is better")
    if found.short:
        print(f"left out: {found.short:,} texts that are too short, or have no word that ends there")
    hint(f"regard data {quote(str(out))} --task preference")


def read_range(told: str | None) -> tuple[int, int] | None:
    """Two numbers with a dash between them, or one."""
    if told is None:
        return None
    first, _, last = told.partition("-")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise SpecError(f"--prefix {told}: two numbers with a dash between them", "--prefix 2-8") from None
