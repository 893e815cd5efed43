"""A data set of small graphs with folds, and a recipe that trains on it in moments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.config import Document

GRAPHS, FOLDS = 24, 3


def write_graphs(folder: Path) -> None:
    """Paths of two to four nodes, which are labelled by whether they are long."""
    lines = [str(GRAPHS)]
    for number in range(GRAPHS):
        nodes = 2 + number % 3
        lines.append(f"{nodes} {'long' if nodes > 2 else 'short'}")
        for node in range(nodes):
            beside = [other for other in (node - 1, node + 1) if 0 <= other < nodes]
            lines.append(f"{number % 5} {len(beside)} {' '.join(map(str, beside))}")
    (folder / "graphs.txt").write_text("\n".join(lines) + "\n")
    parts = {
        str(fold): {
            "train": [n for n in range(GRAPHS) if n // 8 != fold - 1],
            "test": [n for n in range(GRAPHS) if n // 8 == fold - 1],
        }
        for fold in range(1, FOLDS + 1)
    }
    (folder / "folds.json").write_text(json.dumps(parts))


def make_folded(folder: Path, *words: str) -> Document:
    """A run file of a few steps on such graphs, which are written into a folder."""
    write_graphs(folder)
    reader: dict[str, Any] = {"kind": "tu", "path": "graphs.txt", "folds": "folds.json", "fold": 1}
    tree = {
        "task": "graphs",
        "data": str(folder),
        "corpus": {"train": reader, "test": {**reader, "part": "test"}, "split": {"validation": 0.3}},
        "batches": {"rows": 8},
        "model": {"kind": "gin", "width": 8, "depth": 1},
        "train": {"steps": 2, "evaluate": 2, "save": 2, "schedule": {"kind": "linear", "warmup": 1}},
        "device": "cpu",
        "out": "unused",
    }
    return Document(tree).change(words)
