"""What takes minutes: parity, gates, sums and sorting by networks that think for several steps, sorting by one that
repeats a block, and questions that a programmer answers, at a small size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_long_pointing import reach

pytestmark = pytest.mark.long

COSINE = {"kind": "cosine", "warmup": 100}


def reckon(
    folder: Path, corpus: dict[str, Any], model: dict[str, Any], train: dict[str, Any], rows: int = 128
) -> dict[str, Any]:
    """What a network that thinks reaches on vectors."""
    tree = {
        "task": "reckoning",
        "corpus": {"train": 50_000, "validation": 50, "test": 1000, **corpus},
        "batches": {"rows": rows},
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
    corpus = {"kind": "parity", "length": 12, "sizes": [1, 12]}
    train = {"steps": 1000, "optimizer": {"kind": "adam", "rate": 0.003, "betas": [0.9, 0.99]}}
    found = reckon(tmp_path, corpus, {"kind": "pondernet"}, train)
    assert found["exact"] > 0.9, found


def test_an_lstm_that_thinks_longer_follows_logic_gates(tmp_path: Path) -> None:
    corpus = {"kind": "logic", "sizes": [1, 2], "gates": 2, "longest": 3}
    train = {"steps": 1000, "optimizer": {"kind": "adam", "rate": 0.005, "betas": [0.9, 0.99]}}
    found = reckon(tmp_path, corpus, {"kind": "act-lstm"}, train, rows=32)
    assert found["accuracy"] > 0.9, found  # by chance, half of the bits


@pytest.mark.parametrize(
    ("corpus", "steps", "least"),
    [
        ({"kind": "sorting", "sizes": [2, 4]}, 1000, 0.85),
        ({"kind": "addition", "sizes": [1, 2], "numbers": 2}, 1500, 0.8),
    ],
    ids=["sorting", "addition"],
)
def test_an_lstm_that_thinks_longer_sorts_and_adds(
    tmp_path: Path, corpus: dict[str, Any], steps: int, least: float
) -> None:
    model = {"kind": "act-lstm", "halt": {"kind": "adaptive", "cost": 0.01, "limit": 6}}
    train = {"steps": steps, "optimizer": {"kind": "adam", "rate": 0.005, "betas": [0.9, 0.99]}}
    found = reckon(tmp_path, corpus, model, train, rows=64)
    assert found["exact"] > least, found


@pytest.mark.parametrize(
    ("kind", "rate"), [("universal-transformer", 0.002), ("universal-tiny", 0.003), ("universal-decoder", 0.003)]
)
def test_a_universal_transformer_sorts(tmp_path: Path, kind: str, rate: float) -> None:
    model = {"kind": kind, "width": 64, "heads": 4, "hidden": 128, "dropout": 0.0}
    tree = {
        "task": "algorithm",
        "corpus": {"kind": "sort", "symbols": 6, "sizes": [1, 5], "train": 50_000, "validation": 50, "test": 300},
        "tokenizer": {"pieces": "given"},
        "batches": {"tokens": 1024},
        "model": {**model, "halt": {"kind": "adaptive", "limit": 4}},
        "train": {"steps": 350, "optimizer": {"kind": "adamw", "rate": rate}, "clip": 1.0},
    }
    assert reach(tmp_path, tree, "--beam", "1")["exact"] > 0.8


@pytest.mark.parametrize("kind", ["neural-programmer", "neural-programmer-2015"])
def test_a_programmer_answers_questions_about_longer_tables(tmp_path: Path, kind: str) -> None:
    tree = {
        "task": "question",
        "corpus": {
            **{"kind": "tables", "train": 5000, "validation": 20, "test": 300, "seed": 1},
            **{"rows": [5, 20], "test_rows": [30, 30]},
        },
        "tokenizer": {"pieces": "given"},
        "batches": {"rows": 64},
        "model": {"kind": kind, "width": 64},
        "train": {
            **{"steps": 900, "schedule": {"kind": "cosine", "warmup": 50}, "clip": 1.0},
            "optimizer": {"kind": "adam", "rate": 0.002, "betas": [0.9, 0.999]},
        },
    }
    assert reach(tmp_path, tree)["exact"] > 0.8
