"""Verbs that train, and that make something of runs."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import CHANGES, CONFIG, FOLDER, JSON, format_number, hint, verb
from regard.cli.prepare import is_run_file, settle_doubts
from regard.cli.progress import ProgressMeter
from regard.errors import RegardError, SpecError

if TYPE_CHECKING:
    from regard.config import Document
    from regard.runs.train import TrainedRun

TABLES = (".csv", ".tsv", ".jsonl", ".txt")  # files that hold samples


@verb("Train, and look after runs")
def train(
    config: CONFIG,
    settings: CHANGES = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run that is there already, once the new one has begun.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Train as a run file says. Progress goes to standard error, the result to standard output."""
    from regard.host.machine import keep_memory
    from regard.lens.screen import Screen
    from regard.runs.train import train as begin

    keep_memory()
    screen = Screen()
    document = read_config(config).change(settings or [])
    meter = ProgressMeter()
    work = lambda settled: begin(settled, screen.say, listeners=[screen], force=force, meter=meter)  # noqa: E731
    report_end(settle_doubts(work, document), as_json)


def read_config(path: Path) -> Document:
    """A run file; where somebody names data instead, say what makes one of it."""
    from regard.config import read

    try:
        document = read(path)
    except SpecError:
        if is_run_file(str(path)):
            raise
    else:
        if path.suffix not in TABLES:  # one line of JSON would pass for settings
            return document
    raise SpecError(
        f"{path}: a run file (YAML) is wanted here, and this isn't one", f"regard new --data {quote(str(path))}"
    )


@verb("Train, and look after runs")
def resume(
    run: FOLDER,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING",
            help="Settings that differ from here on: train.minutes=60; `regard settings` tells all.",
        ),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Go on with a run from its newest whole checkpoint, as if it had never stopped."""
    from regard.host.machine import keep_memory
    from regard.lens.screen import Screen
    from regard.runs.train import resume as go_on

    keep_memory()
    screen = Screen()
    done = go_on(run, settings or [], screen.say, [screen])
    if screen.loss is None:  # it has seen no step
        screen.say(f"{run}: it was done already; for more: {spell_more(done)}")
    report_end(done, as_json)


def spell_more(done: TrainedRun) -> str:
    """What is typed to train a run beyond its end."""
    from regard.runs.folder import Run

    spent, spec = done.report.moment.spent, Run.open(done.folder).spec.train
    used = {"steps": spent.steps, "epochs": spent.epochs, "tokens": spent.tokens, "minutes": spent.clock / 60}
    ended = [f"train.{key}=N" for key, share in used.items() if (limit := getattr(spec, key)) and share >= limit]
    words = ended if done.report.reason == "budget" else ["train.patience=N"]
    return f"regard resume {quote(str(done.folder))} {' '.join(words)}".rstrip()


def report_end(run: TrainedRun, as_json: bool) -> None:
    """What a training that came to its end has to say."""
    from regard.cli.evaluate import show_numbers  # here, since help lists verbs in the order of their import
    from regard.runs.load import usage

    moment, measures = run.report.moment, dict(run.report.measures or {})
    facts = {"run": str(run.folder), "reason": run.report.reason, "steps": moment.step, "tokens": moment.tokens}
    facts |= {"seconds": round(moment.seconds, 1)}
    if as_json:
        print(json.dumps(facts | measures))
    else:
        print("  ".join(f"{name} {format_number(value)}" for name, value in facts.items()))
        show_numbers(measures)
    name = quote(str(run.folder))
    ways = dict.fromkeys([usage(str(run.folder)), f"regard eval {name}", f"regard plot {name}"])
    hint(", or ".join(ways))


@verb("Train, and look after runs")
def plan(
    config: CONFIG,
    settings: CHANGES = None,
    as_json: JSON = False,
) -> None:
    """Parameters, memory, tokens a second measured here, and how long a run will take. Nothing is trained or kept."""
    from regard.host.machine import keep_memory
    from regard.lens.screen import clock
    from regard.runs.plan import plan as measure

    keep_memory()
    found = settle_doubts(lambda settled: measure(settled, ProgressMeter()), read_config(config).change(settings or []))
    if as_json:
        print(json.dumps(vars(found)))
        return
    print(f"model        {found.model}, {found.parameters:,} parameters")
    print(f"state        {found.state_bytes_per_token:,} bytes a generated token")
    print(f"memory       {found.peak_memory / 2**20:,.0f} MB at most, on {found.device}")
    print(f"speed        {found.tokens_per_second:,.0f} {found.counted}/s, {found.steps_per_second:.2f} steps/s")
    print(f"time         {clock(found.seconds)}")
    hint(join(["regard", "train", str(config), *(settings or [])]))


@verb("Train, and look after runs")
def verify(
    run: FOLDER,
    steps: Annotated[int, typer.Option(metavar="N", help="The number of steps to train, twice.", min=2)] = 20,
    as_json: JSON = False,
) -> None:
    """Prove that a run resumes to the bit: train it twice, once with a break, and compare every digest."""
    from regard.host.machine import keep_memory
    from regard.runs.verify import verify as prove

    keep_memory()
    proof = prove(run, steps, ProgressMeter())
    if as_json:
        print(json.dumps({**vars(proof), "exact": proof.exact}))
    else:
        for name, digest in proof.straight.items():
            same = "equal" if proof.resumed.get(name) == digest else f"DIFFERENT: {proof.resumed.get(name)}"
            print(f"{name:12} {digest[:16]}  {same}")
    if not proof.exact:
        raise RegardError(
            f"{run}: {steps} steps with a break aren't the same as without", "device=cpu, and one machine"
        )
    hint(f"regard resume {quote(str(run))}")


@verb("Train, and look after runs")
def average(
    run: FOLDER,
    last: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of checkpoints to average, the most recent ones.", min=0),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of checkpoints to average, those that validated best.", min=0),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Average the weights of several checkpoints; from then on RUN means the average, and RUN@best the best."""
    from regard.runs.average import average as write_average

    if bool(last) == bool(best):
        raise SpecError("the last checkpoints or the best?", f"regard average {quote(str(run))} --last 2")
    written, steps = write_average(run, last or 0, best or 0, ProgressMeter())
    if as_json:
        print(json.dumps({"path": str(written.path), "steps": steps}))
    else:
        print(f"{written.path}  from steps {', '.join(f'{step:,}' for step in steps)}")
    hint(f"regard eval {quote(f'{run}@average')}")
