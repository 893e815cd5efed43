"""Run files of the small trainings that experiments share, so that only what is asked about differs between models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def make_translation(
    model: Mapping[str, Any], tokens: int, rate: float, test: int = 500, batch: int = 512, **train: Any
) -> dict[str, Any]:
    """Translate the built-in English into French, as the demo does: so many target tokens, each model in one order.

    `batch`: tokens of a step; half as many are twice the steps, which a short training needs more than it needs speed.
    `train`: further settings of training, such as schedule or clip.
    """
    return {
        "task": {"kind": "translation", "smoothing": 0.0},
        "corpus": {
            "kind": "en-fr",
            "level": "first",
            "train": max(1000, tokens // 12),
            "validation": 0,
            "test": test,
            "combinations": 0,
        },
        "tokenizer": {"pieces": "bpe", "vocabulary": 2000},
        "batches": {"tokens": batch, "buckets": 40},
        "model": dict(model),
        "train": {
            "tokens": tokens,
            "optimizer": {"kind": "adamw", "rate": rate, "decay": 0.0},
            "schedule": {"kind": "linear"},
            "evaluate": 0,
            "save": 100_000,
            **train,
        },
    }


def make_algorithm(
    corpus: Mapping[str, Any], model: Mapping[str, Any], steps: int, rate: float, rows: int = 64, **train: Any
) -> dict[str, Any]:
    """Learn an algorithmic problem; `corpus` says which, and of what sizes."""
    return {
        "task": {"kind": "algorithm"},
        "corpus": {"validation": 0, "test": 200, **corpus},
        "tokenizer": {"pieces": "given"},
        "batches": {"rows": rows},
        "model": dict(model),
        "train": {
            "steps": steps,
            "optimizer": {"kind": "adamw", "rate": rate, "decay": 0.01},
            "schedule": {"kind": "linear"},
            "evaluate": 0,
            "save": 100_000,
            **train,
        },
    }
