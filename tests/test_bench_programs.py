"""Every program of the bench runs at small sizes where nobody else is installed, and says what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import TABLES
from bench.page import read_rows
from regard.config import Document
from regard.data.corpora.english_french.corpus import EnglishFrench
from regard.data.log import Log
from regard.runs.train import train

HOME = Path(__file__).parents[1]
# a column of ours in each program's page, and whether others stand beside it
PROGRAMS = {
    "decoding": ("ours int8 without our kernels", True),
    "generation": ("ours int8", True),
    "encoding": ("ours fp32", True),
    "training": ("ours", True),
    "losses": ("ours", True),
    "gpt": ("ours", True),
    "scan": ("ours, whole, without our kernels", True),
    "pixels": ("whole", False),
    "memory": ("ours", False),
    "windows": ("ours", False),
    "busy": ("quiet", False),
    "starting": ("regard --help", False),
    "preparing": ("ours", False),
    "growth": ("time", False),
    "precision": ("fp32", False),
}


def write_pairs(folder: Path) -> Path:
    """A small corpus with the names of Multi30k's files, by the grammar that ships."""
    corpus = EnglishFrench(train=1200, validation=60, test=10, combinations=0)
    for split, stem in (("train", "train"), ("validation", "val")):
        pairs = list(corpus.samples("pairs", split, Path(), Log()))  # type: ignore[arg-type]
        for side, ending in (("source", "en"), ("target", "fr")):
            (folder / f"{stem}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return folder


def write_text(folder: Path) -> Path:
    (folder / "input.txt").write_text((HOME / "README.md").read_text(encoding="utf-8") * 3, encoding="utf-8")
    return folder


def teach(folder: Path) -> Path:
    corpus = {"kind": "en-fr", "train": 300, "validation": 20, "test": 20}
    model = {"kind": "transformer-tiny", "width": 32, "depth": 1, "heads": 2, "hidden": 32}
    tree = {"task": "translation", "corpus": corpus, "model": model, "train": {"steps": 10, "evaluate": 0}}
    train(Document({**tree, "device": "cpu", "out": str(folder / "run")}))
    return folder / "run"


GIVEN = {"multi30k": write_pairs, "shakespeare": write_text, "runs": teach}


def test_no_program_is_forgotten() -> None:
    assert PROGRAMS.keys() == TABLES.keys()


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_where_nobody_else_is_installed(name: str, tmp_path: Path) -> None:
    wanted, page = TABLES[name], tmp_path / "page.md"
    (tmp_path / "given").mkdir()
    given = [] if wanted is None else [str(GIVEN[wanted](tmp_path / "given"))]
    command = [sys.executable, "-m", f"bench.{name}", *given, "--quick", "--page", str(page)]
    told = {**os.environ, "BENCH_PEERS": str(tmp_path / "nothing"), "PYTHONPATH": str(HOME)}
    done = subprocess.run(command, cwd=HOME, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ours, compares = PROGRAMS[name]
    sections = re.split(r"(?m)^(?=## )", page.read_text(encoding="utf-8"))
    rows = [row for section in sections for row in read_rows(section) if ours in row]
    assert rows and all(re.match(r"[\d,.e+-]+$", row[ours]) for row in rows), rows
    said = [cell for row in rows for cell in row.values() if cell.startswith("missing: ")]
    # sizes of a smoke run are so small that memory may not grow with them
    said = [cell for cell in said if "no exponent" not in cell]
    assert bool(said) == compares and all("isn't there" in cell for cell in said), said
    assert all(row["versions"] not in ("", "–") for row in rows)
