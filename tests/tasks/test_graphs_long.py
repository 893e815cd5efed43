"""What takes minutes: edges are worth what they should be, by the verbs that anybody would type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.test_cli import regard
from tests.cli.test_verbs import told

pytestmark = pytest.mark.long


def learn(folder: Path, corpus: dict[str, Any], model: dict[str, Any], answer: str = "label", steps: int = 200) -> Any:
    """Every measure on test graphs after training."""
    torch.set_num_threads(1)
    tree = {
        "task": {"kind": "graphs", "answer": answer},
        "corpus": {"train": 1000, "validation": 100, "test": 200, **corpus},
        "batches": {"rows": 32},
        "model": {"width": 32, "depth": 3, **model},
        "train": {
            "steps": steps,
            "optimizer": {"kind": "adamw", "rate": 0.003, "decay": 0.01},
            "schedule": {"kind": "cosine", "warmup": 20},
            "evaluate": 0,
            "save": 100_000,
        },
        "device": "cpu",
        "out": str(folder / "run"),
    }
    (folder / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(folder / "run.yaml"))
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("eval", str(folder / "run"), "--json"))
    return found


@pytest.mark.parametrize(
    ("corpus", "chance"),
    # rings of more nodes differ little by walks of eight steps, and take longer
    [({"kind": "skip-links"}, 0.1), ({"kind": "cycles", "sizes": [6, 10]}, 0.5)],
    ids=["skip-links", "cycles"],
)
def test_rings_are_chance_for_messages_and_solved_by_walks(
    tmp_path: Path, corpus: dict[str, Any], chance: float
) -> None:
    found = {}
    for name, model in (("plain", {"kind": "gin"}), ("walks", {"kind": "gin", "walks": 8})):
        (tmp_path / name).mkdir()
        found[name] = learn(tmp_path / name, corpus, model, steps=400)["accuracy"]
    assert found["plain"] < chance + 0.1 and found["walks"] > 0.95, found


@pytest.mark.parametrize("kind", ["gin", "gcn", "graph-gps", "graph-mamba", "graph-mamba-walks"])
def test_every_model_with_edges_tells_nodes_of_trees_and_one_without_does_not(tmp_path: Path, kind: str) -> None:
    found = learn(tmp_path, {"kind": "trees"}, {"kind": kind}, "node-labels")
    assert found["accuracy"] > 0.85
    (tmp_path / "blind").mkdir()
    blind = learn(tmp_path / "blind", {"kind": "trees"}, {"kind": "deep-sets"}, "node-labels", 60)
    assert blind["accuracy"] < found["accuracy"] - 0.2
