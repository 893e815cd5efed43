"""What takes minutes: hulls, sorted points, copied names, repeated and recalled items, at a small size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.test_cli import regard
from tests.cli.test_verbs import told

pytestmark = pytest.mark.long


def reach(folder: Path, tree: dict[str, Any], *words: str) -> dict[str, Any]:
    """What a test set says of a run after its training."""
    torch.set_num_threads(1)
    usual = {"evaluate": 0, "save": 100_000, "schedule": {"kind": "linear", "warmup": 100}, "clip": 2.0}
    tree = {**tree, "train": {**usual, **tree["train"]}, "device": "cpu", "out": str(folder / "run")}
    (folder / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(folder / "run.yaml"))
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("eval", str(folder / "run"), "--json", *words))
    return dict(found)


def test_a_pointer_network_sorts_points(tmp_path: Path) -> None:
    found = reach(
        tmp_path,
        {
            "task": "pointing",
            "corpus": {"kind": "sort-points", "train": 20_000, "validation": 20, "test": 300, "sizes": [2, 5]},
            "batches": {"rows": 64},
            "model": {"kind": "pointer-network", "width": 64},
            "train": {"steps": 800, "optimizer": {"kind": "adam", "rate": 0.005}},
        },
    )
    assert found["exact"] > 0.9


def test_a_transformer_that_points_goes_around_hulls(tmp_path: Path) -> None:
    found = reach(
        tmp_path,
        {
            "task": {"kind": "pointing", "search": {"min_tokens": 3}},
            "corpus": {"kind": "hull", "train": 40_000, "validation": 20, "test": 300, "sizes": [5, 6]},
            "batches": {"rows": 128},
            "model": {"kind": "transformer-tiny", "width": 64, "depth": 2, "heads": 8, "hidden": 128, "dropout": 0.0},
            "train": {"steps": 1200, "optimizer": {"kind": "adamw", "rate": 0.001, "decay": 0.0}, "clip": 1.0},
        },
    )
    assert found["exact"] > 0.5  # by chance, one in a hundred


@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_names_that_were_never_seen_are_copied(tmp_path: Path, coverage: float) -> None:
    tree = {
        "task": {"kind": "translation", "smoothing": 0.0},
        "corpus": {"kind": "notices", "train": 6000, "validation": 20, "test": 200},
        "tokenizer": {"pieces": "word", "least": 60},
        "batches": {"rows": 32},
        "model": {"kind": "pointer-generator", "width": 64, "dropout": 0.0, "coverage": coverage},
        "train": {"steps": 400, "optimizer": {"kind": "adam", "rate": 0.003}},
    }
    assert reach(tmp_path, tree)["exact"] > 0.9


@pytest.mark.parametrize(
    ("corpus", "steps"),
    [
        ({"kind": "repeat-copy", "sizes": [1, 4], "symbols": 4, "repeats": 3}, 1500),
        ({"kind": "associative-recall", "sizes": [2, 3], "symbols": 4, "length": 1}, 2000),
    ],
    ids=["repeat-copy", "recall"],
)
def test_a_turing_machine_repeats_and_recalls(tmp_path: Path, corpus: dict[str, Any], steps: int) -> None:
    tree = {
        "task": "algorithm",
        "corpus": {"train": 50_000, "validation": 50, "test": 300, **corpus},
        "tokenizer": {"pieces": "given"},
        "batches": {"rows": 16},
        "model": {"kind": "ntm", "width": 64, "slots": 32, "size": 16},
        "train": {"steps": steps, "optimizer": {"kind": "adam", "rate": 0.002}, "clip": 10.0},
    }
    assert reach(tmp_path, tree, "--beam", "1")["exact"] > 0.8
