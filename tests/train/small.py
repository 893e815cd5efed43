"""Runs that take a second: a few sentences of the built-in corpus and models of a few thousand weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import Document, assignments, merge
from regard.runs.folder import Run
from regard.train.listener import Journal, Listener
from regard.train.trainer import Trainer

MODELS: dict[str, dict[str, Any]] = {
    "gru": {"kind": "seq2seq", "cell": "gru", "width": 16, "dropout": 0.1},
    "attentive": {"kind": "luong-feed", "width": 16, "dropout": 0.1},
    "transformer": {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 2, "hidden": 32, "dropout": 0.1},
}


def document(out: Path, *words: str, model: str = "transformer") -> Document:
    """A run file as a tree."""
    tree = {
        "corpus": {"kind": "en-fr", "train": 300, "validation": 12, "test": 12, "combinations": 0, "longest": 7},
        "tokenizer": {"vocabulary": 300},
        "batches": {"tokens": 120},
        "model": MODELS[model],
        "train": {"steps": 12, "evaluate": 5, "save": 4, "schedule": {"kind": "linear", "warmup": 3}},
        "device": "cpu",
        "out": str(out),
    }
    return Document(merge(tree, assignments(words)))


def begun(out: Path, *words: str, model: str = "transformer") -> Run:
    return Run.begin(document(out, *words, model=model))


def trainer(run: Run, *listeners: Listener) -> Trainer:
    """A trainer of a run, at its start or at its newest checkpoint."""
    heard: Sequence[Listener] = [Journal(run.folder / "metrics.jsonl"), *listeners]
    found = run.trainer(heard)
    newest = run.store.latest()
    if newest is not None:
        found.restore(newest)
    return found
