"""A busy machine: training and decoding with one other process computing: `python -m bench.busy CORPUS [--quick]`.

Each side is measured quiet, quiet without giving way to others, and beside a process that computes without end on the
same cores. Turns as everywhere; the neighbour lives for its turn only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import (
    Side,
    Worker,
    find_corpus,
    finish,
    make_parser,
    read_words,
    report,
    say,
    take_turns,
    watch_others,
)
from bench.material import make_run
from bench.page import Bar, Table
from bench.training import FILES, SMOKE, begin_run

QUIET, HEEDLESS, BUSY = "quiet", "quiet, giving way to nobody", "beside a busy process"
TABLE = Table(
    "A busy machine",
    "tokens a second",
    (QUIET, HEEDLESS, BUSY),
    (
        Bar("busy ÷ quiet", (BUSY,), (QUIET,), least=0.6),
        Bar("quiet ÷ giving way to nobody", (QUIET,), (HEEDLESS,), least=0.98),
    ),
    command="python -m bench.busy CORPUS",
)
# without end, but no longer than whoever began it
LOOP = """import math, os
began = os.getppid()
while os.getppid() == began:
    for n in range(10**6):
        math.sqrt(n)
"""


@contextmanager
def keep_busy() -> Iterator[None]:
    """One process that computes, for as long as this takes."""
    neighbour = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


def measure_case(case: str, system: str, job: str, settings: Mapping[str, Any], words: Namespace) -> bool:
    say(f"{TABLE.title}: {case}")
    ways = {True: QUIET, False: HEEDLESS}
    with watch_others() as others:
        workers = {
            name: Worker(Side(name, system, job, {**settings, "gives_way": way}, "ours"), words.threads)
            for way, name in ways.items()
        }
        try:

            def disturb() -> float:
                with keep_busy():
                    return workers[QUIET].measure()

            turns: dict[str, Callable[[], float]] = {name: worker.measure for name, worker in workers.items()}
            figures = take_turns({**turns, BUSY: disturb}, words.rounds, "more")
            versions = ", ".join(f"{name} {number}" for name, number in workers[QUIET].versions.items())
        finally:
            for worker in workers.values():
                worker.close()
    return report(TABLE, case, figures, words, versions, others[0])


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("corpus", type=Path, help=f"the folder with {', '.join(FILES)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round of training (20)")
    words = read_words(parser)
    corpus, seconds = find_corpus(words.corpus, *FILES), 8.0 if words.quick else words.seconds
    with tempfile.TemporaryDirectory() as folder:
        more = SMOKE if words.quick else []
        run = begin_run(corpus, Path(folder) / "training", "transformer-tiny", 0.15, seconds, "fp32", *more)
        held = measure_case("training Transformer-tiny", "learner", "train", {"run": str(run.folder)}, words)
        model = make_run(Path(folder) / "decoding", "translation", "transformer-tiny")
        work = {"run": str(model), "precision": "fp32", "shortest": 8, "longest": 24, "vocabulary": 8000}
        work |= {
            "rows": 64 if words.quick else 512,
            "batch": 64,
            "beam": 5,
            "steps": 6 if words.quick else 20,
            "seconds": seconds,
        }
        held &= measure_case("decoding with Transformer-tiny, beam 5", "ours", "translate", work, words)
    finish(held, words)


if __name__ == "__main__":
    main()
