"""A small checkpoint whose every byte follows from its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.train.checkpoint import Store


def contents(step: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    weights = {"a": torch.randn(20, 10, generator=generator), "b": torch.tensor(step)}
    return {
        "tensors": {"model": weights, "optimizer": {"m": weights["a"] * 2}},
        "data": {"state": {"step": step, "rng": [1, 2, 3]}, "spec": {"kind": "model"}},
        "more": {"tokenizer.json": b'{"version": "1.0"}'},
    }


def save(store: Store, step: int) -> Path:
    return store.save(step, **contents(step)).path


def whole(store: Store) -> int:
    """The newest step, after comparing all that it holds."""
    found = store.latest()
    assert found is not None
    expected = contents(found.step)["tensors"]["model"]
    loaded = found.tensors("model")
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)
    assert found.json("state")["step"] == found.step
    return found.step
