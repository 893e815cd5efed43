"""How long it takes until something happens: `python -m bench.starting [--quick]`.

`regard --help`, and `regard translate` of one line by a run of Transformer-tiny, each in a process of its own from its
first instruction to its end, beside a Python that only imports torch. Files are in the system's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import ROOT, find_versions, finish, make_parser, read_words, report, say, take_turns, watch_others
from bench.material import make_run
from bench.page import Bar, Table

HELP, LINE, TORCH, LIMIT = "regard --help", "regard translate, one line", "import torch", "what help may take"
MOST = 0.3  # seconds
TABLE = Table(
    "Starting",
    "seconds from the first instruction to the end",
    (HELP, LINE, TORCH, LIMIT),
    (
        Bar(f"help ÷ {MOST} s", (HELP,), (LIMIT,), most=1.0),
        Bar("translate ÷ import torch", (LINE,), (TORCH,), most=1.5),
    ),
    better="less",
    command="python -m bench.starting",
)


def time_command(*command: str) -> Callable[[], float]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def measure() -> float:
        began = time.perf_counter()
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed\n{done.stderr}")
        return took

    return measure


def main() -> None:
    words = read_words(make_parser(__doc__))
    say(TABLE.title)
    with tempfile.TemporaryDirectory() as folder, watch_others() as others:
        run = make_run(Path(folder) / "tiny", "translation", "transformer-tiny")
        sides = {
            HELP: time_command("-m", "regard", "--help"),
            LINE: time_command("-m", "regard", "translate", str(run), "w1 w2 w3"),
            TORCH: time_command("-c", "import torch"),
            LIMIT: lambda: MOST,
        }
        take_turns(sides, 1, "less")  # compiled files and the system's cache are filled
        figures = take_turns(sides, max(words.rounds, 1), "less")
    versions = ", ".join(f"{name} {number}" for name, number in find_versions(("torch",)).items())
    finish(report(TABLE, "a process of its own", figures, words, versions, others[0]), words)


if __name__ == "__main__":
    main()
