"""What does 1/√d do? Softmax over dot products, with the scale and without it, by the width of a head.

The dot product of two random vectors of d numbers has the variance d. Unscaled scores so grow with √d, the softmax
takes one key almost alone, and its gradient, p(1 − p), goes (Vaswani et al. 2017, section 3.2.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.recipe import make_translation
from regard.lens.plot import Plot, make_series
from regard.tasks.measures import average

WIDTHS = (16, 64, 256, 1024)
QUERIES, KEYS = 256, 64
RANDOM, TRAINED = "softmax over random keys", "training"
SCALES = ("scaled", "unscaled")


class SoftmaxTemperature(Experiment):
    """Entropy and gradients of a softmax by the width, and two trainings that differ in the scale alone."""

    name = "temperature"
    place = 90
    question = "What does 1/√d do?"
    claim = "Without the scale, dot products grow with the width, the softmax saturates and its gradients vanish."
    method = (
        "Entropy of the weights, and the norm of the scores' gradient, for random queries and keys; then the same "
        "small Transformer is trained with one head of each size, with and without the scale, on the same sentences."
    )
    minutes = 1
    full_minutes = 12

    def measure(self, bench: Bench) -> Tables:
        generator = torch.Generator().manual_seed(bench.seed)
        random = [
            {"width": width, "scale": scale, **probe_softmax(width, scale == "scaled", generator)}
            for width in WIDTHS
            for scale in SCALES
        ]
        return {TRAINED: self._train(bench), RANDOM: random}

    def _train(self, bench: Bench) -> Rows:
        sizes, seeds, tokens = (
            bench.choose((16, 64, 256), (16, 64, 256, 512)),
            bench.seeds(1, 3),
            bench.choose(150_000, 400_000),
        )
        cells = list(product(sizes, SCALES, seeds))
        runs = bench.train(
            {
                f"{scale}-{size}-{seed}": describe_run(size, scale == "scaled", tokens) | {"seed": seed}
                for size, scale, seed in cells
            }
        )
        rows = []
        for size, scale in product(sizes, SCALES):
            found = [bench.evaluate(runs[f"{scale}-{size}-{seed}"], beam=1) for seed in seeds]
            loss, exact = (average([measures[name] for measures in found]) for name in ("loss", "exact"))
            rows.append(
                {
                    "size": size,
                    "scale": scale,
                    "loss": loss.value,
                    "low": loss.low,
                    "high": loss.high,
                    "exact": exact.value,
                }
            )
        return rows

    def conclude(self, tables: Tables) -> Conclusion:
        random = {(row["width"], row["scale"]): row for row in tables[RANDOM]}
        widest = max(row["width"] for row in tables[RANDOM])
        sharp, soft = random[widest, "unscaled"], random[widest, "scaled"]
        lost = soft["gradient"] / sharp["gradient"]
        trained = {(row["size"], row["scale"]): row["loss"] for row in tables[TRAINED]}
        largest = max(row["size"] for row in tables[TRAINED])
        gap = trained[largest, "unscaled"] - trained[largest, "scaled"]
        told = (
            f"At a width of {widest}, unscaled weights have an entropy of {sharp['entropy']:.2f} nats instead of "
            f"{soft['entropy']:.2f}, and {lost:.0f} times less gradient comes through; with heads of {largest}, "
            f"training without the scale ends {abs(gap):.2f} nats {'worse' if gap > 0 else 'better'}."
        )
        return Conclusion(lost > 2 and sharp["entropy"] < soft["entropy"] and gap > 0, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        trained, random = tables[TRAINED], tables[RANDOM]
        losses = make_series(trained, "scale", "size", "loss", ("low", "high"))
        entropies, gradients = (make_series(random, "scale", "width", name) for name in ("entropy", "gradient"))
        return [
            Plot("Test loss by the size of a head", "size of a head", "nats", losses, ("across",)),
            Plot("Entropy of the weights over random keys", "width", "nats", entropies, ("across",)),
            Plot("Gradient that reaches the scores", "width", "norm", gradients, ("across", "down")),
        ]


def probe_softmax(width: int, scaled: bool, generator: torch.Generator) -> dict[str, float]:
    """Entropy of the weights over random keys, and how much of a random gradient reaches the scores."""
    queries, keys = (torch.randn(count, width, generator=generator) for count in (QUERIES, KEYS))
    scores = (queries @ keys.T / (math.sqrt(width) if scaled else 1.0)).requires_grad_()
    weights = scores.softmax(-1)
    weights.backward(torch.randn(QUERIES, KEYS, generator=generator))
    assert scores.grad is not None
    entropy = -torch.xlogy(weights, weights).sum(-1).mean()
    return {"entropy": float(entropy.detach()), "gradient": float(scores.grad.norm(dim=-1).mean())}


def describe_run(size: int, scaled: bool, tokens: int) -> dict[str, Any]:
    """A small Transformer whose heads have a size; all else is equal."""
    heads = {"heads": 1, "size": size, **({} if scaled else {"scale": 1.0})}
    model = {"kind": "transformer-tiny", "depth": 1, "mix": heads, "cross": heads, "dropout": 0.0}
    return make_translation(model, tokens, rate=0.003)
