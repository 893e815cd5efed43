"""Recipes that train in moments: copying letters."""

from __future__ import annotations

from typing import Any

from regard.config import Document

DECODER = {"kind": "decoder-tiny", "depth": 1, "width": 16, "heads": 2}
RECURRENT = {"kind": "lstm", "width": 16}


def make_recipe(model: dict[str, Any], *words: str) -> Document:
    """A run file of a few steps."""
    tree = {
        "task": "algorithm",
        "corpus": {"kind": "copy", "train": 60, "validation": 8, "test": 4},
        "tokenizer": {"pieces": "given"},
        "batches": {"rows": 8},
        "model": model,
        "train": {"steps": 3, "evaluate": 0, "goal": "loss"},
        "out": "unused",
    }
    return Document(tree).change(words)
