"""What takes minutes: parity and gates by networks that think for several steps, sorting by one that repeats a block, and
questions that a programmer answers, at a small size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_long_pointing import reach

pytestmark = pytest.mark.long

COSINE = {"kind": "cosine", "warmup": 100}


def reckon(folder: Path, corpus: dict[str, Any], model: dict[str, Any], train: dict[str, Any]) -> dict[str, Any]:
    """What a network that thinks reaches on vectors."""
    tree = {
        "task": "reckoning",
        "corpus": {"train": 50_000, "validation": 50, "test": 1000, **corpus},
        "batches": {"rows": 128},
        "model": {"width": 64, **model},
        "train": {"schedule": COSINE, "clip": 1.0, **train},
    }
    return reach(folder, tree)


def test_two_steps_each_solve_parity(tmp_path: Path) -> None:
    corpus = {"kind": "parity", "length": 12, "sizes": [1, 12]}
    train = {"steps": 3000, "optimizer": {"kind": "adam", "rate": 0.002, "betas": [0.9, 0.99]}}
    found = reckon(tmp_path, corpus, {"kind": "repeat-rnn"}, train)
    assert found["exact"] > 0.95 and found["steps"] == 2, found


def test_pondernet_solves_parity(tmp_path: Path) -> None:
    corpus = {"kind": "parity", "length": 8, "sizes": [1, 8], "train": 400, "test": 60}
    train = {"steps": 1000, "optimizer": {"kind": "adam", "rate": 0.003, "betas": [0.9, 0.99]}}
    found = reckon(tmp_path, corpus, {"kind": "pondernet"}, train)
    assert found["exact"] > 0.9, found
