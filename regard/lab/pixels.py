"""Does order matter? The same pictures, pixel by pixel, in four orders, by a recurrence and by attention.

The chain rule holds for every order, so one that knew the pictures perfectly would need as many nats in each. A model
that learns from a few thousand pictures doesn't: where neighbours stand close in the sequence, it learns faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from regard.core.order import Order, walk
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lens.plot import Plot, Point, make_series

ORDERS: tuple[Order, ...] = ("raster", "s-curve", "hilbert", "random")
# about 100,000 parameters each
MODELS: dict[str, dict[str, Any]] = {
    "recurrence": {"kind": "pixel-lstm", "width": 80, "depth": 2},
    "attention": {"kind": "pixel-gpt", "width": 64, "depth": 2},
}
ROWS = 32  # pictures of a batch
NATS, SEEDS = "nats a picture", "each training"


class PixelOrder(Experiment):
    """Nats a picture by order, for an LSTM and a Transformer of one size."""

    name = "pixels"
    place = 150
    question = "Does order matter?"
    claim = (
        "A picture may be read in any order, but a model learns it best where neighbours come one after the other, and "
        "a recurrence depends on that more than attention, which reaches every pixel alike."
    )
    method = (
        "An LSTM and a Transformer of about 100,000 parameters learn small drawn scenes pixel by pixel: in rows, in "
        "rows that turn at the ends, along Hilbert's curve and in a random order. All see the same pictures, equally "
        "often; what counts is how many nats a new picture takes."
    )
    minutes = 2
    full_minutes = 30

    def measure(self, bench: Bench) -> Tables:
        side, steps, seeds = bench.choose(12, 24), bench.choose(150, 600), bench.seeds(2, 3)
        cells = list(product(MODELS, ORDERS, seeds))
        runs = bench.train(
            {
                name_run(model, order, seed): describe_run(model, order, seed, side, steps)
                for model, order, seed in cells
            }
        )
        trainings = []
        with bench.watch("measuring", len(cells)) as advance:
            for model, order, seed in cells:
                found = bench.evaluate(runs[name_run(model, order, seed)])
                interval = {"low": found["nats_low"], "high": found["nats_high"]}
                row = {"model": model, "order": order, "seed": seed, "nats": found["nats"], **interval}
                trainings.append({**row, "bits": found["bits"]})
                advance()
        return {NATS: summarise(trainings, side), SEEDS: trainings}

    def conclude(self, tables: Tables) -> Conclusion:
        table = {(row["model"], row["order"]): row for row in tables[NATS]}
        near = [order for order in ORDERS if order != "random"]
        matters = all(table[model, "random"]["low"] > table[model, order]["high"] for model in MODELS for order in near)
        costs = {model: find_costs(tables[SEEDS], model) for model in MODELS}
        more = min(costs["recurrence"]) > max(costs["attention"])
        best = {model: min((table[model, order]["nats"], order) for order in ORDERS) for model in MODELS}
        parts = [
            f"{model} needs {table[model, 'random']['nats']:.1f} nats a picture in a random order and "
            f"{best[model][0]:.1f} in its best one ({best[model][1]})"
            for model in MODELS
        ]
        mean = {model: float(np.mean(cost)) for model, cost in costs.items()}
        less = max(costs["recurrence"]) < min(costs["attention"])
        compared = "more" if more else "less"
        apart = f"{compared} for the recurrence with every seed" if more or less else "which the seeds don't tell apart"
        told = (
            f"{parts[0][0].upper()}{parts[0][1:]}, {parts[1]}; against rows, a random order costs the recurrence "
            f"{mean['recurrence']:.0%} and attention {mean['attention']:.0%}, {apart}."
        )
        return Conclusion(matters and more, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        nats = make_series(tables[NATS], "model", "order", "nats", ("low", "high"))
        apart = {"neighbours": [Point(row["order"], row["apart"]) for row in tables[NATS][: len(ORDERS)]]}
        return [
            Plot("A new picture in four orders", "order", "nats", nats, note="Whiskers: 95 %, over pictures."),
            Plot("How far apart neighbours are in the sequence", "order", "steps, the mean", apart),
        ]


def name_run(model: str, order: str, seed: int) -> str:
    return f"{model}-{order}-{seed}"


def describe_run(model: str, order: str, seed: int, side: int, steps: int) -> dict[str, Any]:
    """One training. The rate of 0.005 was the first that was tried, on validation pictures of 16 × 16."""
    return {
        "seed": seed,
        "task": {
            "kind": "pixels",
            "size": side,
            "fit": "resize",
            "channels": 1,
            "levels": 4,
            "order": order,
            "seed": seed,
        },
        "corpus": {
            "kind": "scenes",
            "train": ROWS * steps,
            "validation": 1,
            "test": 400,
            "combinations": 0,
            "most": 2,
        },
        "batches": {"rows": ROWS},
        "model": dict(MODELS[model]),
        "train": {
            "steps": steps,
            "optimizer": {"kind": "adamw", "rate": 0.005, "decay": 0.0},
            "schedule": {"kind": "cosine", "warmup": 20},
            "evaluate": 0,
            "save": 100_000,
        },
    }


def summarise(trainings: Rows, side: int) -> list[dict[str, Any]]:
    """The mean of all seeds for each model and order, beside how far apart the order puts neighbours.

    The interval is the mean of the seeds' own, over pictures: it tells what other pictures would change.
    """
    rows = []
    for model, order in product(MODELS, ORDERS):
        own = [row for row in trainings if (row["model"], row["order"]) == (model, order)]
        means = {key: float(np.mean([row[key] for row in own])) for key in ("nats", "low", "high", "bits")}
        seeds = {"least": min(row["nats"] for row in own), "most": max(row["nats"] for row in own)}
        rows.append({"model": model, "order": order, "apart": measure_distance(order, side), **means, **seeds})
    return rows


def measure_distance(order: Order, side: int, seed: int = 1) -> float:
    """How many steps of the sequence lie between two pixels that touch by a side, the mean over all such pairs."""
    when = np.empty(side * side, np.int64)
    when[walk(order, side, side, seed)] = np.arange(side * side)
    plane = when.reshape(side, side)
    gaps = [np.abs(np.diff(plane, axis=axis)).ravel() for axis in (0, 1)]
    return float(np.concatenate(gaps).mean())


def find_costs(trainings: Rows, model: str) -> list[float]:
    """What a random order costs against rows, as a share, seed by seed."""
    nats: Mapping[tuple[str, int], float] = {
        (row["order"], row["seed"]): row["nats"] for row in trainings if row["model"] == model
    }
    return [nats["random", seed] / nats["raster", seed] - 1 for order, seed in nats if order == "random"]
