"""All tables, one after the other: `python -m bench [--multi30k FOLDER] [--shakespeare FOLDER] [--runs RUN...]`.

What the tables share (`--quick`, `--rounds`, `--page`, …) is handed on to each. A table that wants a corpus or
runs which aren't given is left out by name; one that fails doesn't keep the others from their turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.harness import ROOT, say

# in the order of the page; whoever reads real text says which
TABLES: dict[str, str | None] = {
    "decoding": None,
    "generation": None,
    "encoding": None,
    "training": "multi30k",
    "losses": "multi30k",
    "gpt": "shakespeare",
    "scan": None,
    "pixels": None,
    "memory": None,
    "windows": None,
    "busy": "multi30k",
    "starting": None,
    "preparing": "multi30k",
    "growth": None,
    "precision": "runs",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--multi30k", type=Path, help="the folder with train.en, train.fr, val.en, val.fr")
    parser.add_argument("--shakespeare", type=Path, help="the folder with input.txt")
    parser.add_argument("--runs", type=Path, nargs="+", help="trained runs, whose quality in each precision is told")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="these only")
    words, shared = parser.parse_known_args()
    missed = []
    for name in words.tables:
        wanted = TABLES[name]
        folders = {"multi30k": [words.multi30k], "shakespeare": [words.shakespeare], "runs": words.runs or [None]}
        given = [] if wanted is None else [str(folder.resolve()) for folder in folders[wanted] if folder is not None]
        if wanted is not None and not given:
            missed.append(f"{name}: nothing to work on; try --{wanted} FOLDER")
            continue
        say(f"== {name}")
        done = subprocess.run([sys.executable, "-m", f"bench.{name}", *given, *shared], cwd=ROOT, check=False)
        if done.returncode:
            missed.append(f"{name}: ended with status {done.returncode}")
    say("== the ratios that the design promises")
    subprocess.run([sys.executable, str(ROOT / "bench" / "mixers.py")], cwd=ROOT, check=False)
    for line in missed:
        print(line)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
