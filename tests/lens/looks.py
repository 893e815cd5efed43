"""Looks to be drawn: small ones of every shape, and one as large as the viewer promises to open."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.lens.page import Figure

SOURCE = ["▁The", "▁small", "▁cat", "▁in", "▁the", "▁gar", "den", "▁sleeps", ".", "[EOS]"]
TARGET = ["▁Le", "▁petit", "▁chat", "▁dans", "▁le", "▁jar", "din", "▁dort", ".", "[EOS]"]
STORY = [
    "▁It",
    "▁was",
    "▁the",
    "▁best",
    "▁of",
    "▁times",
    ",",
    "▁it",
    "▁was",
    "▁the",
    "▁age",
    "▁of",
    "▁fool",
    "ish",
    "ness",
]

Array = NDArray[np.float32]


def make_weights(heads: int, rows: int, columns: int, *, causal: bool = False, seed: int = 0) -> Array:
    """Softmax weights of random scores."""
    scores = np.random.default_rng(seed).normal(size=(heads, rows, columns)).astype(np.float32)
    if causal:
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)  # (heads, rows, columns)


def make_axis(tokens: list[str]) -> dict[str, Any]:
    """Tokens and their words: a piece without a mark, a bracket or a full stop goes on with the one before it."""
    words: list[list[int]] = []
    for n, token in enumerate(tokens):
        if n and token.isalpha():
            words[-1][1] = n + 1
        else:
            words.append([n, n + 1])
    return {"tokens": tokens, "words": words}


def make_map(name: str, weights: Array, rows: str, columns: str) -> dict[str, Any]:
    stack, _, layer, part, what = name.split(".")
    entropy = -(weights * np.log(weights + 1e-30)).sum(-1).mean(-1)
    summary = [
        {"entropy": float(entropy[head]), "distance": float(head), "importance": float((7 * head + int(layer)) % 5)}
        for head in range(len(weights))
    ]
    places = {"rows": rows, "columns": columns, "array": name, "summary": summary}
    return {
        "name": name, "stack": stack, "part": part, "what": what, "layer": int(layer), "heads": len(weights)
    } | places  # fmt: skip


def make_predictions(tokens: list[str]) -> list[dict[str, Any]]:
    found = []
    for n, token in enumerate(tokens):
        probability = 0.9 - 0.8 * ((n * 5) % 7) / 7
        rest = [[f"▁other{k}", (1 - probability) / 2**k] for k in range(1, 5)]
        facts = {"log_probability": float(np.log(probability)), "rank": 1 + n % 3, "entropy": 0.25 * n}
        found.append({"position": n, "token": token, "alternatives": [[token, probability], *rest], **facts})
    return found


def make_look(maps: dict[str, Array], axes: dict[str, Any], **more: Any) -> Figure:
    """A figure whose maps' axes follow from their names, as a model's would."""
    told = []
    for name, weights in maps.items():
        rows = "source" if name.startswith("encoder") and "source" in axes else "target"
        columns = "slots" if name.endswith(("reads", "writes")) else "source" if ".cross." in name else rows
        told.append(make_map(name, weights, rows, columns))
    usual = {"title": "a title", "model": "a model", "predictions": []}
    return Figure("look", {**usual, "axes": axes, "maps": told, **more}, maps)


def translate(layers: int = 3, heads: int = 4) -> Figure:
    """An encoder–decoder: three groups of maps."""
    maps = {}
    for n in range(layers):
        maps[f"encoder.blocks.{n}.mix.weights"] = make_weights(heads, len(SOURCE), len(SOURCE), seed=n)
        maps[f"decoder.blocks.{n}.mix.weights"] = make_weights(
            heads, len(TARGET), len(TARGET), causal=True, seed=n + 50
        )
        maps[f"decoder.blocks.{n}.cross.weights"] = make_weights(heads, len(TARGET), len(SOURCE), seed=n + 100)
    axes = {"source": make_axis(SOURCE), "target": make_axis(TARGET)}
    return make_look(maps, axes, predictions=make_predictions(TARGET), model="transformer-tiny")


def write(tokens: int = 64, layers: int = 4, heads: int = 4, *, causal: bool = True) -> Figure:
    """A decoder alone, of any size."""
    text = (STORY * (tokens // len(STORY) + 1))[:tokens]
    names = [f"decoder.blocks.{n}.mix.weights" for n in range(layers)]
    maps = {name: make_weights(heads, tokens, tokens, causal=causal, seed=n) for n, name in enumerate(names)}
    return make_look(maps, {"target": make_axis(text)}, predictions=make_predictions(text), model="gpt2")


def attend() -> Figure:
    """An attentive recurrent network: one layer, one head."""
    maps = {"decoder.blocks.0.cross.weights": make_weights(1, len(TARGET), len(SOURCE))}
    return make_look(maps, {"source": make_axis(SOURCE), "target": make_axis(TARGET)})


def turn() -> Figure:
    """A Neural Turing Machine: reads and writes of numbered slots, and no predictions."""
    names = {"decoder.blocks.0.mix.reads": 2, "decoder.blocks.0.mix.writes": 1}
    maps = {name: make_weights(heads, 5, 12) for name, heads in names.items()}
    return make_look(maps, {"target": make_axis(["▁1", "▁2", "▁3", "▁4", "▁5"]), "slots": {"size": 12}})


def single() -> Figure:
    """The smallest map there is."""
    maps = {"decoder.blocks.0.mix.weights": np.ones((1, 1, 1), np.float32)}
    return make_look(maps, {"target": make_axis(["▁hi"])}, title="", model="")


def puzzle() -> Figure:
    """Texts that are hard to set, a weight that is no number, a map that is wider than high."""
    tokens = ["▁" + "Donaudampfschiff" * 20, "▁مرحبا", "▁👩‍👩‍👧", "̈", "▁\u202eevil", "\n", "", "\ud800", "▁漢字"]
    weights = make_weights(2, len(tokens), len(tokens))
    weights[0, 1, 2] = np.nan
    return make_look({"encoder.blocks.0.mix.weights": weights}, {"target": make_axis(tokens)})


def stretch() -> Figure:
    """One row that is longer than any screen, and an axis that nobody described."""
    maps = {"decoder.blocks.0.cross.weights": make_weights(2, 1, 1500)}
    return make_look(maps, {"target": make_axis(["▁hi"])})
