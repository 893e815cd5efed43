"""What takes minutes: the claims about algorithms, at a small size, by the verbs that anybody would type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.test_cli import regard
from tests.cli.test_verbs import told

pytestmark = pytest.mark.long


def solved(
    folder: Path, corpus: dict[str, Any], model: dict[str, Any], train: dict[str, Any], tokens: int
) -> dict[int, float]:
    """The share of problems of each size that are solved after training."""
    torch.set_num_threads(1)
    usual = {"evaluate": 0, "save": 100_000, "schedule": {"kind": "linear", "warmup": 100}}
    tree = {
        "task": "algorithm",
        "corpus": {"train": 50_000, "validation": 50, "test": 300, **corpus},
        "tokenizer": {"pieces": "given"},
        "batches": {"tokens": tokens, "longest": 400},
        "model": model,
        "train": {**usual, **train},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    (folder / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(folder / "run.yaml"))
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("eval", str(folder / "run"), "--beam", "1", "--json"))
    return {int(size): share for size, share in found["by_size"].items()}


def between(shares: dict[int, float], first: int, last: int) -> float:
    chosen = [share for size, share in shares.items() if first <= size <= last]
    return sum(chosen) / len(chosen)


def test_the_turing_machine_learns_to_copy_and_holds_past_its_training_length(tmp_path: Path) -> None:
    shares = solved(
        tmp_path,
        {"kind": "copy", "symbols": 6, "sizes": [1, 12], "test_sizes": [1, 16]},
        {"kind": "ntm", "width": 64, "slots": 32, "size": 16},
        {"steps": 2500, "optimizer": {"kind": "adam", "rate": 0.002}, "clip": 10.0},
        256,
    )
    assert between(shares, 1, 12) > 0.98
    assert between(shares, 13, 16) > 0.8


INDUCTION = {"kind": "induction", "sizes": [4, 32], "test_sizes": [32, 64]}


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "decoder-tiny", "width": 64, "depth": 2, "heads": 2, "position": "rotary"},
        {"kind": "mamba-130m", "width": 64, "depth": 2},
    ],
    ids=["attention", "mamba"],
)
def test_two_layers_learn_induction(tmp_path: Path, model: dict[str, Any]) -> None:
    shares = solved(tmp_path, INDUCTION, model, {"steps": 1200, "optimizer": {"kind": "adamw", "rate": 0.002}}, 2048)
    assert shares[32] > 0.95
    assert between(shares, 33, 64) > 0.5


def test_a_network_that_thinks_longer_solves_parity_and_takes_more_steps_where_it_is_harder(tmp_path: Path) -> None:
    """The published task at a quarter of its length."""
    torch.set_num_threads(1)
    tree = {
        "task": "reckoning",
        "corpus": {"kind": "parity", "length": 16, "sizes": [1, 16], "train": 50_000, "test": 1000},
        "batches": {"rows": 128},
        "model": {"kind": "act-rnn", "width": 64},
        "train": {
            "steps": 6000,
            "evaluate": 0,
            "save": 100_000,
            "optimizer": {"kind": "adam", "rate": 0.002, "betas": [0.9, 0.99]},
            "schedule": {"kind": "cosine", "warmup": 100},
        },
        "device": "cpu",
        "out": str(tmp_path / "run"),
    }
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(tmp_path / "run.yaml"))
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("eval", str(tmp_path / "run"), "--json"))
    steps = {int(size): count for size, count in found["steps_by_size"].items()}
    assert found["exact"] > 0.95, found
    assert between(steps, 9, 16) > between(steps, 1, 4)
