"""What each precision costs in quality, and what it brings: `python -m bench.precision RUN... [--quick]`.

Any runs that were trained: each is evaluated as `regard eval RUN --precision P` does, on its own test set and by its
own measures. Precisions take turns, and each has a process of its own. Something is promised of a translator's BLEU and
of a language model's perplexity; a classifier's accuracy and the like are told.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness import (
    Missing,
    Side,
    Worker,
    finish,
    make_parser,
    make_ready,
    read_words,
    report,
    say,
    take_turns,
    tell_versions,
    watch_others,
)
from bench.page import Bar, Figures, Table
from regard.core.product import PRECISIONS
from regard.runs.evaluate import name_model
from regard.runs.folder import Run

COMMAND = "python -m bench.precision RUN..."
# in this order, whichever of them a task has
MEASURES = ("bleu", "perplexity", "accuracy", "exact", "error", "found", "bits")
# what is promised of 8 bits: so much less BLEU, or so much more perplexity at most; half precision loses a tenth of it
PROMISED = {"bleu": 0.3, "perplexity": 0.01}
SHARES = {"fp16": 0.1, "bf16": 0.1, "int8": 1.0}
QUALITY = Table(
    "Quality by precision",
    "measures of runs on their own test sets",
    PRECISIONS,
    command=COMMAND,
    note="Against fp32: for BLEU, accuracy and the like a difference, for perplexity and errors a quotient.",
    places=5,
)
SPEED = Table(
    "Speed by precision",
    "seconds of the same evaluations, with loading the run and scoring what it said",
    PRECISIONS,
    tuple(Bar(f"fp32 ÷ {name}", ("fp32",), (name,)) for name in PRECISIONS[1:]),
    better="less",
    command=COMMAND,
)


def list_bars(measure: str, rising: bool) -> tuple[Bar, ...]:
    """What is told, and promised, of a measure in each precision."""
    bars = []
    for name in PRECISIONS[1:]:
        most = PROMISED[measure] * SHARES[name] if measure in PROMISED and name in SHARES else None
        bar = Bar(f"{name} against fp32", (name,), ("fp32",), how="−" if rising else "÷", digits=4)
        if most is not None:
            bar = replace(bar, least=-most) if rising else replace(bar, most=1 + most)
        bars.append(bar)
    return tuple(bars)


def choose_measures(run: Run) -> dict[str, bool]:
    """What is told of a run, each with whether more is better."""
    known = run.spec.task.known_measures()
    found = {name: known[name] for name in MEASURES if name in known}
    if not found:
        raise SystemExit(f"{run.folder}: {run.spec.task.kind} reports none of {', '.join(MEASURES)}")
    return found


def evaluate_all(
    workers: dict[str, Worker], measures: Sequence[str], rounds: int
) -> tuple[Figures, dict[str, Figures]]:
    """Seconds at best, and each measure, of all precisions."""
    seconds: dict[str, float | str] = {}
    found: dict[str, dict[str, float | str]] = {name: {} for name in measures}
    for _ in range(rounds):
        turns = {name: worker.measure for name, worker in workers.items() if not isinstance(seconds.get(name), str)}
        for name, took in take_turns(turns, 1, "less").items():
            before = seconds.get(name, took)
            seconds[name] = took if isinstance(took, str) or isinstance(before, str) else min(before, took)
            for measure in measures:  # they were found meanwhile, and are the same in every round
                try:
                    found[measure][name] = took if isinstance(took, str) else workers[name].measure()
                except Missing as error:
                    found[measure][name] = str(error)
    return seconds, dict(found)


def measure_run(folder: Path, words: Namespace) -> bool:
    run = Run.open(folder)
    measures = choose_measures(run)
    case = f"{folder.name} ({name_model(str(folder))})"
    if not re.search(words.only, case):
        return True
    say(f"{QUALITY.title}: {case}")
    settings: dict[str, Any] = {"run": str(folder), "measures": list(measures)}
    sides = [Side(name, "ours", "evaluate", {**settings, "precision": name}, "ours") for name in PRECISIONS]
    with watch_others() as others, make_ready(sides, words.threads) as (workers, missing):
        seconds, found = evaluate_all(workers, list(measures), words.rounds)
        versions = tell_versions(workers.values())
    held = True
    for measure, rising in measures.items():
        table = replace(QUALITY, bars=list_bars(measure, rising), better="more" if rising else "less")
        held &= report(table, f"{case}: {measure}", {**found[measure], **missing}, words, versions, others[0])
    return report(SPEED, case, {**seconds, **missing}, words, versions, others[0]) and held


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs that were trained")
    words = read_words(parser)
    held = True
    for folder in words.runs:
        held &= measure_run(folder.resolve(), words)
    finish(held, words)


if __name__ == "__main__":
    main()
